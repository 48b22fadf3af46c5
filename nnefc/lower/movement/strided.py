"""Lowering of operations that move items (NNEF 1.0.2 sections 4.5.2 to 4.5.6), e.g. transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from nnefc.ir import Op, Shape
from nnefc.kernels.movement import strided as kernels
from nnefc.kernels.movement.matrix_transpose import MOST_LANES
from nnefc.kernels.movement.strided import OUTER, STRIDED
from nnefc.kernels.window import sliding as window_kernels
from nnefc.lower.buffer_aliasing import view_offset
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise.expression import STREAM_BYTES
from nnefc.lower.movement.checked_index import index_words
from nnefc.lower.movement.gather import gather_rows
from nnefc.lower.partition import ceil_div, partition_threads, steps_per_unit, units_per_tile
from nnefc.lower.window import sliding
from nnefc.ops.core.window_arithmetic import pooling_window
from nnefc.ops.standard.reshape_transpose import permutation
from nnefc.ops.standard.slice_pad_tile_gather import slice_ranges
from nnefc.program.program import AppendedInput, Ref
from nnefc.program.tables.window_taps import coalesce, dimensions_of
from nnefc.support.machine_model import VECTOR_ITEMS_PER_NS
from nnefc.symbolic.integers import hint, smallest, statically_equal

PADDING_ITEMS = {1: "uint8", 2: "uint16", 4: "float32", 8: "float64"}
"""The type that `pad` moves items as, by their size in bytes."""
STREAM_ROWS: Final = 512
"""Maximum rows of a unit that bypasses the caches, so that it reads long streams."""
STREAM_UNITS: Final = 4
"""Minimum units per thread of a launch that bypasses the caches."""


def dense_pitches(shape: Sequence[int], itemsize: int) -> list[int]:
    """Bytes from one item to the next along each dimension of a row-major tensor."""
    return [itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape))]


def copy_strided(
    lower: Lowering,
    x: Ref,
    y: Ref,
    extents: Sequence[int],
    x_pitches: Sequence[int],
    y_pitches: Sequence[int],
    itemsize: int,
) -> None:
    """Launch a copy of `extents` items; pitches in bytes, 0 in x for broadcast dimensions."""
    *outer, rows, width = [(1, 0, 0)] * 2 + _coalesce(extents, x_pitches, y_pitches)
    outer = [d for d in outer if d[0] > 1]
    family = kernels.strided
    if width[1] == width[2] == itemsize or width[0] == 1:
        family = kernels.copy
    elif width[2] == itemsize:
        # The dimension that is contiguous in x becomes the rows of the transposed squares.
        contiguous = [d for d in [*outer, rows] if d[1] == itemsize]
        if contiguous:
            family = kernels.transpose
            others = [d for d in [*outer, rows] if d is not contiguous[0]]
            outer, rows = [d for d in others if d[0] > 1], contiguous[0]
    assert len(outer) <= OUTER
    planes, cost, streams = math.prod(d[0] for d in outer), width[0], False
    if family is kernels.transpose:
        cost = width[0] / VECTOR_ITEMS_PER_NS
        # the source needs room in the last cache, too
        nbytes = hint(itemsize * planes * rows[0] * width[0])
        streams = nbytes >= max(STREAM_BYTES, lower.cache_bytes // 4)
    row_block = steps_per_unit(rows[0], cost)
    if streams:
        parts = ceil_div(STREAM_UNITS * partition_threads(lower.threads), planes)
        row_block = smallest([STREAM_ROWS, ceil_div(rows[0], parts)])
    if family is kernels.transpose:
        row_block = ceil_div(row_block, MOST_LANES) * MOST_LANES  # squares are no larger
    units = planes * ceil_div(rows[0], row_block)
    unit_block = units_per_tile(units, min(row_block, rows[0]) * cost, lower.threads)
    words = STRIDED.pack(
        x=x,
        y=y,
        rank=len(outer),
        extents=[d[0] for d in outer],
        x_pitches=[d[1] for d in outer],
        y_pitches=[d[2] for d in outer],
        rows=rows[0],
        x_row=rows[1],
        y_row=rows[2],
        width=width[0],
        x_step=width[1],
        y_step=width[2],
        row_block=row_block,
        units=units,
        unit_block=unit_block,
        stream=int(streams),
    )
    lower.launch(family(itemsize), words, ceil_div(units, unit_block))


def _coalesce(
    extents: Sequence[int], x_pitches: Sequence[int], y_pitches: Sequence[int]
) -> list[tuple[int, int, int]]:
    """(extent, pitch in x, pitch in y) without extents of 1, neighbours merged."""
    joined: list[tuple[int, int, int]] = []
    for extent, x_pitch, y_pitch in zip(extents, x_pitches, y_pitches, strict=True):
        if extent == 1:
            continue
        whole = (x_pitch * extent, y_pitch * extent)
        if joined and all(map(statically_equal, joined[-1][1:], whole)):
            joined[-1] = (joined[-1][0] * extent, x_pitch, y_pitch)
        else:
            joined.append((extent, x_pitch, y_pitch))
    return joined


def permute(
    lower: Lowering, x: Ref, y: Ref, shape: Shape, axes: Sequence[int], itemsize: int
) -> None:
    """Launch a transposition: dimension k of y is dimension axes[k] of x, which has `shape`."""
    extents = [shape[a] for a in axes]
    pitches = dense_pitches(shape, itemsize)
    copy_strided(
        lower, x, y, extents, [pitches[a] for a in axes], dense_pitches(extents, itemsize), itemsize
    )


@lowering("transpose")
def transpose(lower: Lowering, op: Op) -> None:
    type_ = op.inputs[0].type
    x, y = lower.read(op.inputs[0]), lower.write(op.output)
    axes = permutation(op.attributes["axes"], type_.rank)
    permute(lower, x, y, type_.dims, axes, type_.dtype.itemsize)


@lowering("concat")
def concat(lower: Lowering, op: Op) -> None:
    _concatenate(lower, op, op.attributes["axis"])


@lowering("stack")
def stack(lower: Lowering, op: Op) -> None:
    _concatenate(lower, op, op.attributes["axis"])


def _concatenate(lower: Lowering, op: Op, axis: int) -> None:
    """Copy every operand into its range of the output along `axis`.

    Operands that were computed in place are not copied (`lower.buffer_aliasing`).
    """
    y, itemsize = lower.write(op.output), op.output.type.dtype.itemsize
    outer = math.prod(op.output.type.dims[:axis])
    pitch, offset = op.output.type.nbytes // outer, 0
    for value in op.inputs:
        x, width = lower.read(value), value.type.nbytes // outer
        part = replace(y, offset=y.offset + offset)
        if replace(x, writes=True) != part:
            _copy_rows(lower, x, part, outer, width, width, pitch, itemsize)
        offset += width


@lowering("split", "unstack")
def split(lower: Lowering, op: Op) -> None:
    """Contiguous chunks are views; others are copied."""
    x, type_ = lower.read(op.inputs[0]), op.inputs[0].type
    outer = math.prod(type_.dims[: op.attributes["axis"]])
    pitch, offset = type_.nbytes // outer, 0
    for index, value in enumerate(op.outputs):
        width = value.type.nbytes // outer
        at = view_offset(op, index)
        if at is not None:
            lower.alias(value, op.inputs[0], at)
        else:
            part, target = replace(x, offset=x.offset + offset), lower.write(value)
            _copy_rows(lower, part, target, outer, width, pitch, width, type_.dtype.itemsize)
        offset += width


def _copy_rows(
    lower: Lowering,
    x: Ref,
    y: Ref,
    rows: int,
    width: int,
    x_pitch: int,
    y_pitch: int,
    itemsize: int,
) -> None:
    """Launch a copy of `rows` rows of `width` bytes; pitches in bytes."""
    extents, steps = (rows, width // itemsize), (itemsize,)
    copy_strided(lower, x, y, extents, (x_pitch, *steps), (y_pitch, *steps), itemsize)


@lowering("slice")
def slice_(lower: Lowering, op: Op) -> None:
    """A contiguous slice is a view; others are copied."""
    at = view_offset(op, 0)
    if at is not None:
        lower.alias(op.output, op.inputs[0], at)
        return
    type_, a = op.inputs[0].type, op.attributes
    itemsize = type_.dtype.itemsize
    ranges = slice_ranges(type_.dims, a["axes"], a["begin"], a["end"], a.get("stride", ()))
    pitches = dense_pitches(type_.dims, itemsize)
    start = sum(taken.start * pitch for taken, pitch in zip(ranges, pitches, strict=True))
    x, y = lower.read(op.inputs[0]), lower.write(op.output)
    copy_strided(
        lower,
        replace(x, offset=x.offset + start),
        y,
        op.output.type.dims,
        [taken.step * pitch for taken, pitch in zip(ranges, pitches, strict=True)],
        dense_pitches(op.output.type.dims, itemsize),
        itemsize,
    )


@lowering("append")
def append(lower: Lowering, op: Op) -> None:
    """Copy the new items into the memory; the result is a view of the items themselves."""
    memory, items = op.inputs
    axis: int = op.attributes["axis"]
    itemsize = items.type.dtype.itemsize
    pitches = dense_pitches(memory.type.dims, itemsize)
    start: int = op.attributes["begin"] * pitches[axis]
    at = lower.read(memory)
    copy_strided(
        lower,
        lower.read(items),
        replace(at, offset=at.offset + start, writes=True),
        items.type.dims,
        dense_pitches(items.type.dims, itemsize),
        pitches,
        itemsize,
    )
    lower.alias(op.output, items)
    lower.program.appended.append(AppendedInput(memory.name, axis, items.type.dims[axis]))


@lowering("tile")
def tile(lower: Lowering, op: Op) -> None:
    """A strided copy with two dimensions per axis: repetitions (stride 0), then items."""
    type_, itemsize = op.inputs[0].type, op.output.type.dtype.itemsize
    x_pitches, y_pitches = (
        dense_pitches(type_.dims, itemsize),
        dense_pitches(op.output.type.dims, itemsize),
    )
    extents: list[int] = []
    source: list[int] = []
    target: list[int] = []
    for extent, repeat, x_pitch, y_pitch in zip(
        type_.dims, op.attributes["repeats"], x_pitches, y_pitches, strict=True
    ):
        extents += [repeat, extent]
        source += [0, x_pitch]
        target += [extent * y_pitch, y_pitch]
    x, y = lower.read(op.inputs[0]), lower.write(op.output)
    copy_strided(lower, x, y, extents, source, target, itemsize)


@lowering("pad")
def pad(lower: Lowering, op: Op) -> None:
    """A window of one tap, whose border mode gives the padding."""
    type_, a = op.inputs[0].type, op.attributes
    moves = pooling_window(type_.dims, {"size": (1,) * type_.rank, "padding": a["padding"]})
    value = np.array([a["value"]]).astype(type_.dtype.numpy)
    item = PADDING_ITEMS[type_.dtype.itemsize]
    sliding.launch(
        lower,
        window_kernels.pad(item),
        coalesce(dimensions_of(moves, a["border"])),
        type_.dtype,
        x=lower.read(op.inputs[0]),
        y=lower.write(op.output),
        bias=lower.constant(value),
    )


@lowering("gather")
def gather(lower: Lowering, op: Op) -> None:
    input_, indices = op.inputs
    shape = input_.type.dims
    axis: int = op.attributes["axis"]
    words = index_words(lower, op, indices, [shape[axis]])
    gather_rows(
        lower,
        lower.read(input_),
        lower.write(op.output),
        lower.read(indices),
        str(indices.type.dtype),
        input_.type.dtype.itemsize,
        (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])),
        indices.type.volume,
        words,
        indices,
    )


@lowering("copy_n")
def copy_n(lower: Lowering, op: Op) -> None:
    """All copies share the memory of the operand, since values are immutable."""
    for value in op.outputs:
        lower.alias(value, op.inputs[0])
