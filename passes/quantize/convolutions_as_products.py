"""Multiply the windows of codes of 16 bits with filters as matrices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.window_arithmetic import Window
from nnefc.ops.extended.integer_products import LARGEST_SUM, WIDE
from nnefc.ops.extended.sum_bounds import bound_of_convolution
from nnefc.ops.tools.build import build, emitter
from nnefc.ops.tools.convolution import window_of
from nnefc.passes.analysis.integer_support import CODES, WIDE_CODES, wide_convolution_reason
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.op_queries import replace
from nnefc.passes.quantize.fuse_code_convolutions import number_of, sums_of_reals
from nnefc.passes.quantize.moved_codes import source_of


@dataclass(frozen=True)
class ConvolutionsAsProducts:
    """Replace convolutions of codes of 16 bits, which have no kernel, by products of matrices.

        %y: int64[1,8,6,6] = integer_conv(%x, %w, %z, %0) {...}

    becomes a product of the items of all windows, with channels last, and the filter as a matrix:

        %1: int16[1,6,6,4] = transpose(%x) {axes = [0, 2, 3, 1]}
        %2: int16[36,36] = the slices of %1 at all taps, joined along the channels
        %3: int64[36,8] = integer_matmul(%2, %v, %z, %0) {transposeB = true, ...}

    and %y is %3 with channels first.  The filter and all extents must be known, and there is one
    group.  The border of the input has the zero point, and windows have few taps.  Convolutions of
    dequantized codes become such products, times the product of the scales.
    """

    name: ClassVar[str] = "convolutions_as_products"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known, changed = KnownValues(graph), False
        for op in list(graph.ops):
            y = _sums(graph, op, known) if op.name == "integer_conv" else None
            if op.name == "conv":
                y = _reals(graph, op, known)
            if y is not None:
                y.name = op.output.name
                replace(graph, op, [y])
                changed = True
        return changed


def _sums(graph: Graph, op: Op, known: KnownValues) -> Value | None:
    """The sums of an `integer_conv` by a product; None if it stays."""
    x, w = (value.type.dtype for value in op.inputs[:2])
    if x not in WIDE_CODES or w not in CODES or wide_convolution_reason(op, known) is not None:
        return None
    return _product(graph, op, known)


def _reals(graph: Graph, op: Op, known: KnownValues) -> Value | None:
    """A convolution of dequantized codes by a product of the codes; None if it stays."""
    codes = source_of(op.inputs[0])
    if codes is None or codes.dequantize.inputs[0].type.dtype not in WIDE_CODES:
        return None
    found = sums_of_reals(graph, op, known)
    if not isinstance(found, tuple):
        return None
    narrow, scale = found
    exceeds = bound_of_convolution(narrow) > LARGEST_SUM
    attributes = {**narrow.attributes, WIDE: exceeds}
    conv = build(graph, narrow.name, narrow.inputs, attributes, before=op, location=op.location)
    sums = _sums(graph, conv, known)
    for each in (conv, narrow):
        graph.erase(each)
    if sums is None:
        return None
    emit = emitter(graph, op, op.location)
    factors = scale.reshape(1, -1, *(1,) * (op.output.type.rank - 2)) if scale.ndim else scale
    type_ = TensorType(DType.FLOAT32, factors.shape)
    factor = graph.insert(constant_op(factors, type_, op.location), op).output
    real = emit("mul", emit("cast", sums, dtype=DType.FLOAT32), factor)
    return emit("add", real, op.inputs[2])


def _product(graph: Graph, op: Op, known: KnownValues) -> Value:
    """The sums of a convolution by a product, inserted before it."""
    emit, window = emitter(graph, op, op.location), window_of(op)
    x, w, x_zero, w_zero = op.inputs
    rank, outputs = x.type.rank, w.type.dims[0]
    rows = emit("transpose", x, axes=(0, *range(2, rank), 1))
    if any(map(any, window.padding)):
        point = _items(known, x_zero)
        padding = ((0, 0), *window.padding, (0, 0))
        rows = emit("pad", rows, padding=padding, border="constant", value=float(point.item()))
    parts = [emit("slice", rows, axes=tuple(range(1, rank - 1)), **each) for each in _taps(window)]
    joined: Any = parts[0] if len(parts) == 1 else emit("concat", parts, axis=rank - 1)
    depth = w.type.volume // outputs
    count = op.output.type.volume // outputs
    matrix = emit("reshape", joined, shape=(count, depth))
    filter_ = np.moveaxis(np.broadcast_to(_items(known, w), w.type.dims), 1, -1)
    zeros = _items(known, w_zero)
    zeros = zeros.reshape(()) if zeros.size == 1 else zeros.reshape(-1, 1)

    def constant(items: Array) -> Value:
        type_ = TensorType(w.type.dtype, items.shape)
        return graph.insert(constant_op(items, type_, op.location), op).output

    factors = matrix, constant(filter_.reshape(outputs, depth)), number_of(graph, op, x_zero)
    is_wide = bool(op.attributes[WIDE])
    sums = emit(
        "integer_matmul",
        *factors,
        constant(zeros),
        transposeA=False,
        transposeB=True,
        **{WIDE: is_wide},
    )
    n, _, *extents = op.output.type.dims
    planes = emit("reshape", sums, shape=(n, *extents, outputs))
    return emit("transpose", planes, axes=(0, rank - 1, *range(1, rank - 1)))


def _taps(window: Window) -> Iterator[dict[str, Any]]:
    """The slices of the padded input that a tap of the window multiplies, tap by tap."""
    for tap in product(*map(range, window.size)):
        begin = tuple(t * d for t, d in zip(tap, window.dilation, strict=True))
        steps = zip(begin, window.output, window.stride, strict=True)
        end = tuple(b + (n - 1) * s + 1 for b, n, s in steps)
        yield {"begin": begin, "end": end, "stride": tuple(window.stride)}


def _items(known: KnownValues, value: Value) -> Array:
    items = known.items(value)
    assert items is not None, "`wide_convolution_reason` excludes it"
    return items
