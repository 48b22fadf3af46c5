"""Division of output rows of pooling windows into pieces for the kernel."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnefc.kernels.window.pooling_pieces import LINE, STRIP, Strip, Tile, tiles
from nnefc.ops.core.window_arithmetic import Indices
from nnefc.program.tables.plane_records import piece_cost, split_width
from nnefc.program.tables.planes import Plane
from nnefc.symbolic.integers import ceil_div
from nnefc.symbolic.table_size import check_items


@dataclass(frozen=True, slots=True, eq=False)
class WindowAxis:
    """The taps of a window along one spatial dimension.

    `table`: [outputs, taps] of input indices, negative outside the input.
    """

    table: Indices
    stride: int = 1
    dilation: int = 1
    before: int = 0
    """Padding before the input."""

    @classmethod
    def identity(cls, extent: int) -> WindowAxis:
        check_items(extent)
        return cls(np.arange(extent, dtype=np.int64)[:, None])

    @property
    def outputs(self) -> int:
        return self.table.shape[0]

    @property
    def taps(self) -> int:
        return self.table.shape[1]

    @property
    def span(self) -> int:
        """Extent from the first tap to the last."""
        return (self.taps - 1) * self.dilation + 1

    def padding(self, extent: int) -> tuple[int, int]:
        """Padding that the first output reads before the input, and the last after it."""
        end = (self.outputs - 1) * self.stride - self.before + self.span
        return self.before, max(end - extent, 0)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """[outputs]: number of taps inside the input."""
        return (self.table >= 0).sum(1)

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """[outputs]: the first input index; 0 if all taps are outside."""
        lowest = np.where(self.table >= 0, self.table, np.iinfo(np.int64).max).min(1)
        return np.where(self.counts > 0, lowest, 0)

    def tap_distances(self) -> list[tuple[int, ...]]:
        """For every output, the distances of its input indices from the first one."""
        pairs = zip(self.table.tolist(), self.first.tolist(), strict=True)
        return [tuple(index - first for index in row if index >= 0) for row, first in pairs]


@dataclass(frozen=True, slots=True)
class RowPiece:
    """Consecutive outputs of a row, which a piece computes."""

    outputs: range
    first: int
    """Input index of the first column that is read."""
    kind: int
    strip: Strip | None = None
    """The strip in the table, unless the piece is a tile."""
    tap_distances: tuple[int, ...] = (0,)
    """Distances of the taps from the first, if the outputs share no columns."""
    whole: bool = True
    """Whether all taps are inside the input."""


def row_pieces(
    axis: WindowAxis, x: Plane, fill: int, *, line_pixel: int, clipped: bool, registers: int
) -> list[RowPiece]:
    """The pieces of a row: tiles if the kernels have some for the window, else strips.

    `fill`: the bits of items outside the input; `line_pixel`: bytes of a pixel of the line, in the
    type of the accumulator; `clipped`: whether tiles may skip them instead.
    `registers`: of the instruction set.
    """
    extent = x.spatial[-1]
    padding = axis.padding(extent)
    may_tile = axis.dilation == 1 and (clipped or not any(padding))
    if may_tile and (pieces := _tiles(axis, *padding, registers)):
        return pieces
    return _strips(axis, extent, x.pixel_bytes, line_pixel, fill)


def _tiles(axis: WindowAxis, before: int, after: int, registers: int) -> list[RowPiece] | None:
    """A row as tiles with the least cost; None if impossible.

    `before`, `after`: taps of the first and the last output outside the input.
    """

    def there(before: int, after: int) -> list[Tile]:
        return list(tiles(axis.stride, axis.taps, before, after, registers))

    whole = {tile.height: tile for tile in there(0, 0)}
    candidates: list[list[Tile]] = []
    for left in ([tile] for tile in there(before, 0)) if before else [[]]:
        for right in ([tile] for tile in there(0, after)) if after else [[]]:
            rest = axis.outputs - sum(tile.height for tile in left + right)
            if rest >= 0 and whole:
                middle = [whole[height] for height in split_width(rest, tuple(whole))]
                candidates.append([*left, *middle, *right])
    if not candidates:
        return None
    best = min(candidates, key=lambda some: piece_cost(tile.height for tile in some))
    ends = list(itertools.accumulate((tile.height for tile in best), initial=0))
    return [
        RowPiece(range(*ends[i : i + 2]), max(ends[i] * axis.stride - axis.before, 0), tile.kind)
        for i, tile in enumerate(best)
    ]


def _strips(
    axis: WindowAxis, extent: int, pixel: int, line_pixel: int, fill: int
) -> list[RowPiece]:
    """A row as strips whose columns fit into the line; else strips with an entry per tap.

    `pixel`, `line_pixel`: bytes of a pixel of x and of the line.
    """
    if axis.stride >= axis.taps or 2 * axis.span > LINE:
        return [
            RowPiece(
                some,
                first,
                STRIP,
                Strip(len(some), axis.stride * pixel, 0, 0, fill, len(some), line_pixel, 1, 0),
                tap_distances,
                len(tap_distances) == axis.taps,
            )
            for some, first, tap_distances in _equal_windows(axis)
        ]
    most = (LINE - axis.span) // axis.stride + 1
    parts: list[RowPiece] = []
    for some in _split_range(range(axis.outputs), most):
        start = some.start * axis.stride - axis.before
        stop = (some.stop - 1) * axis.stride - axis.before + axis.span
        first, end = max(start, 0), min(stop, extent)
        assert first < end, "windows outside the input are not lowered here"
        strip = Strip(
            columns=end - first,
            column_bytes=pixel,
            before=first - start,
            after=stop - end,
            fill=fill,
            outputs=len(some),
            stride_bytes=axis.stride * line_pixel,
            taps=axis.taps,
            tap_bytes=axis.dilation * line_pixel,
        )
        parts.append(RowPiece(some, first, STRIP, strip))
    return parts


def _equal_windows(axis: WindowAxis) -> list[tuple[range, int, tuple[int, ...]]]:
    """(outputs, first index, distances) of outputs whose taps are equal but for the stride."""
    tap_distances, first = axis.tap_distances(), axis.first.tolist()
    groups: list[tuple[range, int, tuple[int, ...]]] = []
    # windows clipped at the start may have the same first index
    keys = [
        (m, n - o * axis.stride) for o, (m, n) in enumerate(zip(tap_distances, first, strict=True))
    ]
    for _, run in itertools.groupby(range(axis.outputs), key=keys.__getitem__):
        numbers = list(run)
        for some in _split_range(range(numbers[0], numbers[-1] + 1), LINE):
            groups.append((some, first[some.start], tap_distances[some.start]))
    return groups


def _split_range(outputs: range, most: int) -> list[range]:
    """Nearly equal parts of at most `most` outputs."""
    n, count = len(outputs), ceil_div(len(outputs), most)
    return [outputs[i * n // count : (i + 1) * n // count] for i in range(count)]
