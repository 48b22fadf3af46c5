"""Rewrite deconvolutions with few channels as convolutions that interleave their phases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Final

import numpy as np

from nnefc.ir import Graph, Op, TensorType, Value
from nnefc.ops.core.attribute_checks import MAX_RANK
from nnefc.ops.core.window_arithmetic import Window, convolution_groups, convolution_window
from nnefc.ops.tools.build import emitter
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.op_queries import replace

Array = np.ndarray[Any, Any]

MAX_OUTPUT_CHANNELS: Final = 4
"""Most channels of the result: with so few, most lanes of vectors of channels are idle."""
MIN_INPUT_CHANNELS: Final = 8
"""Fewest channels of the operand: with fewer a convolution gains nothing."""
MAX_TAP_RATIO: Final = 1.5
"""Most taps of the convolution per tap of the filter."""
MAX_FILTER_BYTES: Final = 32 << 20
"""Most bytes of the filter: each plan has its own rewritten filter."""


@dataclass(frozen=True)
class InterleaveDeconvolutions:
    """Replace deconvolutions with few output channels by convolutions (Shi et al. 2016).

        %y: float32[1,1,512] = deconv(%x, %w, %b) {padding = [[2, 2]], stride = [4], ...}

    becomes, for %x: float32[1,64,128] and %w: float32[64,1,8],

        %0: float32[4,64,2] = constant                  # %w: a channel for each phase
        %1: float32[1,4,129] = conv(%x, %0, %2) {padding = [[1, 1]], ...}
        %3: float32[1,1,4,129] = reshape(%1) {shape = [1, 1, 4, 129], ...}
        %4: float32[1,1,129,4] = transpose(%3) {axes = [0, 1, 3, 2]}
        %5: float32[1,1,516] = reshape(%4) {shape = [1, 1, 516], ...}
        %y: float32[1,1,512] = slice(%5) {axes = [2], begin = [2], end = [514], ...}

    Items of the result that are one stride apart form a phase and have the same taps.  The
    convolution has one output channel per phase, which fills vectors of channels.
    """

    name: ClassVar[str] = "interleave_deconvolutions"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known = KnownValues(graph)
        changed = False
        for op in graph.ops:
            if op.name == "deconv" and (window := _window(op)) is not None:
                changed |= _interleave(graph, op, window, known)
        return changed


def _window(op: Op) -> Window | None:
    """The window of a deconvolution that is worth replacing; None for others."""
    x, filter_, _ = op.inputs
    attributes = op.attributes
    if op.output.type.shape is None or convolution_groups(x.type.dims, attributes) != 1:
        return None
    channels, few, *size = filter_.type.dims
    if (
        channels < MIN_INPUT_CHANNELS
        or few > MAX_OUTPUT_CHANNELS
        or attributes["border"] != "constant"
    ):
        return None
    if filter_.type.nbytes > MAX_FILTER_BYTES or 2 + 2 * len(size) > MAX_RANK:
        return None
    window = convolution_window(x.type.dims, filter_.type.dims, attributes, reverse=True)
    if any(d != 1 for d in window.dilation) or math.prod(window.stride) == 1:
        return None
    whole = [t * s for t, s in zip(_taps(window), window.stride, strict=True)]
    if math.prod(whole) > MAX_TAP_RATIO * math.prod(size):
        return None
    ends = zip(
        window.input, window.output, window.padding, window.stride, _taps(window), strict=True
    )
    for n, outputs, (before, _), s, t in ends:
        if before < 0 or before + outputs > (n + t - 1) * s:
            return None
    return window


def _taps(window: Window) -> list[int]:
    """The taps of a phase along each dimension."""
    return [-(-size // s) for size, s in zip(window.size, window.stride, strict=True)]


def _interleave(graph: Graph, op: Op, window: Window, known: KnownValues) -> bool:
    """Replace a deconvolution with known weights; returns whether they are known."""
    x, filter_, bias = op.inputs
    weights, offsets = known.items(filter_), known.items(bias)
    if weights is None or offsets is None:
        return False
    emit = emitter(graph, op, op.location)

    def constant(items: Array, type_: TensorType) -> Value:
        new = constant_op(items, type_.with_shape(items.shape), op.location)
        return graph.insert(new, op).output

    few, stride, taps = filter_.type.dims[1], window.stride, _taps(window)
    batch, _, *extents = x.type.dims
    rank = len(stride)
    every = np.broadcast_to(offsets.reshape(1, -1), (1, few))
    y: Value = emit(
        "conv",
        x,
        constant(_phases(weights, stride, taps), filter_.type),
        constant(np.repeat(every, math.prod(stride), axis=1), bias.type),
        padding=tuple((t - 1, t - 1) for t in taps),
    )
    positions = [n + t - 1 for n, t in zip(extents, taps, strict=True)]
    y = emit("reshape", y, shape=(batch, few, *stride, *positions))
    pairs = chain.from_iterable((2 + rank + i, 2 + i) for i in range(rank))
    y = emit("transpose", y, axes=(0, 1, *pairs))
    whole = [n * s for n, s in zip(positions, stride, strict=True)]
    y = emit("reshape", y, shape=(batch, few, *whole))
    begin = tuple(before for before, _ in window.padding)
    end = tuple(b + n for b, n in zip(begin, window.output, strict=True))
    replace(graph, op, [emit("slice", y, axes=tuple(range(2, 2 + rank)), begin=begin, end=end)])
    return True


def _phases(items: Array, stride: Sequence[int], taps: Sequence[int]) -> Array:
    """A filter [channels, few, ...] as [few * phases, channels, ...], with taps reversed."""
    channels, few, *size = items.shape
    missing = [(0, t * s - k) for t, s, k in zip(taps, stride, size, strict=True)]
    padded = np.pad(items, [(0, 0), (0, 0), *missing])
    split = padded.reshape(channels, few, *chain.from_iterable(zip(taps, stride, strict=True)))
    of_taps = tuple(range(2, split.ndim, 2))
    of_phases = tuple(range(3, split.ndim, 2))
    moved = np.flip(split, of_taps).transpose(1, *of_phases, 0, *of_taps)
    return np.ascontiguousarray(moved.reshape(-1, channels, *taps))
