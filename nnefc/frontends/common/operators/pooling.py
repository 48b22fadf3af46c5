"""Indices of maxima in a tensor, from their positions in the windows of a pooling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.ir import DType
from nnefc.ops.core.window_arithmetic import Window


def indices_of_taps(
    make: OpBuilder, taps: Operand, window: Window, pitches: Mapping[int, int]
) -> Operand:
    """The index of each tap in a tensor, int64: the sum of its coordinates times `pitches`.

    `taps`: positions in the window over all axes, as `max_pool_with_index` returns them.
    `pitches`: by axis; coordinates of other axes do not count.
    """
    left = make.cast(taps, DType.INT64)
    index: Any = None
    for axis in reversed(range(min(pitches), window.rank)):
        pitch = pitches.get(axis, 0)
        rest = make("div", left, window.size[axis])
        tap = make("sub", left, make("mul", rest, window.size[axis]))
        left = rest
        first, stride = -window.padding[axis][0] * pitch, window.stride[axis] * pitch
        shape = tuple(window.output[axis] if i == axis else 1 for i in range(window.rank))
        begin = make.reshape(make.iota(window.output[axis], first, stride), shape)
        offset = make("add", make("mul", tap, window.dilation[axis] * pitch), begin)
        index = offset if index is None else make("add", index, offset)
    return index
