"""What operations can do on channel-blocked tensors; judged by attributes and shapes.

Every rule here has its `blocked_lowering`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from nnefc.ir import Blocked, DType, Op, Shape, Value
from nnefc.ir.expression import expression_of
from nnefc.ir.layout import ITEM
from nnefc.ops.core.window_arithmetic import (
    Padding,
    Window,
    convolution_window,
    interpolation,
    pooling_window,
)
from nnefc.ops.internal import mean_variance
from nnefc.passes.analysis.known_data import Known
from nnefc.passes.base import is_elementwise
from nnefc.symbolic.integers import hint, largest, smallest
from nnefc.symbolic.traced_array import traced_call

CONVOLUTIONS: Final = ("fused_conv", "fused_deconv")
NORMALISATIONS: Final = (mean_variance.NAME, mean_variance.FUSED_NAME)

Rule = Callable[[Op], bool]
"""`rule(op)`: whether `op` can compute on tensors with channels in blocks."""

MAX_PLANE: Final = 1 << 24
"""Pixels of a plane, halo included: tables have an entry for each, and offsets are int32."""
MAX_REACH: Final = 1 << 31
"""Bytes of the channels that a sum runs over: offsets into all of them are int32."""
SMALL_PLANE, MAX_GROWTH = 1 << 16, 16
"""Planes of more pixels are not blocked if their halo makes them so many times as large."""
CACHED: Final = 8 << 20
"""Bytes of an operand that stays in the caches while its layout changes, and back."""


def accepts(op: Op, known: Known) -> bool:
    """Whether `op`, which is no convolution, has a lowering over blocked tensors."""
    if any(v.type.dtype is not DType.FLOAT32 or not 3 <= v.type.rank <= 8 for v in op.outputs):
        return False
    values = (*op.inputs, *op.outputs)
    return _has_rule(op, known) and all(_plane(v.type.dims) <= MAX_PLANE for v in values)


def _has_rule(op: Op, known: Known) -> bool:
    """`accepts`, for planes that are not too large."""
    if op.name == "fused" or is_elementwise(op):
        return elementwise(op, known)
    if op.name in NORMALISATIONS:
        return 1 not in op.attributes["axes"] and elementwise(op, known)
    rule = _RULES.get(op.name)
    return rule is not None and rule(op)


def gains(op: Op, block: int, known: Known) -> bool:
    """Whether `op` is so much faster on blocked tensors that changes of layout are worth it."""
    if op.name not in ("max_pool", "box") or math.prod(op.attributes["size"]) == 1:
        return False
    if hint(op.inputs[0].type.nbytes) > CACHED:
        return False
    return op.output.type.rank > 1 and op.output.type.dims[1] >= block and accepts(op, known)


def tensors(op: Op, known: Known) -> list[int]:
    """The operands of a blocked operation that are blocked; others stay as they are."""
    if op.name in CONVOLUTIONS:
        others = range(3, len(op.inputs))
        return [0, *(i for i in others if not _is_parameter(op.inputs[i], known))]
    if op.name in NORMALISATIONS:
        return [0, *(i for i, v in enumerate(op.inputs) if i and not _is_parameter(v, known))]
    if op.name == "fused" or is_elementwise(op):
        return [i for i, v in enumerate(op.inputs) if not _is_parameter(v, known)]
    return list(range(len(op.inputs)))


def halo_needed(op: Op, index: int) -> Padding:
    """Pixels around operand `index` that a blocked operation reads."""
    if op.name in CONVOLUTIONS and index == 0:
        x, filter_ = op.inputs[:2]
        reverse = op.name == "fused_deconv"
        window = convolution_window(x.type.dims, filter_.type.dims, op.attributes, reverse=reverse)
        return window.reach()
    return ((0, 0),) * (op.inputs[index].type.rank - 2)


def in_reach(plane: Shape, channels: int, layout: Blocked) -> bool:
    """Whether tables can tell where the pixels of so many channels are, with not much of a halo."""
    shape = (1, channels, *plane)
    stored = math.prod(layout.extents(shape))
    most = largest([MAX_GROWTH * math.prod(plane), SMALL_PLANE])
    if stored > smallest([most, MAX_PLANE]):
        return False
    return layout.volume(shape) * ITEM < MAX_REACH


def elementwise(op: Op, known: Known) -> bool:
    """Operands have the shape of the result, or one item per channel or in all."""
    if any(t is not DType.FLOAT32 for t in expression_of(op).inputs):
        return False
    return all(_is_parameter(v, known) or _fits(v, op.output) for v in op.inputs)


def _is_parameter(value: Value, known: Known) -> bool:
    """Whether `value` is known and repeats along all dimensions but the channels."""
    dims = value.type.dims
    return value in known and all(n == 1 for i, n in enumerate(dims) if i != 1)


def _fits(value: Value, result: Value) -> bool:
    dims, whole = value.type.dims, result.type.dims
    return dims == whole or (
        len(dims) == len(whole) and dims[:2] == whole[:2] and all(n == 1 for n in dims[2:])
    )


def _pooling(op: Op) -> bool:
    """Windows in the plane; a border that is zero or ignored, and no window within it."""
    dims = op.inputs[0].type.dims
    window = pooling_window(dims, op.attributes)
    border = op.attributes["border"]
    if border not in ("constant", "ignore"):
        return False
    apart = window.size[:2] == (1, 1) and window.padding[:2] == ((0, 0), (0, 0))
    if not apart or window.output[:2] != dims[:2]:
        return False
    return all(all(traced_call(_meets, window, axis, border)) for axis in range(2, window.rank))


def _meets(window: Window, axis: int, border: str) -> tuple[bool]:
    """Whether there is an item in the window at every position."""
    return (bool((window.clipped().taps(axis, border) >= 0).any(1).all()),)


def _whole_planes(op: Op) -> bool:
    """Reductions of all spatial dimensions, and of nothing else."""
    dims = op.inputs[0].type.dims
    return sorted(op.attributes["axes"]) == [*range(2, len(dims))]


def _concat(op: Op) -> bool:
    """Of channels."""
    same = all(v.type.dtype is DType.FLOAT32 for v in op.inputs)
    return same and op.attributes["axis"] == 1


def _split(op: Op) -> bool:
    """Of channels."""
    return op.attributes["axis"] == 1


def _slice(op: Op) -> bool:
    """Of channels, and of nothing else."""
    before, after = op.inputs[0].type.dims, op.output.type.dims
    others = [axis for axis in op.attributes["axes"] if axis != 1]
    backwards = any(step < 0 for step in op.attributes.get("stride", ()))
    same = (before[0], *before[2:]) == (after[0], *after[2:])
    return same and not (others and backwards)


def _nearest(op: Op) -> bool:
    """Windows that lie side by side: pixels are repeated."""
    dims, out = op.inputs[0].type.dims, op.output.type.dims
    window = pooling_window(dims, op.attributes, reverse=True)
    beside = window.size == window.stride and all(p == (0, 0) for p in window.padding)
    whole = out == tuple(n * f for n, f in zip(dims, window.size, strict=True))
    dense = all(d == 1 or f == 1 for d, f in zip(window.dilation, window.size, strict=True))
    plain = window.size[:2] == (1, 1) and not op.attributes["normalize"]
    return beside and whole and dense and plain


def _linear(op: Op) -> bool:
    """Interpolation along the last two dimensions, between items that there are."""
    dims, a = op.inputs[0].type.dims, op.attributes
    if any(f > 1 for f in a["factor"][:-2]):
        return False
    pairs = zip(dims[2:], a["factor"], strict=True)
    return all(all(traced_call(_inside, *pair, a["method"], a["border"])) for pair in pairs)


def _inside(extent: int, factor: int, method: str, border: str) -> tuple[bool]:
    """Whether there is an item at both ends of every interpolation."""
    points = interpolation(extent, factor, method, border)
    return (bool(np.all([points.low >= 0, points.high >= 0])),)


def _plane(dims: Shape) -> int:
    """Pixels."""
    return math.prod(dims[2:])


_RULES: Final[dict[str, Rule]] = {
    "max_pool": _pooling,
    "box": _pooling,
    "debox": _nearest,
    "multilinear_upsample": _linear,
    "sum_reduce": _whole_planes,
    "max_reduce": _whole_planes,
    "min_reduce": _whole_planes,
    "concat": _concat,
    "split": _split,
    "slice": _slice,
    "shuffle_channels": lambda _: True,
}
"""By operation."""
