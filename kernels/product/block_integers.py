"""Tiles of products of int16, rows in groups with decoded panels, in vector registers.

The sums of a block are int32.  AMD's processors since Zen 4 add vectors in more units than they
multiply them in.  There, two of three rows take half as many multiplications and twice as many
additions (Winograd, "A new algorithm for inner product", 1968):

    x1 y1 + x2 y2 = (x1 + y2)(x2 + y1) - x1 x2 - y1 y2

x1 and x2 are neighbouring words of a row, y1 and y2 of a column.  The sums of x1 x2 and of y1 y2
over a block are stored beside its words.  All of this wraps around modulo 2^32, so the sums are the
same, bit for bit.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any, Final

from nnefc.kernels.product.block_panels import VECTORS
from nnefc.kernels.product.block_rows import (
    PIECE_BYTES,
    WORDS,
    adds_words,
    block_bytes,
    scales_at,
    terms_at,
)
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.dot_words import pair_dot, vector_items
from nnefc.kernels.vector.lanes import Lanes, fma
from nnefc.kernels.vector.vector_builder import Vector

PANELS: Final = 3
"""Panels of a tile where registers hold the sums of so many."""
FEW_ROWS: Final = 3
"""A tile with at most this many rows does not compute the others of a group."""
_PERIOD: Final = 3
"""Of so many rows, the last one is multiplied word by word: all units are then equally busy."""


def integer_panels() -> int:
    """Panels of a tile."""
    return PANELS if host().registers >= 32 else 1


def add_products(v: Vector, rows: int, blocks, a, b, sums) -> None:
    """Add the products of the first `rows` rows of a group to the sums in memory."""
    panels, words = integer_panels(), v.of("int32")
    with v.loop(0, blocks, 1, [a, b]) as turn:
        at_a, at_b = turn.values
        totals = [total for i in range(rows) for total in _starts(words, i, at_a, at_b)]
        with v.loop(0, v.word(WORDS), 2, [*totals, at_a, at_b]) as pair:
            *totals, word_a, word_b = pair.values
            totals = _step(words, totals, word_a, word_b)
            pair.next = [*totals, v.at(word_a, 2 * 4), v.at(word_b, 2 * v.nbytes)]
        scales = [v.load(at_b, (j * VECTORS + WORDS) * v.nbytes) for j in range(panels)]
        for number, total in enumerate(pair.values[:-2]):
            i, j = divmod(number, panels)
            scale = v.load_splat(at_a, scales_at("int16") + 4 * i)
            place = v.at(sums, number * v.nbytes)
            fma(convert(total, "float32"), scale * scales[j], v.load(place)).store(place)
        turn.next = [v.at(at_a, block_bytes("int16")), v.at(at_b, panels * VECTORS * v.nbytes)]


def _adds(row: int) -> bool:
    """Whether the words of a row are added to words of columns, and then multiplied."""
    return adds_words() and row % _PERIOD < _PERIOD - 1


def _starts(words: Vector, row: int, a, b) -> list[Lanes]:
    """What the sums of a row in a block start from, by panel."""
    panels = range(integer_panels())
    if not _adds(row):
        return [words.zero()] * len(panels)
    term = words.load_splat(a, terms_at("int16") + 4 * row)
    return [term + words.load(b, (j * VECTORS + WORDS + 1) * words.nbytes) for j in panels]


def _step(words: Vector, totals: list[Lanes], a, b) -> list[Lanes]:
    """The sums, with the products of two words of each row added."""
    panels, dot = integer_panels(), pair_dot()
    y1, y2 = (
        [words.load(b, (j * VECTORS + n) * words.nbytes) for j in range(panels)] for n in range(2)
    )
    result: list[Lanes] = []
    for i in range(len(totals) // panels):
        x1, x2 = (words.load_splat(a, i * PIECE_BYTES + 4 * n) for n in range(2))
        for total, z1, z2 in zip(totals[i * panels :], y1, y2, strict=False):
            if _adds(i):
                result.append(dot.add(total, [_sum(x1, z2)], [_sum(x2, z1)]))
            else:
                result.append(dot.add(dot.add(total, [x1], [z1]), [x2], [z2]))
    return result


def _sum(x: Lanes, y: Lanes) -> Lanes:
    """The sums of the numbers of 16 bits in words."""
    v = x.v
    numbers: Any = v.builder.add(*(vector_items(v, z.value, 16) for z in (x, y)))
    return x.same(vector_items(v, numbers, 32))
