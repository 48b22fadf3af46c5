"""Tables of convolutions in matrix registers: which pixels the rows of registers are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from nnefc.program.tables.phases import Phase, tap_grid
from nnefc.program.tables.planes import Offsets, Plane, as_offsets

STEP_ROWS: Final = 40
"""A step of a register takes about as long as so many rows beyond those that it has."""


@dataclass(frozen=True, slots=True)
class MatrixTiles:
    """The pixels of the outputs of a phase, as `direct_matrices.MATRICES` has them."""

    tiles: npt.NDArray[np.int32]
    """[tiles, 5]"""
    rows: npt.NDArray[np.int32]
    """[pixels]: number of the row of a pixel in its tile."""
    height: int
    """Rows of a register."""
    x_row: int
    """Bytes from row to row."""

    @property
    def registers(self) -> int:
        """Registers of pixels of all tiles."""
        return int(self.tiles[:, 0].sum())


def matrix_tiles(phase: Phase, x: Plane, most: int, registers: int) -> MatrixTiles:
    """Tiles of up to `registers` registers with up to `most` rows, which cover all outputs.

    Rows are evenly spaced, so some may be positions that are no outputs.
    """
    offsets = x.offsets(*(axis.inputs.numbers for axis in phase)).astype(np.int64)
    x_row = int(offsets[1] - offsets[0]) if len(offsets) > 1 else x.pixel_bytes
    best: tuple[float, int, list[int], npt.NDArray[np.int64]] | None = None
    for height in range(most, 0, -1):
        cut = _registers(offsets, x_row, height)
        if cut is None:
            continue
        firsts, starts = cut
        cost = len(firsts) * (STEP_ROWS + height)
        if best is None or cost < best[0]:
            best = cost, height, firsts, starts
        if height > 1 and best[0] <= len(offsets) / most * (STEP_ROWS + most):
            break
    assert best is not None
    _, height, firsts, starts = best
    ends = [*firsts[1:], len(offsets)]
    number = np.repeat(np.arange(len(firsts)), np.diff([*firsts, len(offsets)]))
    rows = (offsets - starts[number]) // x_row + number % registers * most
    tiles = [
        [
            len(mine := range(i, min(i + registers, len(firsts)))),
            int(starts[mine[0]]),
            int(starts[mine[-1]]),
            firsts[mine[0]],
            ends[mine[-1]],
        ]
        for i in range(0, len(firsts), registers)
    ]
    return MatrixTiles(np.array(tiles, np.int32), rows.astype(np.int32), height, x_row)


def _registers(
    offsets: npt.NDArray[np.int64], x_row: int, height: int
) -> tuple[list[int], npt.NDArray[np.int64]] | None:
    """(first pixel of each register, offset of its first row); None if rows would lie outside."""
    least, last = int(offsets.min()), int(offsets.max())
    even = not np.any((offsets - least) % x_row)
    firsts: list[int] = []
    starts: list[int] = []
    first = 0
    while first < len(offsets):
        start = int(offsets[first])
        end = int(np.searchsorted(offsets, start + height * x_row))
        if not even:
            odd = np.flatnonzero((offsets[first:end] - start) % x_row)
            end = first + int(odd[0]) if len(odd) else end
        beyond = start + (height - 1) * x_row - last
        if beyond > 0:
            start -= -(-beyond // x_row) * x_row
        if start < least:
            return None
        firsts.append(first)
        starts.append(start)
        first = end
    return firsts, np.array(starts)


def tap_offsets(phase: Phase, x: Plane) -> list[int]:
    """Bytes from the pixel of a tap at distance 0 to that of each tap."""
    pitches = x.pitches
    return [
        sum(pitch * distance for pitch, (_, distance) in zip(pitches, tap, strict=True))
        for tap in tap_grid(phase)
    ]


def entry_offsets(x: Plane, taps: Sequence[int], blocks: int) -> Offsets:
    """int32 [blocks * taps, 2]: byte offset of an entry relative to a pixel, and its number.

    `taps`: offsets within a channel block.  Without taps, an entry that is not read.
    """
    if not taps:
        return np.zeros((1, 2), np.int32)
    offsets = np.add.outer(np.arange(blocks) * x.nbytes, taps).ravel()
    return as_offsets(np.stack([offsets, np.arange(len(offsets))], 1))
