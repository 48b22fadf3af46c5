"""Rows of outputs of pooling windows, cut into pieces that a kernel computes at once."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnefc.kernels.window.pooling import STRIP
from nnefc.kernels.window.pooling_line import LINE, Strip
from nnefc.kernels.window.pooling_tile import Tile, tiles
from nnefc.lower.blocked import plane_pieces
from nnefc.lower.blocked.tensors import Plane
from nnefc.lower.partition import ceil_div
from nnefc.ops.core.window_arithmetic import Indices


@dataclass(frozen=True, slots=True, eq=False)
class WindowAxis:
    """What the window meets along one spatial dimension.

    table: [outputs, taps] of source indices, negative where nothing is there.
    """

    table: Indices
    stride: int = 1
    dilation: int = 1
    before: int = 0
    """Padding."""

    @classmethod
    def identity(cls, extent: int) -> WindowAxis:
        return cls(np.arange(extent, dtype=np.int64)[:, None])

    @property
    def outputs(self) -> int:
        return self.table.shape[0]

    @property
    def taps(self) -> int:
        return self.table.shape[1]

    @property
    def span(self) -> int:
        """From the first tap to the last."""
        return (self.taps - 1) * self.dilation + 1

    def padding(self, extent: int) -> tuple[int, int]:
        """What lies before the input at the first output, and after it at the last."""
        end = (self.outputs - 1) * self.stride - self.before + self.span
        return self.before, max(end - extent, 0)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Taps that meet something, per output."""
        return (self.table >= 0).sum(1)

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """The first source index of every output; 0 where there is none."""
        found = np.where(self.table >= 0, self.table, np.iinfo(np.int64).max).min(1)
        return np.where(self.counts > 0, found, 0)

    def tap_distances(self) -> list[tuple[int, ...]]:
        """For every output, the distances of what it meets from the first of them."""
        pairs = zip(self.table.tolist(), self.first.tolist(), strict=True)
        return [tuple(index - first for index in row if index >= 0) for row, first in pairs]


@dataclass(frozen=True, slots=True)
class RowPiece:
    """Some neighbouring outputs of a row, which a piece computes."""

    outputs: range
    first: int
    """Source index of the first column that is met."""
    kind: int
    strip: Strip | None = None
    """What the table says of it."""
    tap_distances: tuple[int, ...] = (0,)
    """Of outputs that share no columns, the distances of taps from the first."""
    whole: bool = True
    """Whether these are all taps."""


def row_pieces(axis: WindowAxis, x: Plane, fill: float, *, clipped: bool) -> list[RowPiece]:
    """The parts of a row: tiles, of windows that there are some for, else strips.

    `fill` stands for what is not there; `clipped`: tiles may leave it out.
    """
    extent = x.spatial[-1]
    padding = axis.padding(extent)
    if axis.dilation == 1 and (clipped or not any(padding)) and (found := _tiles(axis, *padding)):
        return found
    return _strips(axis, extent, x.pixel_bytes, int(np.float32(fill).view(np.int32)))


def _tiles(axis: WindowAxis, before: int, after: int) -> list[RowPiece] | None:
    """`before`, `after`: taps that meet nothing at the first output, at the last."""

    def there(before: int, after: int) -> list[Tile]:
        return list(tiles(axis.stride, axis.taps, before, after))

    whole = {tile.height: tile for tile in there(0, 0)}
    found: list[list[Tile]] = []
    for left in ([tile] for tile in there(before, 0)) if before else [[]]:
        for right in ([tile] for tile in there(0, after)) if after else [[]]:
            rest = axis.outputs - sum(tile.height for tile in left + right)
            if rest >= 0 and whole:
                middle = [whole[height] for height in plane_pieces.split_width(rest, tuple(whole))]
                found.append([*left, *middle, *right])
    if not found:
        return None
    best = min(found, key=lambda some: plane_pieces.piece_cost(tile.height for tile in some))
    ends = list(itertools.accumulate((tile.height for tile in best), initial=0))
    return [
        RowPiece(range(*ends[i : i + 2]), max(ends[i] * axis.stride - axis.before, 0), tile.kind)
        for i, tile in enumerate(best)
    ]


def _strips(axis: WindowAxis, extent: int, pixel: int, fill: int) -> list[RowPiece]:
    """Strips whose columns fit into the line; if none do, each tap is an entry of the table."""
    if axis.stride >= axis.taps or 2 * axis.span > LINE:
        return [
            RowPiece(
                some,
                first,
                STRIP,
                Strip(len(some), axis.stride * pixel, 0, 0, fill, len(some), pixel, 1, 0),
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
        assert first < end, "a window that meets nothing is not lowered here"
        strip = Strip(
            columns=end - first,
            column_bytes=pixel,
            before=first - start,
            after=stop - end,
            fill=fill,
            outputs=len(some),
            stride_bytes=axis.stride * pixel,
            taps=axis.taps,
            tap_bytes=axis.dilation * pixel,
        )
        parts.append(RowPiece(some, first, STRIP, strip))
    return parts


def _equal_windows(axis: WindowAxis) -> list[tuple[range, int, tuple[int, ...]]]:
    """Outputs whose windows meet the same, shifted by the stride: (outputs, first index, meets)."""
    tap_distances, first = axis.tap_distances(), axis.first.tolist()
    found: list[tuple[range, int, tuple[int, ...]]] = []
    # windows that are clipped at the start may begin at the same index
    keys = [
        (m, n - o * axis.stride) for o, (m, n) in enumerate(zip(tap_distances, first, strict=True))
    ]
    for _, run in itertools.groupby(range(axis.outputs), key=keys.__getitem__):
        numbers = list(run)
        for some in _split_range(range(numbers[0], numbers[-1] + 1), LINE):
            found.append((some, first[some.start], tap_distances[some.start]))
    return found


def _split_range(outputs: range, most: int) -> list[range]:
    """Nearly equal parts, of at most so many."""
    n, count = len(outputs), ceil_div(len(outputs), most)
    return [outputs[i * n // count : (i + 1) * n // count] for i in range(count)]
