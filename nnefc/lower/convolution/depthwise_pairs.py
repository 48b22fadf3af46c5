"""Convolutions of int16 with one or several channels of a block per group: sums in int32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.kernels.convolution import depthwise
from nnefc.kernels.convolution.depthwise import Group, depthwise_heights
from nnefc.lower.blocked import plane_pieces
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.code_convolution import CodeConvolution
from nnefc.lower.convolution.depthwise import row_of_taps, weight_order
from nnefc.lower.partition import ceil_div
from nnefc.program.tables.depthwise import RowWeights, depthwise_pieces, tap_orders
from nnefc.program.tables.phases import whole_axes
from nnefc.support.machine_model import MACS_PER_NS
from nnefc.symbolic.traced_array import traced_call

Array = npt.NDArray[Any]


def lower_depthwise_pairs(lower: Lowering, conv: CodeConvolution) -> None:
    x, y, window = conv.x, conv.y, conv.window
    assert x.layout.block == y.layout.block
    assert conv.ending.form == "sums"
    _, outputs, inputs = conv.filter.shape[:3]
    row = row_of_taps(window, inputs)
    step, apart = (1, window.stride[-1]) if window.reverse else (window.stride[-1], 1)
    heights = tuple(depthwise_heights(row))
    rows = RowWeights(first=0, phase=y.pixel_bytes, row=row * inputs * x.pixel_bytes)
    packed = _pack(conv, row)
    weights = plane_pieces.Weights(lower.table(packed), packed.shape[1])
    planes, whole = (x.plane, y.plane, y.plane), whole_axes(window)
    pieces, taps = traced_call(depthwise_pieces, window, row, heights, rows, *planes, whole)
    meets = window.volume * inputs / (math.prod(window.stride) if window.reverse else 1)
    # output blocks `parts` apart read the same lanes of their input blocks
    parts = outputs // inputs
    for part in range(min(parts, y.blocks)):
        plane_pieces.launch(
            lower,
            depthwise.sums_of_codes(x.layout.block, step, row, apart, Group(inputs, outputs, part)),
            x,
            y,
            pieces,
            taps,
            math.prod(window.output) * (meets + 2) * x.layout.block / MACS_PER_NS,
            weights=weights,
            blocks=range(part, y.blocks, parts),
        )


def _pack(conv: CodeConvolution, row: int) -> Array:
    """Starts and weights of each phase as the kernel reads them, [blocks, bytes of a block]."""
    block, filter_ = conv.y.layout.block, conv.filter
    inputs = filter_.shape[2]
    by_channel = filter_.reshape(conv.bias.size, -1)
    packed: list[Array] = []
    order, at = weight_order(conv.window, row, inputs), 0
    for taps in tap_orders(conv.window):
        used = by_channel[:, order[at : at + inputs * len(taps)]]
        at += inputs * len(taps)
        starts = conv.bias - conv.x_zero * used.sum(1, dtype=np.int64)
        packed += [_by_block(starts[:, None].astype(np.int32), block), _by_block(used, block)]
    return np.concatenate(packed, 1)


def _by_block(items: Array, block: int) -> Array:
    """[channels, n] as the bytes of [blocks, n, block], zeros for missing channels."""
    channels, count = items.shape
    padded = np.zeros((ceil_div(channels, block) * block, count), items.dtype)
    padded[:channels] = items
    vectors = padded.reshape(len(padded) // block, block, count).swapaxes(1, 2)
    return np.ascontiguousarray(vectors).reshape(len(vectors), count * block).view(np.uint8)
