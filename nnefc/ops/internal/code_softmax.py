"""code_softmax: the softmax of codes along the last dimension, rounded to codes.

    code_softmax(codes) {axes, scale, result_scale, result_zero, rounding}

The exponential of scale * (code - largest code of the row) is a whole number of 2^-23, one of the
256 of `powers`, so that sums do not depend on the order of their terms.  The result is

    round(powers[largest - code] * factor) + result_zero, clamped

with factor = 1 / (sum of powers * result_scale), computed in float64 and rounded to float32.  The
product is rounded to float32, too; halves go to even codes or up, as `rounding` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nnefc.ir import Op
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.cost import Cost, input_items
from nnefc.ops.core.spec import Interpreter, OpSpec, internal
from nnefc.ops.core.traits import OPAQUE
from nnefc.ops.extended.quantized import ROUNDINGS, code_limits, nearest
from nnefc.ops.internal.code_table import BYTES

NAME: Final = "code_softmax"
ONE: Final = 1 << 23
"""The exponential of 0; larger numbers would not be exact in float32."""


def powers(scale: float) -> Array:
    """The exponentials of -scale * d for d = 0, 1, ..., 255, in int64."""
    return np.rint(np.exp(-scale * np.arange(256.0)) * ONE).astype(np.int64)


def _problems(op: Op) -> list[str]:
    types = [v.type for v in (*op.inputs, *op.outputs)]
    if any(type_.dtype not in BYTES for type_ in types) or types[0].shape != types[1].shape:
        return ["operand and result are codes of 8 bits with one shape"]
    if tuple(op.attributes["axes"]) != (types[0].rank - 1,):
        return ["only the last dimension is summed"]
    if op.attributes["rounding"] not in ROUNDINGS:
        return [f"rounding is one of {', '.join(ROUNDINGS)}"]
    low, high = code_limits(types[1].dtype)
    return [] if low <= op.attributes["result_zero"] <= high else ["the zero point is no code"]


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    del interpreter
    (codes,) = operands
    attributes, codes = op.attributes, codes.astype(np.int64)
    terms = powers(attributes["scale"])[codes.max(-1, keepdims=True) - codes]
    factor = 1 / (terms.sum(-1, keepdims=True) * attributes["result_scale"])
    units = terms.astype(np.float32) * factor.astype(np.float32)
    whole = nearest(units.astype(np.float64), attributes["rounding"])
    return [np.clip(whole + attributes["result_zero"], *code_limits(op.output.type.dtype))]


def _operations(op: Op) -> int:
    """Of an item: maximum, lookup, sum, and lookup of the result."""
    return 4 * input_items(op)


SPECS: tuple[OpSpec, ...] = (
    internal(
        name=NAME,
        summary="Softmax of codes along the last dimension, rounded to codes.",
        verify=_problems,
        evaluate=_evaluate,
        traits=OPAQUE._replace(cost=Cost(None, _operations), batch=batch_rules.axes),
    ),
)
