"""Transposes squares of vectors in registers."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnefc.kernels.vector.lanes import Lanes, shuffle_two
from nnefc.kernels.vector.vector_builder import Vector


def transpose(v: Vector, rows: Sequence[Lanes]) -> list[Lanes]:
    """The transpose of as many rows as lanes: vector j holds item j of every row.

    Items are interleaved within quarters of 128 bits, then quarters are exchanged, so that each
    shuffle is one instruction on every machine.
    """
    lanes = v.lanes
    assert len(rows) == lanes and lanes & (lanes - 1) == 0
    quarter = min(lanes, 16 // v.itemsize)
    groups = [_interleaved(v, rows[first : first + quarter]) for first in range(0, lanes, quarter)]
    # vector c of group g: quarter k holds item 4k + c of the group's rows
    columns: list[Any] = [None] * lanes
    for c in range(quarter):
        for k, column in enumerate(_gathered(v, [group[c] for group in groups], quarter)):
            columns[k * quarter + c] = column
    return columns


def _interleaved(v: Vector, rows: Sequence[Lanes]) -> list[Lanes]:
    """Vectors whose number c holds, in every quarter, item c of the rows."""
    width, vectors = 1, list(rows)
    while width < len(rows):
        # pairs at a distance of `width`, pieces of `width` items
        after: list[Lanes] = []
        for first in range(0, len(rows), 2 * width):
            for i in range(first, first + width):
                low, high = vectors[i], vectors[i + width]
                after += [_zip(v, low, high, width, half, len(rows)) for half in range(2)]
        vectors, width = after, 2 * width
    return vectors


def _zip(v: Vector, low: Lanes, high: Lanes, width: int, half: int, quarter: int) -> Lanes:
    """Interleaved pieces of `width` items of the lower or upper half of every quarter."""
    order: list[int] = []
    for start in range(0, v.lanes, quarter):
        for piece in range(quarter // width // 2):
            source = start + half * quarter // 2 + piece * width
            for first in (source, source + v.lanes):
                order += range(first, first + width)
    return shuffle_two(low, high, v, order)


def _gathered(v: Vector, vectors: Sequence[Lanes], quarter: int) -> list[Lanes]:
    """Vectors whose number k is the concatenation of quarter k of all vectors."""
    if len(vectors) == 1:
        return list(vectors)
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    halves: list[list[Lanes]] = []
    for odd in range(2):
        starts = range(odd * quarter, 2 * v.lanes, 2 * quarter)
        order = [start + i for start in starts for i in range(quarter)]
        halves.append(_gathered(v, [shuffle_two(*pair, v, order) for pair in pairs], quarter))
    return [vector for pair in zip(*halves, strict=True) for vector in pair]
