"""Blocked rules: operations that compute on channel-blocked tensors.

A rule reads attributes and shapes.  Every operation with a rule has a `@blocked_lowering`.
Blocked layouts: NeoCPU, Liu et al. 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from nnefc.ir import DType, Op
from nnefc.ops.core.window_arithmetic import Window, interpolation, pooling_window
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.traced_array import traced_call

BlockedRule = Callable[[Op], bool]
"""`rule(op)` returns whether `op` can compute on tensors with channels in blocks."""


BLOCKED_ITEM_TYPES: Final = frozenset(
    {
        *(DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16),
        *(DType.UINT8, DType.INT8, DType.INT16, DType.INT32),
    }
)
"""Item types of blocked tensors: reals, some of them rounded, their codes, and sums of codes."""


WORD_CODES: Final = 4
"""Fewest channels of a block of codes: kernels read words of four codes."""


MOST_PARTS: Final = 4
"""Most outputs per input of a group: kernels are specialised by the slice of a block they read."""


def is_slice_of_block(block: int, inputs: int, outputs: int) -> bool:
    """Whether groups of so many channels are small slices of a block.

    Kernels shuffle these in vectors.
    """
    return block % outputs == outputs % inputs == 0 and outputs // inputs <= MOST_PARTS


def has_blocked_kernels(dtype: DType) -> bool:
    """Whether kernels on channel-blocked tensors exist for this item type."""
    return dtype in BLOCKED_ITEM_TYPES


def of_floats(rule: BlockedRule) -> BlockedRule:
    """`rule`, for operations on float32, which may be rounded to halves."""

    def checked(op: Op) -> bool:
        dtype = op.inputs[0].type.dtype
        return (dtype is DType.FLOAT32 or dtype.is_half) and rule(op)

    return checked


def any_layout(op: Op) -> bool:
    """Items or channels are computed independently, so the layout does not matter."""
    del op
    return True


def pooling(op: Op) -> bool:
    """Spatial windows with border 'constant' or 'ignore', each of which covers an item."""
    dims = op.inputs[0].type.dims
    window = pooling_window(dims, op.attributes)
    border = op.attributes["border"]
    if border not in ("constant", "ignore"):
        return False
    is_spatial = window.size[:2] == (1, 1) and window.padding[:2] == ((0, 0), (0, 0))
    if not is_spatial or window.output[:2] != dims[:2]:
        return False
    return covers_items(window, border)


def covers_items(window: Window, border: str) -> bool:
    """Whether the window covers an item of the input at every position."""
    sizes = zip(window.size, window.padding, strict=True)
    moving = [axis for axis, (size, padding) in enumerate(sizes) if (size, *padding) != (1, 0, 0)]
    return all(all(traced_call(_covers_along, window, axis, border)) for axis in moving)


@traceable
def _covers_along(window: Window, axis: int, border: str) -> tuple[bool]:
    """`covers_items` along one dimension."""
    return (bool((window.clipped().taps(axis, border) >= 0).any(1).all()),)


def whole_planes(op: Op) -> bool:
    """Reductions over exactly the spatial dimensions."""
    dims = op.inputs[0].type.dims
    return sorted(op.attributes["axes"]) == [*range(2, len(dims))]


def concat_channels(op: Op) -> bool:
    """Concatenation along the channels."""
    return all(has_blocked_kernels(v.type.dtype) for v in op.inputs) and op.attributes["axis"] == 1


def split_channels(op: Op) -> bool:
    """Splitting of the channels."""
    return op.attributes["axis"] == 1


def slice_channels(op: Op) -> bool:
    """Slices of the channels alone."""
    before, after = op.inputs[0].type.dims, op.output.type.dims
    others = [axis for axis in op.attributes["axes"] if axis != 1]
    backwards = any(step < 0 for step in op.attributes.get("stride", ()))
    same = (before[0], *before[2:]) == (after[0], *after[2:])
    return same and not (others and backwards)


def nearest(op: Op) -> bool:
    """Nearest-neighbour up-sampling of planes."""
    return tuple(op.attributes["size"][:2]) == (1, 1) and repeats_items(op)


def repeats_items(op: Op) -> bool:
    """Whether the windows of a `debox` tile the output, so items are repeated."""
    dims, out = op.inputs[0].type.dims, op.output.type.dims
    window = pooling_window(dims, op.attributes, reverse=True)
    adjacent = window.size == window.stride and all(p == (0, 0) for p in window.padding)
    whole = out == tuple(n * f for n, f in zip(dims, window.size, strict=True))
    dense = all(d == 1 or f == 1 for d, f in zip(window.dilation, window.size, strict=True))
    return adjacent and whole and dense and not op.attributes["normalize"]


def linear(op: Op) -> bool:
    """Interpolation along the last two dimensions that never reads a zero border."""
    dims, a = op.inputs[0].type.dims, op.attributes
    if any(f > 1 for f in a["factor"][:-2]):
        return False
    pairs = zip(dims[2:], a["factor"], strict=True)
    return all(all(traced_call(_inside, *pair, a["method"], a["border"])) for pair in pairs)


@traceable
def _inside(extent: int, factor: int, method: str, border: str) -> tuple[bool]:
    """Whether both ends of every interpolation are items of the input."""
    points = interpolation(extent, factor, method, border)
    return (bool(np.all([points.low >= 0, points.high >= 0])),)
