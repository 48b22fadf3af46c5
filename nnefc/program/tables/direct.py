"""Tables of direct convolution: taps, and runs of rows."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
import numpy.typing as npt

from nnefc.program.tables.phases import Phase, Progression, pixels_of, tap_count, tap_grid
from nnefc.program.tables.planes import Offsets, Plane, as_offsets
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.integers import ceil_div
from nnefc.symbolic.table_size import check_items

MIN_ROW_PIXELS: Final = 4
"""Minimum pixels of a row to end tiles with rows: shorter tiles do not fill the registers."""


MIN_SKIPPED: Final = 0.02
"""Minimum fraction of taps in the halo that makes skipping them worthwhile."""


MAX_RUNS: Final = 8
"""Maximum runs of rows: each run has a table of taps of its own."""


@traceable
def tap_runs(
    phase: Phase, x: Plane, lane: int, channels: int, depth_block: int
) -> tuple[Offsets, Offsets]:
    """(runs, taps) as the kernel reads them, without taps that a run of rows reads in the halo.

    `channels`: input channels of a group, which start at `lane` of a block.
    """
    entries = _entry_offsets(phase, x, lane, channels)
    numbers = np.arange(len(entries))
    taps = max(tap_count(phase), 1)
    row = pixels_of(phase[1:])
    starts = range(0, len(entries) + depth_block, depth_block)
    runs: list[list[int]] = []
    chosen: list[npt.NDArray[np.int64]] = []
    first = 0
    for rows, is_inside in _row_runs(phase, x):
        inside = np.repeat(is_inside, taps // len(is_inside))
        mine = numbers[inside[numbers % taps]]
        blocks = first + np.searchsorted(mine, starts)
        runs.append([rows.start * row, rows.stop * row, *blocks.tolist()])
        chosen.append(mine)
        first += len(mine)
    every = np.concatenate(chosen)
    table = np.stack([entries[every], every % depth_block], 1)
    return np.array(runs, np.int32), table.astype(np.int32)


def _entry_offsets(phase: Phase, x: Plane, lane: int, channels: int) -> Offsets:
    """int32 [depth]: byte offsets of the entries of the reduction, relative to a pixel.

    An entry covers some consecutive channels of one tap, see `nnefc.packing.direct`.  The first
    channel is `lane` of a block.
    """
    pitches = x.pitches
    distances = [
        sum(pitch * distance for pitch, (_, distance) in zip(pitches, tap, strict=True))
        for tap in tap_grid(phase)
    ]
    if not distances:
        return np.zeros(1, np.int32)
    step = x.layout.entry
    per_block = x.layout.block // step
    check_items(ceil_div(channels, step), len(distances))
    steps = lane // step + np.arange(ceil_div(channels, step))
    first = steps // per_block * x.nbytes + steps % per_block * step * x.layout.itemsize
    return as_offsets(np.add.outer(first, distances).ravel())


def _row_runs(phase: Phase, x: Plane) -> list[tuple[range, npt.NDArray[np.bool_]]]:
    """Runs of rows (of the first dimension) with the same taps outside the halo, and these taps."""
    axis, *others = phase
    every = range(axis.outputs.count)
    if not tap_count(phase):
        return [(every, np.ones(1, np.bool_))]
    distances = [distance for _, distance in axis.taps]
    check_items(axis.inputs.count, len(distances))
    rows = np.add.outer(axis.inputs.numbers, distances)
    inside = (rows >= 0) & (rows < x.spatial[0])
    few = pixels_of(tuple(others)) < MIN_ROW_PIXELS
    if few or inside.mean() > 1 - MIN_SKIPPED:
        return [(every, np.ones(len(distances), np.bool_))]
    changes = np.flatnonzero((inside[1:] != inside[:-1]).any(1)) + 1
    bounds = [0, *changes.tolist(), len(inside)]
    if len(changes) >= MAX_RUNS:
        return [(every, np.ones(len(distances), np.bool_))]
    return [(range(a, b), inside[a]) for a, b in itertools.pairwise(bounds)]


@traceable
def grid_offsets(plane: Plane, grid: tuple[Progression, ...]) -> tuple[Offsets]:
    return (plane.offsets(*(row.numbers for row in grid)),)
