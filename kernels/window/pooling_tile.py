"""Common windows, in registers: a tile is some neighbouring outputs of a row.

The columns of the windows are reduced in registers, then neighbours along the row.  Size, stride
and border along a row are part of the code; other windows use
`pooling_line`, which takes up to twice the time.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.plane_pieces import Emit, Piece, heights
from nnefc.kernels.window.pooling_combine import Combine, add, has_nan, number
from nnefc.kernels.window.pooling_line import Strip, maxima_with_nan


class RowWindow(NamedTuple):
    """A window along a row."""

    stride: int
    taps: int


WINDOWS: Final = (RowWindow(1, 3), RowWindow(1, 5), RowWindow(2, 2), RowWindow(2, 3))
EDGE_HEIGHTS: Final = (2, 4, 7)
"""Numbers of outputs of a tile with a clipped window."""
CHAINS: Final = 2
"""Chains of the sum that detects NaN."""


@dataclass(frozen=True, slots=True)
class Tile:
    """`height` neighbouring outputs, `stride` pixels apart, each of `taps` pixels of a row.

    before, after: taps of the first, or of the last output that lie outside the row.
    """

    stride: int
    taps: int
    height: int
    before: int = 0
    after: int = 0

    @property
    def kind(self) -> int:
        """The number of its code among those of the window."""
        edge = (self.before > 0) + 2 * (self.after > 0)
        return 100 * edge + self.height

    @property
    def columns(self) -> int:
        """Pixels of a row that the outputs read."""
        return (self.height - 1) * self.stride + self.taps - self.before - self.after

    @property
    def meets(self) -> list[range]:
        """For every output the pixels that it reads, counted from the first of all."""
        starts = [i * self.stride - self.before for i in range(self.height)]
        return [range(max(n, 0), min(n + self.taps, self.columns)) for n in starts]

    def strip(self, pixel: int) -> Strip:
        """The same for `pooling_line`, with pixels of `pixel` bytes."""
        lowest = int(np.float32(-math.inf).view(np.int32))
        return Strip(
            columns=self.columns,
            column_bytes=pixel,
            before=self.before,
            after=self.after,
            fill=lowest,
            outputs=self.height,
            stride_bytes=self.stride * pixel,
            taps=self.taps,
            tap_bytes=pixel,
        )


def tiles(stride: int, taps: int, before: int, after: int) -> Iterator[Tile]:
    """All tiles that have code; none for other windows, or other borders than half a window."""
    edge = taps // 2 if taps > stride else 0
    if (stride, taps) not in WINDOWS or not {before, after} <= {0, edge}:
        return
    for height in heights(host(), 4, columns=lambda n: (n - 1) * stride + taps):
        if height in EDGE_HEIGHTS or not before | after:
            yield Tile(stride, taps, height, before, after)


def every_tile(stride: int, taps: int) -> list[Tile]:
    """All tiles of a window that have code."""
    edges = {(0, 0), (0, taps // 2), (taps // 2, 0)}
    return [tile for edge in sorted(edges) for tile in tiles(stride, taps, *edge)]


def sums(tile: Tile) -> Emit:
    """`piece.taps`: offsets of rows, then, at an edge, a factor, a float32, for every output."""

    def emit(piece: Piece) -> None:
        v = piece.v
        columns, _ = _columns(piece, tile, v.zero(), add)
        factors = v.at(piece.taps, v.builder.mul(piece.count, v.word(4)))
        scales = [v.load_splat(piece.number)] * tile.height
        if tile.before or tile.after:
            scales = [v.load_splat(factors, 4 * i) for i in range(tile.height)]
        _finish(piece, tile, columns, add, scales)

    return emit


def maxima(tile: Tile) -> Emit:
    """`piece.taps`: offsets of rows; `piece.number`: the least result."""

    def emit(piece: Piece) -> None:
        v, quick = piece.v, number(">")
        least = v.load_splat(piece.number)
        # Without NaN the loop is correct; the sum tells whether an item is NaN.
        columns, total = _columns(piece, tile, least, quick, checked=True)
        with v.builder.if_else(has_nan(total), likely=False) as (slow, fast):
            with slow:
                maxima_with_nan(piece, piece.taps, tile.strip(v.nbytes))
            with fast:
                _finish(piece, tile, columns, quick)

    return emit


def _columns(
    piece: Piece, tile: Tile, start: Any, combine: Combine, *, checked: bool = False
) -> tuple[list[Any], Any]:
    """The reduction of each column of pixels; and if `checked`, the sum of all items."""
    v, n = piece.v, tile.columns
    with v.loop(0, piece.count, 1, [*[start] * n, *[v.zero()] * (CHAINS * checked)]) as turn:
        source = v.at(piece.x, piece.tap(turn.index))
        columns, sums = turn.values[:n], turn.values[n:]
        for i in range(n):
            x = v.load(source, i * v.nbytes)
            columns[i] = combine(x, columns[i])
            if sums:
                sums[i % CHAINS] = sums[i % CHAINS] + x
        turn.next = [*columns, *sums]
    return turn.values[:n], turn.values[n] + turn.values[n + 1] if checked else None


def _finish(
    piece: Piece, tile: Tile, columns: Sequence[Any], combine: Combine, scales: Sequence[Any] = ()
) -> None:
    """Reduces the pixels of every window, and stores."""
    v = piece.v
    for i, (first, *others) in enumerate(tile.meets):
        result = columns[first]
        for pixel in others:
            result = combine(columns[pixel], result)
        if scales:
            result = result * scales[i]
        result.store(piece.y, i * v.nbytes)
