"""Lowering of gather_elements, scatter_elements, gather_nd and scatter_nd."""

from __future__ import annotations

import math

from nnefc.ir import DType, Op
from nnefc.kernels.family import Kernel
from nnefc.kernels.movement import indexing as kernels
from nnefc.kernels.movement.indexing import ELEMENTS, SLICES
from nnefc.kernels.movement.strided import ITEM
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise.expression import copy_bytes
from nnefc.lower.movement.checked_index import index_words
from nnefc.lower.movement.strided import dense_pitches
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.program.program import Ref
from nnefc.support.machine_model import LOOP_ITEMS_PER_NS

INDEX_NS = 2.0
"""Nanoseconds to address an item by its index."""


@lowering("gather_elements")
def gather_elements(lower: Lowering, op: Op) -> None:
    kernel = kernels.gather_elements(_item_type(op.output.type.dtype), _index_type(op))
    rows = math.prod(op.inputs[1].type.dims[:-1])
    _elements(lower, op, kernel, lower.read(op.inputs[0]), lower.write(op.output), rows)


@lowering("scatter_elements")
def scatter_elements(lower: Lowering, op: Op) -> None:
    """Tiles divide the dimensions before the axis, where updates do not collide."""
    output = _copy_input(lower, op)
    indices, axis = op.inputs[1].type.dims, op.attributes["axis"]
    kernel = kernels.scatter_elements(*_reduction_and_item(op), _index_type(op))
    units = math.prod(indices[:axis])
    _elements(lower, op, kernel, output, lower.read(op.inputs[2]), units)


def _elements(lower: Lowering, op: Op, kernel: Kernel, tensor: Ref, items: Ref, units: int) -> None:
    """Launch moves of items between `tensor` and `items`, which has the shape of the indices."""
    shape, indices = op.inputs[0].type.dims, op.inputs[1]
    axis: int = op.attributes["axis"]
    pitches = dense_pitches(shape, 1)
    extents, along = indices.type.dims, [0 if d == axis else p for d, p in enumerate(pitches)]
    unit_rows = math.prod(extents[:-1]) // units
    unit_block = units_per_tile(units, indices.type.volume / units * INDEX_NS, lower.threads)
    words = ELEMENTS.pack(
        tensor=tensor,
        indices=lower.read(indices),
        items=items,
        rank=len(extents) - 1,
        extents=extents[:-1],
        pitches=along[:-1],
        width=extents[-1],
        step=along[-1],
        axis_pitch=pitches[axis],
        extent=shape[axis],
        units=units,
        unit_rows=unit_rows,
        unit_block=unit_block,
        shape=index_words(lower, op, indices, [shape[axis]]),
    )
    lower.launch(kernel, words, ceil_div(units, unit_block), indices=indices)


@lowering("gather_nd")
def gather_nd(lower: Lowering, op: Op) -> None:
    kernel = kernels.gather_slices(_item_type(op.output.type.dtype), _index_type(op))
    tensor, items = lower.read(op.inputs[0]), lower.write(op.output)
    _slices(lower, op, kernel, tensor, items, op.attributes["batch_dims"])


@lowering("scatter_nd")
def scatter_nd(lower: Lowering, op: Op) -> None:
    """Tiles divide the columns, because updates of different rows may collide."""
    output = _copy_input(lower, op)
    kernel = kernels.scatter_slices(*_reduction_and_item(op), _index_type(op))
    _slices(lower, op, kernel, output, lower.read(op.inputs[2]), 0)


def _slices(
    lower: Lowering, op: Op, kernel: Kernel, tensor: Ref, items: Ref, batch_dims: int
) -> None:
    """Launch moves of slices between `tensor`, at the indices, and `items`."""
    shape, indices = op.inputs[0].type.dims, op.inputs[1]
    depth = indices.type.dims[-1]
    taken = slice(batch_dims, batch_dims + depth)
    rows, inner = indices.type.volume // depth, math.prod(shape[taken.stop :])
    row_ns = depth * INDEX_NS + inner / LOOP_ITEMS_PER_NS
    row_block = units_per_tile(rows, row_ns, lower.threads)
    column_block = units_per_tile(inner, rows * row_ns / inner, lower.threads)
    words = SLICES.pack(
        tensor=tensor,
        indices=lower.read(indices),
        items=items,
        depth=depth,
        extents=shape[taken],
        pitches=dense_pitches(shape, 1)[taken],
        batch_rows=rows // math.prod(shape[:batch_dims]),
        batch_pitch=math.prod(shape[batch_dims:]),
        inner=inner,
        rows=rows,
        row_block=row_block,
        column_block=column_block,
        shape=index_words(lower, op, indices, shape[taken]),
    )
    scatters = op.name == "scatter_nd"
    tiles = ceil_div(inner, column_block) if scatters else ceil_div(rows, row_block)
    lower.launch(kernel, words, tiles, indices=indices)


def _copy_input(lower: Lowering, op: Op) -> Ref:
    """The output, after a copy of the first operand to it."""
    x, y = lower.read(op.inputs[0]), lower.write(op.output)
    copy_bytes(lower, x, y, op.output.type.nbytes)
    return y


def _item_type(dtype: DType) -> str:
    """An integer type of the same size, which items are moved as."""
    return ITEM[dtype.itemsize]


def _reduction_and_item(op: Op) -> tuple[str, str]:
    """(reduction of a scatter, type of the items)"""
    reduction, dtype = op.attributes["reduction"], op.output.type.dtype
    return reduction, _item_type(dtype) if reduction == "none" else str(dtype)


def _index_type(op: Op) -> str:
    return str(op.inputs[1].type.dtype)
