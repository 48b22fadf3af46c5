"""Interpolate codes instead of the reals that they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnefc.ir import Graph, Op, Value
from nnefc.ops.internal.code_resize import PLAIN, denominator, how_of
from nnefc.passes.analysis.blocked_support import MAX_PLANE, MAX_RANK
from nnefc.passes.analysis.code_parameters import CodeParameters, code_parameters, roundings_of
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import replace
from nnefc.symbolic.traced_array import traced_call

ON_CODES = {spec.name: name for name, spec in PLAIN.items()}
"""The operations on codes, by the names of those on reals."""


@dataclass(frozen=True)
class FuseCodeResize:
    """Replace linear interpolation of codes that is rounded to codes.

        %a: float32[1,8,6,6] = dequantize(%x, %s, %z)
        %b: float32[1,8,12,12] = resize(%a) {interpolator = "linear", ...}
        %y: uint8[1,8,12,12] = quantize(%b, %t, %u)

    becomes

        %y: uint8[1,8,12,12] = code_resize(%x) {interpolator = "linear", ..., zero = 3, ratio = 1.0,
          result_zero = 3, rounding = "even"}

    Scales and zero points must be known numbers, and all users must round to codes of 8 bits.
    """

    name: ClassVar[str] = "fuse_code_resize"
    enters_loops: ClassVar[bool] = False

    def run(self, graph: Graph) -> bool:
        known, changed = KnownValues(graph), False
        for op in list(graph.ops):
            if op.name in ON_CODES and op.inputs[0] not in known:
                changed |= _fuse(graph, op)
        return changed


def float_reason(op: Op) -> str | None:
    """Why an interpolation of codes is computed in floats; None if it need not be."""
    if op.attributes.get("interpolator", "linear") != "linear":
        return f"the interpolation is '{op.attributes['interpolator']}'"
    graph, users = op.graph, op.output.users
    assert graph is not None, "a removed operation computes nothing"
    is_read = graph.is_output(op.output) or not users
    if is_read or any(user.name != "quantize" for user in users):
        return "the result is not quantized"
    results = roundings_of(graph, op.output)
    if results is None:
        return "the result has several scales or zero points, or computed ones"
    codes = code_parameters(op.inputs[0].op, "dequantize")
    if any(not each.are_bytes for each in (codes, *results.values()) if each is not None):
        return "codes have 16 bits"
    x, y = op.inputs[0].type, op.output.type
    if not 3 <= x.rank <= MAX_RANK:
        return f"codes have {x.rank} dimensions"
    if not y.volume:
        return "there are no results"
    if x.dims[:2] != y.dims[:2]:
        return "batch or channels are interpolated"
    if any(math.prod(type_.dims[2:]) > MAX_PLANE for type_ in (x, y)):
        return "planes are too large"
    (product,) = traced_call(denominator, op.name, x.dims, y.dims, how_of(op))
    return None if product > 0 else "weights have no small common denominator"


def _fuse(graph: Graph, op: Op) -> bool:
    x, codes = op.inputs[0], code_parameters(op.inputs[0].op, "dequantize")
    if codes is None or x.op is None or float_reason(op) is not None:
        return False
    results = roundings_of(graph, op.output)
    assert results is not None, "`float_reason` excludes it"
    for user, result in results.items():
        replace(graph, user, [_inserted(graph, op, user, x.op.inputs[0], codes, result)])
    return True


def _inserted(
    graph: Graph, op: Op, user: Op, x: Value, codes: CodeParameters, result: CodeParameters
) -> Value:
    """The codes of the interpolation, with the parameters of a result."""
    attributes = {
        **op.attributes,
        "zero": codes.zero,
        "ratio": float(np.float32(codes.scale / result.scale)),
        "result_zero": result.zero,
        "rounding": result.rounding,
    }
    names = [user.output.name]
    made = Op(ON_CODES[op.name], [x], attributes, [user.output.type], names, user.location)
    return graph.insert(made, user).output
