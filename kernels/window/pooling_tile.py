"""Pooling with common windows, in registers; a tile is some neighbouring outputs of a row.

The columns of the windows are reduced in registers, then neighbours along the row.  Size, stride
and border along a row are constants of the code.  Other windows use `pooling_line`, which takes up
to twice the time.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.plane_pieces import Emit, Piece
from nnefc.kernels.window.pooling_combine import Combine, add, has_nan, number
from nnefc.kernels.window.pooling_line import maxima_with_nan, real_of, scale_sum, start_of_sums
from nnefc.kernels.window.pooling_pieces import Strip, Tile, tiles

CHAINS: Final = 2
"""Number of chains of the sum that detects NaN."""


def _strip(tile: Tile, piece: Piece) -> Strip:
    """A tile of a piece as a `Strip` of `pooling_line`, filled with the lowest float."""
    pixel = piece.sums.nbytes
    return Strip(
        columns=tile.columns,
        column_bytes=piece.items.nbytes,
        before=tile.before,
        after=tile.after,
        fill=int(np.array(-math.inf, piece.sums.dtype).view(np.int32)),
        outputs=tile.height,
        stride_bytes=tile.stride * pixel,
        taps=tile.taps,
        tap_bytes=pixel,
    )


def every_tile(stride: int, taps: int) -> list[Tile]:
    """All tiles of a window with code."""
    edges = {(0, 0), (0, taps // 2), (taps // 2, 0)}
    registers = host().registers
    return [tile for edge in sorted(edges) for tile in tiles(stride, taps, *edge, registers)]


def sums(tile: Tile) -> Emit:
    """`piece.taps`: offsets of rows, followed at an edge by a factor per output."""

    def emit(piece: Piece) -> None:
        v = real_of(piece)
        columns, _ = _columns(piece, tile, start_of_sums(piece), add)
        factors = v.at(piece.taps, v.builder.mul(piece.count, v.word(4)))
        scales = [v.load_splat(piece.number)] * tile.height
        if tile.before or tile.after:
            scales = [v.load_splat(factors, 4 * i) for i in range(tile.height)]
        _finish(piece, tile, columns, add, scales)

    return emit


def maxima(tile: Tile) -> Emit:
    """`piece.taps`: offsets of rows; `piece.number`: lower bound of results."""

    def emit(piece: Piece) -> None:
        v, quick = piece.sums, number(">")
        least = v.load_splat(piece.number)
        if not least.is_float:
            columns, _ = _columns(piece, tile, least, quick)
            _finish(piece, tile, columns, quick)
            return
        # The reduction is correct unless an item is NaN, which the sum tells.
        columns, total = _columns(piece, tile, least, quick, checked=True)
        with v.builder.if_else(has_nan(total), likely=False) as (slow, fast):
            with slow:
                maxima_with_nan(piece, piece.taps, _strip(tile, piece))
            with fast:
                _finish(piece, tile, columns, quick)

    return emit


def _columns(
    piece: Piece, tile: Tile, start: Any, combine: Combine, *, checked: bool = False
) -> tuple[list[Any], Any]:
    """The reduction of each column of pixels, and the sum of all items if `checked`."""
    v, n = piece.sums, tile.columns
    with v.loop(0, piece.count, 1, [*[start] * n, *[v.zero()] * (CHAINS * checked)]) as turn:
        source = v.at(piece.x, piece.tap(turn.index))
        columns, sums = turn.values[:n], turn.values[n:]
        for i in range(n):
            x = piece.load(source, i * piece.items.nbytes)
            columns[i] = combine(x, columns[i])
            if sums:
                sums[i % CHAINS] = sums[i % CHAINS] + x
        turn.next = [*columns, *sums]
    return turn.values[:n], turn.values[n] + turn.values[n + 1] if checked else None


def _finish(
    piece: Piece, tile: Tile, columns: Sequence[Any], combine: Combine, scales: Sequence[Any] = ()
) -> None:
    """Reduce the columns of every window and store the results."""
    for i, (first, *others) in enumerate(tile.meets):
        result = columns[first]
        for pixel in others:
            result = combine(columns[pixel], result)
        if scales:
            result = scale_sum(result, scales[i])
        piece.store(result, piece.y, i * piece.results.nbytes)
