"""Sliding windows: box, debox, max_pool, argmax_pool (NNEF 1.0.2 section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from nnefc.ir import DType, Op, Shape
from nnefc.kernels.family import Kernel
from nnefc.kernels.window import sliding as kernels
from nnefc.kernels.window.taps import WINDOW
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise.reduce import reduce_axes
from nnefc.lower.movement.gather import repeat_items
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.lower.window import taps
from nnefc.ops.core.window_arithmetic import Window, pooling_window
from nnefc.program.program import Ref
from nnefc.program.tables.window_taps import (
    WindowDimension,
    coalesce,
    dimension_pitches,
    dimensions_of,
    identity,
    repetition_indices,
)
from nnefc.support.errors import NnefError
from nnefc.support.machine_model import VECTOR_ITEMS_PER_NS
from nnefc.symbolic.integers import hint, statically_equal
from nnefc.symbolic.traced_array import traced_call

MAX_TAPS: Final = 1 << 40
"""Maximum items read by non-separable windows: some minutes of computation."""


@lowering("box", "debox")
def box(lower: Lowering, op: Op) -> None:
    """Sums over a separable window."""
    launch_box(lower, op, lower.read(op.inputs[0]), reverse=op.name == "debox")


def launch_box(lower: Lowering, op: Op, x: Ref, *, reverse: bool = False) -> None:
    """Launch the sums over the windows of `op` of x, which has the type of the result."""
    window = pooling_window(op.inputs[0].type.dims, op.attributes, reverse=reverse)
    border, normalize = op.attributes["border"], op.attributes["normalize"]
    dimensions = dimensions_of(window, border)
    divisor = 1.0
    if normalize and border == "ignore":
        divisor = 0.0
        dimensions = [d if d.is_identity else replace(d, counts=d) for d in dimensions]
    elif normalize:
        divisor = 1.0 * window.volume
    y, dtype = lower.write(op.output), op.output.type.dtype
    if reverse and statically_equal(divisor, 1) and all(d.is_repetition for d in dimensions):
        moved = [axis for axis, d in enumerate(dimensions) if not d.is_identity] or [0]
        indices = {axis: traced_call(repetition_indices, dimensions[axis])[0] for axis in moved}
        repeat_items(lower, x, y, window.input, dtype.itemsize, indices)
        return
    launch_separable(lower, "sum", x, y, dtype, dimensions, window.input, divisor=divisor)


@lowering("max_pool")
def max_pool(lower: Lowering, op: Op) -> None:
    window = pooling_window(op.inputs[0].type.dims, op.attributes)
    border = op.attributes["border"]
    zeros = border != "ignore"
    x, y, dtype = lower.read(op.inputs[0]), lower.write(op.output), op.output.type.dtype
    dimensions = dimensions_of(window, border)
    launch_separable(lower, "max", x, y, dtype, dimensions, window.input, zeros=zeros)


@lowering("argmax_pool", "max_pool_with_index")
def argmax_pool(lower: Lowering, op: Op) -> None:
    """Positions of the maxima; `max_pool_with_index` also has the maxima as first output."""
    window = pooling_window(op.inputs[0].type.dims, op.attributes)
    _check_taps(window)
    values = op.name == "max_pool_with_index"
    dtype, index = op.inputs[0].type.dtype, op.outputs[-1].type.dtype
    x, index_y = lower.read(op.inputs[0]), lower.write(op.outputs[-1])
    launch(
        lower,
        kernels.argmax(str(dtype), str(index), values),
        coalesce(dimensions_of(window, op.attributes["border"])),
        dtype,
        x=x,
        y=lower.write(op.outputs[0]) if values else index_y,
        index_y=index_y,
        zeros=op.attributes["border"] != "ignore",
    )


def _check_taps(window: Window) -> None:
    """Raise NnefError (`limit/window`) if the windows read more items than a call can process."""
    items = window.volume * math.prod(window.output)
    if items > MAX_TAPS:
        raise NnefError.of(
            "limit/window",
            f"a window of {window.volume} taps at {math.prod(window.output)} positions reads "
            f"{items} items; at most {MAX_TAPS} are allowed",
        )


def launch_separable(
    lower: Lowering,
    kind: Literal["sum", "max"],
    x: Ref,
    y: Ref,
    dtype: DType,
    dimensions: Sequence[WindowDimension],
    shape: Shape,
    *,
    divisor: float = 1.0,
    zeros: bool = False,
) -> None:
    """Sum or maximum over a window: small ones in one launch, others dimension by dimension."""
    axes = [i for i, d in enumerate(dimensions) if not d.is_identity]
    if not statically_equal(divisor, 0) and all(
        dimensions[axis].is_full_reduction for axis in axes
    ):
        reduce_axes(lower, kind, x, y, dtype, shape, axes, divisor=divisor)
        return
    kernel = (kernels.max_ if kind == "max" else kernels.sum_)(str(dtype))
    sizes = [dimensions[axis].taps for axis in axes]
    rest = list(dimensions)
    if hint(math.prod(sizes)) > 4 * hint(sum(sizes)):
        shape_now = list(shape)
        for axis in axes[:-1]:
            only = [
                replace(d, counts=None) if i == axis else identity(shape_now[i])
                for i, d in enumerate(dimensions)
            ]
            shape_now[axis] = dimensions[axis].outputs
            rest[axis] = identity(shape_now[axis], dimensions[axis].counts)
            between = lower.scratch(math.prod(shape_now) * dtype.itemsize)
            launch(lower, kernel, coalesce(only), dtype, x=x, y=between, zeros=zeros)
            x = Ref(between.buffer)
    launch(lower, kernel, coalesce(rest), dtype, x=x, y=y, zeros=zeros, divisor=divisor)


def launch(
    lower: Lowering,
    kernel: Kernel,
    dimensions: Sequence[WindowDimension],
    dtype: DType,
    *,
    x: Ref,
    y: Ref,
    divisor: float = 1.0,
    **fields: Any,
) -> None:
    """Launch a window kernel over coalesced `dimensions`; `fields`: further parameters."""
    pitches = dimension_pitches(dimensions, dtype.itemsize)
    *outer, last = dimensions
    rows = math.prod(d.outputs for d in outer)
    index, starts = taps.index_table(lower, outer)
    count, count_starts = (
        taps.count_table(lower, dimensions) if statically_equal(divisor, 0) else (x, [])
    )
    volume = math.prod(d.taps for d in dimensions)
    row_ns = volume * (last.outputs / VECTOR_ITEMS_PER_NS + 16)
    row_block = units_per_tile(rows, row_ns, lower.threads)
    filled = {
        "index_y": y,
        "weights": x,
        "bias": x,
        "zeros": 0,
        "channels": 1,
        "channel_rows": 1,
        "weight_bytes": 0,
        "bias_bytes": 0,
        **fields,
    }
    words = WINDOW.pack(
        x=x,
        y=y,
        rows=rows,
        width=last.outputs,
        outer=len(outer),
        extents=[d.outputs for d in outer],
        pitches=pitches[:-1],
        taps=[d.taps for d in outer],
        index=index,
        starts=starts,
        last_taps=last.taps,
        runs=taps.run_table(lower, last, pitches[-1]),
        row_block=row_block,
        divisor=divisor,
        count=count,
        count_starts=count_starts,
        **filled,
    )
    lower.launch(kernel, words, ceil_div(rows, row_block))
