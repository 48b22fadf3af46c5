"""How words of neighbouring pixels cover rows of taps.

A word has 4 / channels pixels, each with some channels of a group.  Outputs share a word where
their taps overlap in it; then each multiplies it with other weights, moved by a pixel or more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple


class Taps(NamedTuple):
    """Neighbouring taps of a row in a word; its other pixels have weights of zero."""

    first: int
    length: int
    pixel: int
    """The pixel of the word that meets the first of them."""


@dataclass(frozen=True, slots=True)
class RowWord:
    """A word that outputs of a piece read."""

    column: int
    """Its first pixel, relative to the first pixel of the row of the first output."""
    uses: list[tuple[int, Taps]] = field(default_factory=list[tuple[int, Taps]])
    """(output, its taps in this word)"""


@cache
def row_words(outputs: int, stride: int, row: int, pixels: int) -> tuple[RowWord, ...]:
    """Words of `pixels` pixels for outputs that are `stride` pixels apart, each with `row` taps.

    Every output multiplies as few words as it can.  Words end with the last pixel that any output
    reads, or begin with the first one.
    """
    last = max((outputs - 1) * stride + row - pixels, 0)
    words: dict[int, RowWord] = {}
    for output in range(outputs):
        start, done = output * stride, 0
        for left in range(-(-row // pixels) - 1, -1, -1):
            column = start + done
            # one word that is there, if `left` further ones are then enough
            usable = [c for c in words if c <= column < c + pixels]
            column = max(usable, default=-pixels)
            if column + pixels + left * pixels < start + row:
                column = min(start + done, last)
                words[column] = words.get(column) or RowWord(column)
            count = min(column + pixels - start, row) - done
            taps = Taps(done, count, start + done - column)
            words[column].uses.append((output, taps))
            done += count
    return tuple(words.values())


def weight_vectors(heights: Iterable[int], stride: int, row: int, pixels: int) -> list[Taps]:
    """The vectors of weights of a row, in order, for pieces of some numbers of outputs."""
    every = {
        taps
        for outputs in heights
        for word in row_words(outputs, stride, row, pixels)
        for _, taps in word.uses
    }
    return sorted(every)
