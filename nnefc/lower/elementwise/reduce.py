"""Reductions (NNEF 1.0.2 section 4.4), and softmax, which iterates like a reduction."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from nnefc.ir import DType, Op, Shape
from nnefc.kernels.family import Kernel
from nnefc.kernels.reduce import reduction
from nnefc.kernels.reduce import softmax as softmax_kernels
from nnefc.kernels.reduce.reduction import CHUNK, REDUCE
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.program.program import Ref
from nnefc.support.machine_model import LOOP_ITEMS_PER_NS
from nnefc.symbolic.integers import hint, is_symbolic

PART_ITEMS: Final = 8192
"""Fewest items of a part of a tensor that is reduced to one item: a microsecond."""
MOST_PARTS: Final = 16
"""Most parts of such a tensor."""


@lowering("sum_reduce")
def sum_reduce(lower: Lowering, op: Op) -> None:
    # input items per output item
    count = op.inputs[0].type.volume // op.output.type.volume
    divisor = count if op.attributes["normalize"] else 1
    _reduce(lower, op, "sum", divisor)


@lowering("max_reduce", "min_reduce", "all_reduce", "any_reduce", "product_reduce")
def reduce(lower: Lowering, op: Op) -> None:
    _reduce(lower, op, op.name.removesuffix("_reduce"))


def _reduce(lower: Lowering, op: Op, kind: str, divisor: float = 1.0) -> None:
    input_, axes = op.inputs[0], op.attributes["axes"]
    x, y = lower.read(input_), lower.write(op.output)
    reduce_axes(lower, kind, x, y, input_.type.dtype, input_.type.dims, axes, divisor=divisor)


def reduce_axes(
    lower: Lowering,
    kind: str,
    x: Ref,
    y: Ref,
    dtype: DType,
    shape: Shape,
    axes: Collection[int],
    *,
    divisor: float = 1.0,
) -> None:
    """Launch the reduction of x along `axes` into y; sums are divided by `divisor`.

    `kind`: see `nnefc.kernels.reduce.reduction.rows`.
    """
    item = str(dtype)
    kernels = reduction.rows(kind, item), reduction.columns(kind, item)
    parts = _parts(shape, axes) if kind in ("max", "min") else 1
    if parts > 1:
        partial = lower.scratch(parts * dtype.itemsize)
        volume = math.prod(shape)
        _launch(lower, kernels, x, partial, dtype, (parts, volume // parts), [1])
        x, shape, axes = Ref(partial.buffer), (parts,), [0]
    _launch(lower, kernels, x, y, dtype, shape, axes, divisor)


def _parts(shape: Shape, axes: Collection[int]) -> int:
    """Equal parts of a tensor that is reduced to one item; extremes of parts are reduced at once.

    A reduction to one item has a single tile, which one thread computes.
    """
    if is_symbolic(shape) or any(n > 1 for i, n in enumerate(shape) if i not in axes):
        return 1
    volume = math.prod(shape)
    most = min(volume // PART_ITEMS, MOST_PARTS)
    return next((parts for parts in range(most, 1, -1) if volume % parts == 0), 1)


@lowering("argmax_reduce", "argmin_reduce", "argmax_reduce_last", "argmin_reduce_last")
def index_reduce(lower: Lowering, op: Op) -> None:
    input_, axes = op.inputs[0], op.attributes["axes"]
    dtype, index = input_.type.dtype, op.output.type.dtype
    arguments = op.name[3:6], str(dtype), str(index), op.name.endswith("_last")
    kernels = reduction.index_rows(*arguments), reduction.index_columns(*arguments)
    x, y = lower.read(input_), lower.write(op.output)
    _launch(lower, kernels, x, y, dtype, input_.type.dims, axes)


@lowering("softmax")
def softmax(lower: Lowering, op: Op) -> None:
    input_, axes = op.inputs[0], op.attributes["axes"]
    dtype = input_.type.dtype
    x, y = lower.read(input_), lower.write(op.output)
    kernels = softmax_kernels.rows(str(dtype)), softmax_kernels.columns(str(dtype))
    _launch(lower, kernels, x, y, dtype, input_.type.dims, axes)


def _launch(
    lower: Lowering,
    kernels: tuple[Kernel, Kernel],
    x: Ref,
    y: Ref,
    dtype: DType,
    shape: Shape,
    axes: Collection[int],
    divisor: float = 1.0,
) -> None:
    """`kernels`: the kernel for a reduced innermost dimension, and the one for others."""
    dimensions = _coalesce(shape, axes)
    *outer, (width, _, row_reduced) = dimensions
    kept = [(extent, pitch) for extent, pitch, reduced in outer if not reduced]
    reduced = [(extent, pitch) for extent, pitch, reduced in outer if reduced]
    outputs = math.prod(extent for extent, _ in kept)
    volume = math.prod(extent for extent, _ in reduced)
    item = dtype.itemsize
    units = outputs if row_reduced else outputs * ceil_div(width, CHUNK)
    row_ns = 8 + min(hint(width), CHUNK) / LOOP_ITEMS_PER_NS
    unit_block = units_per_tile(units, 8 + volume * row_ns, lower.threads)
    words = REDUCE.pack(
        x=x,
        y=y,
        kept_rank=len(kept),
        kept=[extent for extent, _ in kept],
        kept_pitches=[pitch * item for _, pitch in kept],
        reduced_rank=len(reduced),
        reduced=[extent for extent, _ in reduced],
        reduced_pitches=[pitch * item for _, pitch in reduced],
        width=width,
        outputs=outputs,
        volume=volume,
        unit_block=unit_block,
        divisor=divisor,
    )
    kernel = kernels[0] if row_reduced else kernels[1]
    lower.launch(kernel, words, ceil_div(units, unit_block))


def _coalesce(shape: Shape, axes: Collection[int]) -> list[tuple[int, int, bool]]:
    """(extent, pitch in items, is reduced) of dimensions, neighbours of the same kind merged."""
    joined: list[tuple[int, int, bool]] = []
    pitch = 1
    for axis in range(len(shape) - 1, -1, -1):
        extent, reduced = shape[axis], axis in axes
        if extent > 1:
            if joined and joined[0][2] == reduced:
                joined[0] = (joined[0][0] * extent, joined[0][1], reduced)
            else:
                joined.insert(0, (extent, pitch, reduced))
        pitch *= extent
    return joined or [(1, 1, False)]
