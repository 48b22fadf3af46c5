"""Rewrite convolutions whose result is one pixel as matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnefc.ir import Graph, Op, Shape, Value
from nnefc.ops.core.window_arithmetic import Indices, convolution_groups, convolution_window
from nnefc.ops.tools.build import emitter
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.op_queries import is_elementwise, replace, splat, splat_op


@dataclass(frozen=True)
class FlattenConvolutions:
    """Replace convolutions whose only window covers the whole image by matrix products.

        %0: float32[3,4096,1,1] = conv(%x, %w, %b) {padding = [[0, 0], [0, 0]], ...}
        %y: float32[3,4096,1,1] = relu(%0)

    becomes, for %x: float32[3,256,6,6],

        %1: float32[3,9216] = reshape(%x) {shape = [3, 9216], ...}
        %2: float32[4096,9216] = reshape(%w) {shape = [4096, 9216], ...}
        %3: float32[3,4096] = matmul(%1, %2) {transposeA = false, transposeB = true}
        %4: float32[3,4096] = add(%3, %b)
        %5: float32[3,4096] = relu(%4)
        %y: float32[3,4096,1,1] = reshape(%5) {shape = [3, 4096, 1, 1], ...}

    A product reads its weights once for all items of the batch, a convolution once for each.  The
    convolution must have one group; taps on padding are removed.  Element-wise operations move
    before the last reshape, so that they can become the epilogue of the product, and the next
    convolution can be flattened, too.
    """

    name: ClassVar[str] = "flatten_convolutions"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known = KnownValues(graph)
        flat: dict[Value, Value] = {}
        """Values [items, channels, 1, ...] by their counterparts [items, channels]."""
        for op in graph.ops:
            if any(v.type.shape is None for v in (*op.inputs, *op.outputs)):
                continue
            if (taps := _covering_taps(op)) is not None:
                result = _product(graph, op, taps, flat, known)
            elif _follows(op, flat):
                result = _moved(graph, op, flat)
            else:
                continue
            pixel = emitter(graph, op, op.location)("reshape", result, shape=op.output.type.dims)
            operands = dict.fromkeys(op.inputs)
            replace(graph, op, [pixel])
            flat[pixel] = result
            for value in operands:
                if value in flat and not value.users and not graph.is_output(value):
                    assert value.op is not None
                    graph.erase(value.op)
        return bool(flat)


# -- convolutions


def _covering_taps(op: Op) -> tuple[slice, ...] | None:
    """The taps on the image, if `op` is a convolution whose only window covers all of it."""
    if op.name != "conv":
        return None
    dims, attributes = op.inputs[0].type.dims, op.attributes
    if convolution_groups(dims, attributes) != 1:
        return None
    window = convolution_window(dims, op.inputs[1].type.dims, attributes)
    if any(n != 1 for n in window.output):
        return None
    tables = window.tables(attributes["border"])
    covering = [_in_order(table[0], n) for table, n in zip(tables, window.input, strict=True)]
    return None if None in covering else tuple(taps for taps in covering if taps is not None)


def _in_order(indices: Indices, extent: int) -> slice | None:
    """The taps that read items 0 to `extent` - 1 in order; None if other items are read."""
    inside = np.flatnonzero(indices >= 0)
    if not np.array_equal(indices[inside], np.arange(extent)):
        return None
    return slice(int(inside[0]), int(inside[-1]) + 1)


def _product(
    graph: Graph, op: Op, taps: tuple[slice, ...], flat: dict[Value, Value], known: KnownValues
) -> Value:
    """The result [items, channels] of the convolution `op` by a product, inserted before it."""
    emit = emitter(graph, op, op.location)
    x, filter_, bias = op.inputs
    items, channels = op.output.type.dims[:2]
    rows = flat.get(x) or emit("reshape", x, shape=(items, x.type.volume // items))
    weights = _cut(graph, op, filter_, taps, known)
    weights = emit("reshape", weights, shape=(channels, weights.type.volume // channels))
    product = emit("matmul", rows, weights, transposeB=True)
    if splat(bias) == 0:
        return product
    per_channel = (1, bias.type.volume)
    if bias.type.rank and bias.type.dims != per_channel:
        bias = emit("reshape", bias, shape=per_channel)
    return emit("add", product, bias)


def _cut(
    graph: Graph, op: Op, filter_: Value, taps: tuple[slice, ...], known: KnownValues
) -> Value:
    """`filter_` restricted to `taps`: a constant if it is known, else a slice."""
    dims = (*filter_.type.dims[:2], *(t.stop - t.start for t in taps))
    if dims == filter_.type.dims:
        return filter_
    items = known.items(filter_)
    if items is not None:
        type_ = filter_.type.with_shape(dims)
        cut = constant_op(items[(slice(None), slice(None), *taps)], type_, op.location)
        return graph.insert(cut, op).output
    return emitter(graph, op, op.location)(
        "slice",
        filter_,
        axes=tuple(range(2, len(dims))),
        begin=tuple(t.start for t in taps),
        end=tuple(t.stop for t in taps),
    )


# -- operations that follow


def _follows(op: Op, flat: dict[Value, Value]) -> bool:
    """Whether `op` is an element-wise operation on a flattened value, without broadcasting it."""
    return is_elementwise(op) and any(v in flat and _has_shape_of(v, op) for v in op.inputs)


def _has_shape_of(value: Value, op: Op) -> bool:
    """Whether `op` has one result, with the shape of `value`."""
    return len(op.outputs) == 1 and op.output.type.dims == value.type.dims


def _moved(graph: Graph, op: Op, flat: dict[Value, Value]) -> Value:
    """The result [items, channels] of element-wise `op` on flattened values, inserted before it."""
    operands = [flat.get(v) or _flattened(graph, op, v) for v in op.inputs]
    type_ = op.output.type.with_shape(op.output.type.dims[:2])
    moved = Op(op.name, operands, op.attributes, [type_], (), op.location)
    return graph.insert(moved, op).output


def _flattened(graph: Graph, op: Op, value: Value) -> Value:
    """An operand with its first two dimensions only; a splat remains a splat."""
    dims: Shape = value.type.dims[:2]
    if value.type.rank <= 2:
        return value
    number = splat(value)
    if number is not None:
        type_ = value.type.with_shape(dims)
        return graph.insert(splat_op(type_, number, op.location), op).output
    return emitter(graph, op, op.location)("reshape", value, shape=dims)
