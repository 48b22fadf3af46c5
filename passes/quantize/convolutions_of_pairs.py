"""Sum convolutions of codes of 16 bits in integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from nnefc.ir import Attribute, DType, Expression, Graph, Op, TensorType, Value
from nnefc.ops.core.spec import Emit
from nnefc.ops.tools.build import emitter
from nnefc.ops.tools.convolution import is_reversed
from nnefc.passes.analysis.integer_support import CODES_16, convolution_reason
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.analysis.parts_of_sums import parts_of_convolution
from nnefc.passes.op_queries import replace
from nnefc.passes.quantize.code_borders import with_padding_of_zero
from nnefc.passes.quantize.cut_planes import cut_planes
from nnefc.passes.quantize.fuse_code_convolutions import FUSED, sums_of_reals
from nnefc.passes.quantize.moved_codes import source_of

_SUMS: Final = Expression((DType.INT32,), (), (0,))
_SHIFT: Final = 1 << 15
"""What uint16 exceeds int16 by."""


@dataclass(frozen=True)
class ConvolutionsOfPairs:
    """Replace convolutions of codes of 16 bits by operations that sum them in int32.

        %y: int64[1,8,6,6] = integer_conv(%x, %w, %z, %0) {..., wide = true}

    becomes, if a bound of the sums from the known weights fits int32,

        %1: int32[1,8,6,6] = fused_code_conv(%x, %w, %z, %0) {..., expression = the sums}
        %y: int64[1,8,6,6] = cast(%1)

    Otherwise the channels of the input are cut into parts whose sums fit, which are added in int64.
    Kernels multiply pairs of int16, so codes of uint16 are converted.  Convolutions of dequantized
    codes become such sums, times the product of the scales.
    """

    name: ClassVar[str] = "convolutions_of_pairs"
    enters_loops: ClassVar[bool] = False

    def run(self, graph: Graph) -> bool:
        known, changed = KnownValues(graph), False
        for op in list(graph.ops):
            y = None
            if op.name in FUSED and op.inputs[0].type.dtype in CODES_16:
                y = _in_type_of(graph, op, _sums(graph, op, op, known))
            elif op.name in ("conv", "deconv"):
                y = _reals(graph, op, known)
            if y is not None:
                y.name = op.output.name
                replace(graph, op, [y])
                changed = True
        return changed


def _reals(graph: Graph, op: Op, known: KnownValues) -> Value | None:
    """A convolution of dequantized codes by sums of the codes; None if it stays."""
    codes = source_of(op.inputs[0])
    if codes is None or codes.dequantize.inputs[0].type.dtype not in CODES_16:
        return None
    found = sums_of_reals(graph, op, known)
    if not isinstance(found, tuple):
        return None
    product, scale = found
    sums = _sums(graph, product, op, known)
    graph.erase(product)
    if sums is None:
        return None
    emit = emitter(graph, op, op.location)
    factors = scale.reshape(1, -1, *(1,) * (op.output.type.rank - 2)) if scale.ndim else scale
    type_ = TensorType(DType.FLOAT32, factors.shape)
    factor = graph.insert(constant_op(factors, type_, op.location), op).output
    real = emit("mul", emit("cast", sums, dtype=DType.FLOAT32), factor)
    return emit("add", real, op.inputs[2])


def _in_type_of(graph: Graph, op: Op, sums: Value | None) -> Value | None:
    dtype = op.output.type.dtype
    if sums is None or sums.type.dtype is dtype:
        return sums
    return emitter(graph, op, op.location)("cast", sums, dtype=dtype)


def _sums(graph: Graph, op: Op, before: Op, known: KnownValues) -> Value | None:
    """The sums of `op`, inserted before an operation: of int32 if a bound fits, otherwise of int64.

    None if there is no kernel.
    """
    if convolution_reason(op, known) is not None:
        return None
    parts = parts_of_convolution(op, known)
    assert parts is not None, "`convolution_reason` excludes it"
    emit = emitter(graph, before, op.location)
    codes, attributes = with_padding_of_zero(graph, op, known)
    zero = known.items(op.inputs[2])
    assert zero is not None, "`convolution_reason` excludes it"
    point = int(zero.item())
    if codes.type.dtype is DType.UINT16:
        codes, point = _as_int16(emit, graph, before, codes), point - _SHIFT
    x_zero = _constant(graph, before, np.array(point, np.int16))
    total: Any = None
    for part in parts:
        operands = [*_channels(graph, emit, op, before, codes, part, known), x_zero, op.inputs[3]]
        sums: Any = _part(graph, op, before, operands, attributes)
        if len(parts) > 1:
            sums = emit("cast", sums, dtype=DType.INT64)
        total = sums if total is None else emit("add", total, sums)
    return total


def _as_int16(emit: Emit, graph: Graph, before: Op, codes: Value) -> Value:
    shift = _constant(graph, before, np.array(_SHIFT, np.int32))
    moved = emit("sub", emit("cast", codes, dtype=DType.INT32), shift)
    return emit("cast", moved, dtype=DType.INT16)


def _constant(graph: Graph, before: Op, items: Any) -> Value:
    type_ = TensorType(DType(items.dtype.name), items.shape)
    return graph.insert(constant_op(items, type_, before.location), before).output


def _channels(
    graph: Graph, emit: Emit, op: Op, before: Op, codes: Value, part: slice, known: KnownValues
) -> Sequence[Value]:
    """Some channels of the codes, and their filter."""
    channels, filter_ = codes.type.dims[1], op.inputs[1]
    if (part.start, part.stop) == (0, channels):
        return codes, filter_
    items = known.items(filter_)
    assert items is not None, "`convolution_reason` excludes it"
    of_part = (part,) if is_reversed(op) else (slice(None), part)
    weights = np.ascontiguousarray(np.broadcast_to(items, filter_.type.dims)[of_part])
    taken = emit("slice", codes, axes=(1,), begin=(part.start,), end=(part.stop,))
    return taken, _constant(graph, before, weights)


def _part(
    graph: Graph,
    op: Op,
    before: Op,
    operands: Sequence[Value],
    attributes: Mapping[str, Attribute],
) -> Value:
    """The sums of some channels."""
    type_ = TensorType(DType.INT32, op.output.type.dims)
    given = {**attributes, "expression": _SUMS}
    fused = Op(FUSED[op.name], operands, given, [type_], (), op.location)
    graph.insert(fused, before)
    return cut_planes(graph, fused)
