"""Words of four codes of neighbouring pixels of a channel block.

A word of a lane has codes of one group of channels: four pixels of one channel, two pixels of two,
or one pixel of four.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.dot_words import WORD_CODES
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.llvm_types import I8, I32
from nnefc.kernels.vector.vector_builder import Vector

QUARTER = 4
"""Words of 128 bits, within which every machine permutes bytes by one instruction."""


def load_pixels(v: Vector, pointer: Any, count: int, pixels: int) -> Lanes:
    """The words of `count` neighbouring pixels, then zeros for others up to `pixels`.

    `v`: vectors of int32 with a lane per channel of a block.
    """
    words = v.lanes // WORD_CODES
    if count == pixels:
        return v.resized(words * pixels).load(pointer)
    one = v.resized(words)
    parts = [one.load(pointer, i * one.nbytes) for i in range(count)]
    parts += [one.zero()] * (pixels - count)
    while len(parts) > 1:
        parts = [_joined(*parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def _joined(x: Lanes, y: Lanes) -> Lanes:
    v = x.v
    assert isinstance(v, Vector)
    wide, order = v.resized(2 * v.lanes), _numbers(range(2 * v.lanes))
    return wide.value(v.builder.shuffle_vector(x.value, y.value, order))


def group_words(
    v: Vector, pixels: int, channels: Sequence[Sequence[int]]
) -> Callable[[Lanes], Lanes]:
    """A function from the words of `pixels` pixels to a word of a group per lane of `v`.

    `channels`: the channels of the block in the word of each lane.  They are within four channels
    that begin at a multiple of 4, and so are those of lanes of the same quarter of a vector.
    """
    words = v.lanes // WORD_CODES
    if pixels == 1:
        return _by_words(v, [each[0] // WORD_CODES for each in channels])
    gathered: list[int] = []
    within: list[int] = []
    for first in range(0, v.lanes, QUARTER):
        lanes = channels[first : first + QUARTER]
        (word,) = {channel // WORD_CODES for each in lanes for channel in each}
        gathered += [min(pixel, pixels - 1) * words + word for pixel in range(QUARTER)]
        within += [
            WORD_CODES * (first + pixel) + channel % WORD_CODES
            for each in lanes
            for pixel in range(pixels)
            for channel in each
        ]
    by_words, kind = _by_words(v, gathered), ir.VectorType(I8, WORD_CODES * v.lanes)

    def words_of(x: Lanes) -> Lanes:
        b = v.builder
        bytes_ = b.bitcast(by_words(x).value, kind)
        moved = b.shuffle_vector(bytes_, bytes_, _numbers(within))
        return v.value(b.bitcast(moved, v.type))

    return words_of


def _by_words(v: Vector, order: Sequence[int]) -> Callable[[Lanes], Lanes]:
    def moved(x: Lanes) -> Lanes:
        return v.value(v.builder.shuffle_vector(x.value, x.value, _numbers(order)))

    return moved


def _numbers(order: Sequence[int]) -> Any:
    return ir.Constant(ir.VectorType(I32, len(order)), list(order))
