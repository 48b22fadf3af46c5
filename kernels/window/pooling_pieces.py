"""Pieces of rows that the kernels of pooling compute: tiles, and strips of a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from nnefc.kernels.tile.piece_record import heights

LINE: Final = 128
"""Capacity of the line in pixels."""


class Strip(NamedTuple):
    """Neighbouring outputs of a row, as integers; distances are in bytes.

    A row of x is read at `columns` pixels, `column_bytes` apart.  In the line they are padded with
    `before` and `after` pixels of `fill`, the bits of a number.  Output i of `outputs` reads `taps`
    pixels of the line, `tap_bytes` apart, from i * `stride_bytes` on.  The line is in the type of
    the accumulator.
    """

    columns: Any
    column_bytes: Any
    before: Any
    after: Any
    fill: Any
    outputs: Any
    stride_bytes: Any
    taps: Any
    tap_bytes: Any


STRIP: Final = 0
"""The kind of the pieces whose rows `pooling_line` reads as one strip."""


class RowWindow(NamedTuple):
    """A window along a row."""

    stride: int
    taps: int


WINDOWS: Final = (RowWindow(1, 3), RowWindow(1, 5), RowWindow(2, 2), RowWindow(2, 3))


EDGE_HEIGHTS: Final = (2, 4, 7)
"""Heights of tiles with a clipped window."""


@dataclass(frozen=True, slots=True)
class Tile:
    """`height` neighbouring outputs, `stride` pixels apart, each with `taps` pixels of a row.

    `before`, `after`: taps of the first and of the last output that are outside the row.
    """

    stride: int
    taps: int
    height: int
    before: int = 0
    after: int = 0

    @property
    def kind(self) -> int:
        """The kind of pieces with this tile, unique among the tiles of a window."""
        edge = (self.before > 0) + 2 * (self.after > 0)
        return 100 * edge + self.height

    @property
    def columns(self) -> int:
        """Pixels of a row that the outputs read."""
        return (self.height - 1) * self.stride + self.taps - self.before - self.after

    @property
    def meets(self) -> list[range]:
        """The pixels that each output reads, relative to the first pixel of the tile."""
        starts = [i * self.stride - self.before for i in range(self.height)]
        return [range(max(n, 0), min(n + self.taps, self.columns)) for n in starts]


def tiles(stride: int, taps: int, before: int, after: int, registers: int) -> Iterator[Tile]:
    """The tiles with code, for windows in `WINDOWS` and borders of half a window.

    `registers`: of the instruction set that the code is compiled for.
    """
    edge = taps // 2 if taps > stride else 0
    if (stride, taps) not in WINDOWS or not {before, after} <= {0, edge}:
        return
    for height in heights(registers, 4, columns=lambda n: (n - 1) * stride + taps):
        if height in EDGE_HEIGHTS or not before | after:
            yield Tile(stride, taps, height, before, after)
