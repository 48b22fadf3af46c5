"""Sum codes instead of the reals that they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final

from nnefc.ir import DType, Graph, Op
from nnefc.ops.extended.integer_products import EXACT
from nnefc.ops.extended.quantized import code_limits
from nnefc.ops.internal.code_sums import PLAIN
from nnefc.passes.analysis.code_parameters import CodeParameters, code_parameters, scaled
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import replace

ON_CODES = {spec.name: name for name, spec in PLAIN.items()}
"""The operations on codes, by the names of those on reals."""
_PLANES: Final = 4
"""The rank of tensors with batch, channels, rows and columns."""


@dataclass(frozen=True)
class SumCodes:
    """Replace sums and means of dequantized tensors by those of codes less their zero point.

        %a: float32[1,8,6,6] = dequantize(%x, %s, %z)
        %y: float32[1,8,1,1] = sum_reduce(%a) {axes = [2, 3], normalize = true}

    becomes

        %1: float32[1,8,1,1] = code_sum_reduce(%x) {axes = [2, 3], normalize = true, zero = 3}
        %y: float32[1,8,1,1] = mul(%1, %s)

    The codes must have one known scale and zero point, and their sums be exact in float32.  Sums of
    codes in int32 become the same with a zero point of 0, and a cast, if they are over positions:

        %a: int32[1,8,6,6] = cast(%x)
        %y: int32[1,8,1,1] = sum_reduce(%a) {axes = [2, 3]}

    becomes

        %1: float32[1,8,1,1] = code_sum_reduce(%x) {axes = [2, 3], zero = 0}
        %y: int32[1,8,1,1] = cast(%1)
    """

    name: ClassVar[str] = "sum_codes"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known, changed = KnownValues(graph), False
        for op in list(graph.ops):
            if op.name not in ON_CODES or op.inputs[0] in known:
                continue
            codes = code_parameters(op.inputs[0].op, "dequantize")
            if codes is not None and float_reason(op, codes) is None:
                _sum_codes(graph, op, codes)
                changed = True
            elif codes is None and _sums_integers(op):
                _sum_as_reals(graph, op)
                changed = True
        return changed


def float_reason(op: Op, codes: CodeParameters) -> str | None:
    """Why a sum of codes is computed in floats; None if it need not be."""
    if not _is_exact(op, codes.dtype, codes.zero):
        return "sums are not exact in float32"
    return None if op.output.type.volume else "there are no results"


def _is_exact(op: Op, dtype: DType, zero: int) -> bool:
    """Whether sums of codes less `zero` are exact in float32."""
    dims, attributes = op.inputs[0].type.dims, op.attributes
    if op.name == "box":
        terms = math.prod(attributes["size"])
    else:
        axes: tuple[int, ...] = attributes["axes"]
        terms = math.prod(dims[axis] for axis in axes)
    low, high = code_limits(dtype)
    return bool(terms * max(high - zero, zero - low) <= EXACT)


def _sums_integers(op: Op) -> bool:
    """Whether an operation sums codes in int32 over several positions of planes."""
    source, result = op.inputs[0].op, op.output.type
    if op.name != "sum_reduce" or source is None or source.name != "cast":
        return False
    dtype = source.inputs[0].type.dtype
    return (
        result.dtype is DType.INT32
        and dtype in (DType.INT8, DType.UINT8)
        and not op.attributes["normalize"]
        and result.rank == _PLANES
        and len(op.attributes["axes"]) == 2
        and bool(result.volume)
        and _is_exact(op, dtype, 0)
    )


def _sum_as_reals(graph: Graph, op: Op) -> None:
    """Replace a sum of codes in int32."""
    source = op.inputs[0].op
    assert source is not None, "it casts codes"
    attributes = {**op.attributes, "zero": 0}
    real = op.output.type.with_dtype(DType.FLOAT32)
    made = Op(ON_CODES[op.name], source.inputs[:1], attributes, [real], (), op.location)
    reals = graph.insert(made, op).output
    wide = Op("cast", [reals], {}, [op.output.type], location=op.location)
    whole = graph.insert(wide, op).output
    whole.name = op.output.name
    replace(graph, op, [whole])


def _sum_codes(graph: Graph, op: Op, codes: CodeParameters) -> None:
    source = op.inputs[0].op
    assert source is not None, "it dequantizes"
    attributes = {**op.attributes, "zero": codes.zero}
    made = Op(ON_CODES[op.name], source.inputs[:1], attributes, [op.output.type], (), op.location)
    real = scaled(graph, graph.insert(made, op).output, codes.scale, op)
    real.name = op.output.name
    replace(graph, op, [real])
