"""Convolutions with one input channel per output channel."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from nnefc.computed import computed
from nnefc.ir import Op
from nnefc.kernels.depthwise import depthwise_heights, row_fits
from nnefc.kernels.template import Kernel
from nnefc.lower import pieces
from nnefc.lower.blocked import Plane, read_blocked, write_blocked
from nnefc.lower.context import Lowering
from nnefc.lower.direct import read_bias
from nnefc.lower.ending import read_ending, read_simple
from nnefc.lower.partition import ceil_div
from nnefc.ops.window_rules import Window, convolution_window
from nnefc.rates import MACS_PER_NS

Array = npt.NDArray[np.float32]


def lower_depthwise(lower: Lowering, op: Op) -> None:
    """A `fused_conv` with as many groups as channels."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    window = convolution_window(x.shape, op.inputs[1].type.dims, op.attributes)
    end = read_simple(lower, op)
    data = lower.data(op.inputs[1])
    assert data is not None
    bias, block = read_bias(lower, op.inputs[2], y.channels), y.layout.block
    weights = lower.derived([data, bias], ("depthwise", block), lambda: _pack(data, bias, block))
    step = window.stride[-1]
    row = window.size[-1] if window.dilation[-1] == 1 and row_fits(window.size[-1]) else 1
    pixels = math.prod(window.output)
    planes = (each.plane for each in (x, y, end.residual or y))
    found, taps = computed(_pieces, window, row, *planes)
    pieces.launch(
        lower,
        Kernel("depthwise.convolution", (x.layout.block, step, row, end.residual is not None)),
        x,
        y,
        found,
        taps,
        pixels * (window.volume + 2) * x.layout.block / MACS_PER_NS,
        other=end.residual,
        weights=pieces.Weights(weights, weights.buffer.nbytes // y.blocks),
        clamp=end.clamp,
        ending=read_ending(lower, op, y),
    )


def _pack(filter_: npt.NDArray[np.generic], bias: Array, block: int) -> Array:
    """[channels, 1, *taps] and [channels] -> [blocks, 1 + taps, block], the bias first."""
    channels = len(bias)
    blocks = ceil_div(channels, block)
    packed = np.zeros((blocks * block, 1 + filter_[0].size), np.float32)
    packed[:channels, 0] = bias
    packed[:channels, 1:] = filter_.reshape(channels, -1)
    return np.ascontiguousarray(packed.reshape(blocks, block, -1).swapaxes(1, 2))


def _taps(window: Window, row: int, x: Plane) -> npt.NDArray[np.int32]:
    """Byte offsets of all rows of `row` taps from the first."""
    steps = [d * p for d, p in zip(window.dilation, x.pitches, strict=True)]
    places = itertools.product(*map(range, (*window.size[:-1], window.size[-1] // row)))
    offsets = [sum(i * s for i, s in zip(place, steps, strict=True)) for place in places]
    return np.array(offsets, np.int32)


def _pieces(
    window: Window, row: int, x: Plane, y: Plane, other: Plane
) -> tuple[pieces.Records, npt.NDArray[np.int32]]:
    """(pieces, row by row; where their taps are)."""
    widths = pieces.split(window.output[-1], tuple(depthwise_heights(row)))
    starts = [0, *itertools.accumulate(widths)][:-1]
    rows = [range(n) for n in window.output[:-1]]
    sources = [
        range(-before, n * stride - before, stride)
        for n, stride, (before, _) in zip(window.output, window.stride, window.padding, strict=True)
    ]
    columns = [sources[-1][start] for start in starts]
    count = math.prod(window.output[:-1])
    made = pieces.records(
        np.tile(widths, count),
        x.offsets(*sources[:-1], columns).astype(np.int64),
        y.offsets(*rows, starts).astype(np.int64),
        other.offsets(*rows, starts).astype(np.int64),
        0,
        window.volume // row,
    )
    return made, _taps(window, row, x)
