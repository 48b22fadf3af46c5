"""Depthwise convolution, and convolution with small groups, on channel-blocked codes.

As in `depthwise`, the kernel loops over rows of taps by a table of byte offsets, and a lane of the
result is an output channel.  A step multiplies words of four codes: the codes of neighbouring
pixels are shuffled so that each lane has a word of its own group (`nnefc.kernels.tile.word_rows`).
Neighbouring outputs share these words.  Sums are requantized in registers.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from nnefc.kernels.convolution.depthwise import Group
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.code_results import Ending, Results
from nnefc.kernels.tile.piece_record import heights
from nnefc.kernels.tile.plane_pieces import Emit, Piece, pieces_kernel
from nnefc.kernels.tile.word_rows import Taps, row_words, weight_vectors
from nnefc.kernels.vector.dot_words import WORD_CODES, WordDot, word_dot
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.pixel_words import group_words, load_pixels
from nnefc.kernels.vector.vector_builder import Vector

LONGEST_ROW: Final = 16
"""Most taps of a row, which the code unrolls for every output of a piece."""


class CodeRow(NamedTuple):
    """A row of neighbouring taps, and how groups lie in blocks."""

    stride: int
    """Pixels between neighbouring outputs in the input."""
    taps: int
    group: Group

    @property
    def pixels(self) -> int:
        """Pixels of a word."""
        return max(WORD_CODES // self.group.inputs, 1)

    @property
    def words(self) -> int:
        """Words of a pixel, if a word is one pixel; else 1."""
        return -(-self.group.inputs // WORD_CODES)

    @property
    def heights(self) -> tuple[int, ...]:
        """Numbers of outputs that a piece may have."""
        dot = word_dot()
        others = 2 * dot.planes + 4
        return tuple(heights(host().registers, others))

    @property
    def vectors(self) -> list[Taps]:
        """The vectors of weights of a word of a row, in order."""
        return weight_vectors(self.heights, self.stride, self.taps, self.pixels)

    def channels(self, word: int) -> list[list[int]]:
        """The channels of the input block in word `word` of each lane."""
        block, (inputs, outputs, part) = lanes_of("int32"), self.group
        first = part * block * inputs // outputs + word * WORD_CODES
        count = min(inputs, WORD_CODES)
        starts = [first + lane // outputs * inputs for lane in range(block)]
        return [list(range(start, start + count)) for start in starts]


@family()
def convolution(
    ending: Ending, stride: int, taps: int, spacing: int, group: Group
) -> KernelFunction:
    """Pieces of convolutions of codes, whose kind is their number of outputs.

    `stride`, `taps`, `spacing`: as of `depthwise.convolution`.

    Weights of a channel block begin with the bounds of `Results`, padded to vectors of int32, and
    the terms of its form.  Weights of a phase, whose offset is the first entry of a table, are the
    int32 sums of no products, then for each row, vector of weights of a row and word of a pixel the
    planes of `nnefc.kernels.vector.dot_words`.
    """
    row = CodeRow(stride, taps, group)
    kinds: dict[int, Emit] = {
        height: partial(_convolve, row, height, ending, spacing) for height in row.heights
    }
    return pieces_kernel(host().codes, "int32", lanes_of("int32"), kinds)


def _convolve(row: CodeRow, height: int, ending: Ending, spacing: int, piece: Piece) -> None:
    v, dot = piece.sums, word_dot()
    start_at = v.at(piece.weights, piece.tap(0))
    starts, first_row = v.load(start_at), v.at(start_at, v.nbytes)
    with v.loop(1, piece.count, 1, [first_row, *[starts] * height]) as turn:
        at, *sums = turn.values
        source = v.at(piece.x, piece.tap(turn.index))
        weights = _Weights(v, at, row, dot)
        _add_row(v, dot, row, source, weights, sums)
        turn.next = [v.at(at, weights.nbytes), *sums]
    scale = v.at(piece.weights, bounds_vectors(ending) * v.nbytes)
    results = Results(v, 1, scale, piece.weights, ending)
    totals = turn.values[1:]
    if spacing == 1:
        results.store_neighbours(totals, 0, piece.y, piece.other)
        return
    apart = spacing * ITEMSIZE[ending.result] * v.lanes
    for i, total in enumerate(totals):
        residual = results.residual_of(piece.other, i * spacing)
        results.store(total, 0, v.at(piece.y, i * apart), residual)


class _Weights:
    """The weights of a row of taps; each vector is loaded where it is used first."""

    def __init__(self, v: Vector, at: Any, row: CodeRow, dot: WordDot) -> None:
        self._v, self._at, self._words, self._planes = v, at, row.words, dot.planes
        self._numbers = {taps: i for i, taps in enumerate(row.vectors)}
        self._loaded: dict[tuple[Taps, int], list[Lanes]] = {}

    @property
    def nbytes(self) -> int:
        return len(self._numbers) * self._words * self._planes * self._v.nbytes

    def load(self, taps: Taps, word: int) -> list[Lanes]:
        """The planes of a vector of weights."""
        key = taps, word
        if key not in self._loaded:
            first = (self._numbers[taps] * self._words + word) * self._planes
            self._loaded[key] = [
                self._v.load(self._at, (first + plane) * self._v.nbytes)
                for plane in range(self._planes)
            ]
        return self._loaded[key]


def _add_row(
    v: Vector, dot: WordDot, row: CodeRow, source: Any, weights: _Weights, sums: list[Any]
) -> None:
    """Add the products of a row of taps to the sums of the outputs of a piece."""
    shuffles: list[Callable[[Lanes], Lanes]] = [
        group_words(v, row.pixels, row.channels(word)) for word in range(row.words)
    ]
    height = len(sums)
    span = (height - 1) * row.stride + row.taps
    for word in row_words(height, row.stride, row.taps, row.pixels):
        at = v.at(source, word.column * v.lanes)
        x = load_pixels(v, at, min(row.pixels, span - word.column), row.pixels)
        for number, shuffle in enumerate(shuffles):
            codes = dot.codes(shuffle(x))
            for output, taps in word.uses:
                sums[output] = dot.add(sums[output], codes, weights.load(taps, number))


def bounds_vectors(ending: Ending) -> int:
    """Vectors of int32 of the bounds of a block."""
    return -(-ending.bounds_bytes // (4 * lanes_of("int32")))


def block_prefix(ending: Ending) -> int:
    """Vectors before the weights of the first phase of a block: bounds and terms."""
    return bounds_vectors(ending) + ending.terms
