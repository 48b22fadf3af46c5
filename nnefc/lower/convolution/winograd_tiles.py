"""The tiles of Winograd convolution: their sizes, and their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.kernels.convolution.winograd_matrices import points
from nnefc.kernels.convolution.winograd_transforms import Taps
from nnefc.ops.core.winograd_tiles import phase_tiles

Integers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class TileClasses:
    """Classes of elements: the elements of a class exist in the same tiles.

    Smaller tiles lack the last elements of the transform.  All arrays are int32.
    """

    members: Integers
    """[elements]: the class of each element."""
    counts: Integers
    """[parts, classes]: number of these tiles in a batch item."""
    tiles: Integers
    """[parts, classes, capacity]: their numbers among the tiles of a block."""


class Tiling:
    """The tiles of all output planes, grouped by size, larger tiles first.

    Rows and columns of a tile are `dilation` apart.
    """

    def __init__(
        self,
        outputs: tuple[int, int, int],
        most: tuple[int, int],
        taps: Taps,
        dilation: tuple[int, int] = (1, 1),
    ) -> None:
        """`outputs`: planes, rows and columns; `most`: maximum rows and columns of a tile."""
        planes, *extents = outputs
        self._outputs, self._taps, self.dilation = outputs, taps, dilation
        tiles = [
            np.array(phase_tiles(n, d, m)) for n, d, m in zip(extents, dilation, most, strict=True)
        ]
        self._distinct = [sorted(set(axis[:, 1].tolist()), reverse=True) for axis in tiles]
        down, across = tiles[0].T[:, :, None], tiles[1].T
        every = np.stack(np.broadcast_arrays(down[0], across[0], down[1], across[1]), -1).reshape(
            -1, 4
        )
        order = np.lexsort((np.arange(len(every)), -every[:, 3], -every[:, 2]))
        self.tiles: Integers = np.repeat(every[order], planes, axis=0)
        """[count, 4]: first row, first column, rows, columns of the outputs of a tile."""
        self.planes: Integers = np.tile(np.arange(planes), len(every))
        """[count]: the plane of each tile."""

    @property
    def count(self) -> int:
        return len(self.tiles)

    @property
    def grid(self) -> tuple[int, int]:
        """Points of the transform of the largest tile, along rows and columns."""
        (height, *_), (width, *_) = self._distinct
        return points(height, self._taps[0]), points(width, self._taps[1])

    def parts(self, number: int) -> Iterator[range]:
        """The tiles, in `number` nearly equal parts."""
        for part in range(number):
            yield range(self.count * part // number, self.count * (part + 1) // number)

    def pixels(self, part: range) -> list[range]:
        """The outputs of a part, numbered row by row, as maximal ranges."""
        _, rows_of_plane, width = self._outputs
        mine = slice(part.start, part.stop)
        tiles = self.tiles[mine]
        below, beside = self.dilation
        firsts = self.planes[mine] * rows_of_plane + tiles[:, 0]
        runs = [
            range(first, first + (columns if beside == 1 else 1))
            for top, (left, height, columns) in zip(
                firsts.tolist(), tiles[:, 1:].tolist(), strict=True
            )
            for start in range(top * width + left, (top + height * below) * width, below * width)
            for first in range(start, start + (1 if beside == 1 else columns * beside), beside)
        ]
        joined: list[range] = []
        for run in sorted(runs, key=lambda run: run.start):
            if joined and joined[-1].stop == run.start:
                joined[-1] = range(joined[-1].start, run.stop)
            else:
                joined.append(run)
        return joined

    def runs(self, parts: int) -> Integers:
        """int32 [parts, runs, 4]: first tile, end, rows and columns of runs of equal tiles.

        All parts have the same number of runs; some may be empty.
        """
        runs = [
            [
                self._run(part, height, width)
                for height in self._distinct[0]
                for width in self._distinct[1]
            ]
            for part in self.parts(parts)
        ]
        return np.array(runs, np.int32)

    def _run(self, part: range, height: int, width: int) -> tuple[int, int, int, int]:
        equal = (self.tiles[part.start : part.stop, 2:] == (height, width)).all(1)
        numbers = part.start + np.flatnonzero(equal)
        if not len(numbers):
            return part.start, part.start, height, width
        return int(numbers[0]), int(numbers[-1]) + 1, height, width

    def classes(self, parts: int, items: int, capacity: int) -> TileClasses:
        """The classes for blocks of one part of `items` batch items, at most `capacity` tiles."""
        down, across = self.grid
        limits = [
            [sum(points(size, taps) > i for size in distinct) for i in range(number)]
            for distinct, taps, number in zip(self._distinct, self._taps, (down, across))
        ]
        elements = [(i, j) for i in limits[0] for j in limits[1]]
        distinct = sorted(set(elements))
        counts = np.zeros((parts, len(distinct)), np.int32)
        tiles = np.zeros((parts, len(distinct), capacity), np.int32)
        for p, part in enumerate(self.parts(parts)):
            heights, widths = self.tiles[part.start : part.stop, 2:].T
            for c, (i, j) in enumerate(distinct):
                large = (heights >= self._distinct[0][i - 1]) & (widths >= self._distinct[1][j - 1])
                numbers = np.flatnonzero(large)
                every = np.add.outer(np.arange(items) * len(part), numbers).ravel()
                counts[p, c] = len(numbers)
                tiles[p, c, : len(every)] = every
        members = [distinct.index(element) for element in elements]
        return TileClasses(np.array(members, np.int32), counts, tiles)
