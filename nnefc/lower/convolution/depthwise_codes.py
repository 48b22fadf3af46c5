"""Convolutions of codes with one or several channels of a block per group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.kernels.convolution import depthwise_codes
from nnefc.kernels.convolution.depthwise import Group
from nnefc.kernels.convolution.depthwise_codes import (
    LONGEST_ROW,
    CodeRow,
    block_prefix,
    bounds_vectors,
)
from nnefc.kernels.vector.dot_words import WORD_CODES, word_dot
from nnefc.lower.blocked import plane_pieces
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.code_convolution import CodeConvolution, reach_of_codes
from nnefc.lower.convolution.depthwise import taps_of_row
from nnefc.lower.partition import ceil_div
from nnefc.program.tables.depthwise import RowWeights, depthwise_pieces, tap_orders
from nnefc.program.tables.phases import whole_axes
from nnefc.support.machine_model import MACS_PER_NS
from nnefc.symbolic.traced_array import traced_call

Array = npt.NDArray[Any]

RESULT_STEPS = 6
"""Instructions to requantize and store a vector of sums, about."""


def lower_depthwise_codes(lower: Lowering, conv: CodeConvolution) -> None:
    x, y, window = conv.x, conv.y, conv.window
    assert x.layout.block == y.layout.block
    assert x.layout.fill == conv.x_zero or not any(map(any, reach_of_codes(window)))
    _, outputs, inputs = conv.filter.shape[:3]
    taps = taps_of_row(window)
    taps = taps if taps <= LONGEST_ROW else 1
    step, apart = (1, window.stride[-1]) if window.reverse else (window.stride[-1], 1)
    # output blocks `parts` apart read the same lanes of their input blocks
    parts = outputs // inputs
    row = CodeRow(step, taps, Group(inputs, outputs))
    weights, rows = _pack(conv, row)
    at = plane_pieces.Weights(lower.table(weights), weights.shape[1])
    planes = x.plane, y.plane, (conv.residual or y).plane
    whole = whole_axes(window)
    pieces, table = traced_call(depthwise_pieces, window, taps, row.heights, rows, *planes, whole)
    dots = window.volume // taps * ceil_div(taps, row.pixels) * row.words
    dots *= len(conv.digits)
    if window.reverse:
        dots /= math.prod(window.stride)
    steps = dots * word_dot().instructions + RESULT_STEPS
    for part in range(min(parts, y.blocks)):
        kernel = depthwise_codes.convolution(
            conv.ending, step, taps, apart, Group(inputs, outputs, part)
        )
        plane_pieces.launch(
            lower,
            kernel,
            x,
            y,
            pieces,
            table,
            math.prod(window.output) * steps * x.layout.block / MACS_PER_NS,
            other=conv.residual,
            weights=at,
            blocks=range(part, y.blocks, parts),
        )


def _pack(conv: CodeConvolution, row: CodeRow) -> tuple[Array, RowWeights]:
    """Weights [blocks, bytes of a block] as the kernel reads them, and where they are."""
    block = conv.y.layout.block
    vector = 4 * block
    row_bytes = len(row.vectors) * row.words * word_dot().planes * vector
    prefix = block_prefix(conv.ending) * vector
    bounds = np.zeros((conv.y.blocks, bounds_vectors(conv.ending) * vector), np.uint8)
    bounds[:, : conv.bounds.nbytes] = conv.bounds
    parts = [bounds, *(_by_block(term[:, None], block) for term in conv.terms)]
    for taps in tap_orders(conv.window):
        numbers = [tuple(number for number, _ in tap) for tap in taps]
        digits = [_of_taps(each, numbers) for each in conv.digits]
        starts = conv.bias - conv.x_zero * np.sum(digits, (0, 2, 3), np.int64)
        parts.append(_by_block(starts.astype(np.int32)[:, None], block))
        for weights in digits:
            for first in range(0, len(taps), row.taps):
                of_row = weights[:, first : first + row.taps]
                parts += [_by_block(words, block) for words in _row_vectors(of_row, row)]
    return np.concatenate(parts, 1), RowWeights(prefix, vector, row_bytes, len(conv.digits))


def _of_taps(filter_: Array, numbers: Sequence[tuple[int, ...]]) -> Array:
    """[channels, taps, inputs] of [groups, outputs, inputs, *taps]."""
    groups, outputs, inputs = filter_.shape[:3]
    chosen = [filter_[(..., *number)].reshape(-1, inputs) for number in numbers]
    return np.stack(chosen, 1) if chosen else np.zeros((groups * outputs, 0, inputs), np.int8)


def _row_vectors(weights: Array, row: CodeRow) -> Iterator[Array]:
    """The vectors of weights of a row, as words [channels, 4].

    `weights`: [channels, taps, inputs].
    """
    channels, _, inputs = weights.shape
    for taps in row.vectors:
        for word in range(row.words):
            words = np.zeros((channels, row.pixels, WORD_CODES // row.pixels), np.int8)
            used = slice(WORD_CODES * word, min(WORD_CODES * (word + 1), inputs))
            pixels = slice(taps.pixel, taps.pixel + taps.length)
            words[:, pixels] = weights[:, taps.first : taps.first + taps.length, used]
            yield words.reshape(channels, WORD_CODES)


def _by_block(items: Array, block: int) -> Array:
    """[channels, items of a lane] as bytes [blocks, ..], zeros for missing channels.

    Words of codes become planes of `nnefc.kernels.vector.dot_words`.
    """
    channels, per_lane = items.shape
    blocks = ceil_div(channels, block)
    padded = np.zeros((blocks * block, per_lane), items.dtype)
    padded[:channels] = items
    if items.dtype == np.int8:
        dot = word_dot()
        planes = padded.reshape(blocks, block, -1, dot.planes).transpose(0, 3, 1, 2)
        padded = np.ascontiguousarray(planes, dot.weights)
    return padded.reshape(blocks, -1).view(np.uint8)
