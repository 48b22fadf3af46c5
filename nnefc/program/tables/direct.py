"""Tables of direct convolution: taps, and runs of pixels."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Final

import numpy as np
import numpy.typing as npt

from nnefc.ops.core.border_taps import MIN_ROW_PIXELS, AxisRun, axis_runs, saves_by_runs
from nnefc.program.tables.phases import (
    AxisPhase,
    Phase,
    Progression,
    pixels_of,
    tap_count,
    tap_grid,
)
from nnefc.program.tables.planes import Offsets, Plane, as_offsets
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.integers import ceil_div
from nnefc.symbolic.table_size import check_items

MIN_SKIPPED: Final = 0.02
"""Minimum fraction of taps in the halo that makes skipping them worthwhile."""
MAX_ROW_RUNS: Final = 8
"""Maximum runs of rows: each run has a list of taps."""


@traceable
def tap_runs(
    phase: Phase, x: Plane, lane: int, channels: int, depth_block: int, by_taps: bool
) -> tuple[Offsets, Offsets]:
    """(runs, taps) as the kernel reads them, without taps that a run reads in the border.

    `channels`: input channels of a group, which start at `lane` of a block; `by_taps`: whether the
    entries of a tap are consecutive.
    """
    entries = _entry_offsets(phase, x, lane, channels)
    entries = (entries.T if by_taps else entries).ravel()
    numbers = np.arange(len(entries))
    taps = max(tap_count(phase), 1)
    tap_of = numbers // (len(entries) // taps) if by_taps else numbers % taps
    starts = range(0, len(entries) + depth_block, depth_block)
    runs: list[list[int]] = []
    chosen: list[npt.NDArray[np.int64]] = []
    first = pixel = 0
    for run in itertools.product(*_axis_runs(phase, x)):
        inside = functools.reduce(np.logical_and.outer, (taps for _, taps in run)).ravel()
        mine = numbers[inside[tap_of]]
        blocks = first + np.searchsorted(mine, starts)
        end = pixel + math.prod(len(outputs) for outputs, _ in run)
        runs.append([pixel, end, *blocks.tolist()])
        chosen.append(mine)
        first, pixel = first + len(mine), end
    every = np.concatenate(chosen)
    table = np.stack([entries[every], every % depth_block], 1)
    return np.array(runs, np.int32), table.astype(np.int32)


def _entry_offsets(phase: Phase, x: Plane, lane: int, channels: int) -> Offsets:
    """int32 [steps, taps]: byte offsets of the entries of the reduction, relative to a pixel.

    An entry covers some consecutive channels of one tap, see `kernels.packing.direct`.  The first
    channel is `lane` of a block.
    """
    pitches = x.pitches
    distances = [
        sum(pitch * distance for pitch, (_, distance) in zip(pitches, tap, strict=True))
        for tap in tap_grid(phase)
    ]
    if not distances:
        return np.zeros((1, 1), np.int32)
    step = x.layout.entry
    per_block = x.layout.block // step
    check_items(ceil_div(channels, step), len(distances))
    steps = lane // step + np.arange(ceil_div(channels, step))
    first = steps // per_block * x.nbytes + steps % per_block * step * x.layout.itemsize
    return as_offsets(np.add.outer(first, distances))


def _axis_runs(phase: Phase, x: Plane) -> list[list[AxisRun]]:
    """The runs along each dimension whose products are the runs of the kernel.

    Rows have runs where that saves products; all dimensions have if that saves many more, or if x
    has no halo for taps in the border.
    """
    rows, *others = whole = [
        [(range(axis.outputs.count), np.ones(len(axis.taps) or 1, np.bool_))] for axis in phase
    ]
    if not tap_count(phase) or all(map(_is_inside, phase, x.spatial)):
        return whole
    positions = [_positions(axis) for axis in phase]
    insides = [(at >= 0) & (at < n) for at, n in zip(positions, x.spatial, strict=True)]
    stored = zip(positions, x.spatial, x.layout.halo, strict=True)
    if saves_by_runs(insides) or any(
        at.min() < -before or at.max() >= n + after for at, n, (before, after) in stored
    ):
        return [axis_runs(inside) for inside in insides]
    few = pixels_of(phase[1:]) < MIN_ROW_PIXELS
    if few or insides[0].mean() > 1 - MIN_SKIPPED:
        return whole
    runs = axis_runs(insides[0])
    return [runs if len(runs) <= MAX_ROW_RUNS else rows, *others]


def _is_inside(axis: AxisPhase, extent: int) -> bool:
    """Whether all taps read inputs inside a dimension."""
    distances = [distance for _, distance in axis.taps]
    inputs = axis.inputs
    last = inputs.first + (inputs.count - 1) * inputs.step
    return inputs.first + min(distances) >= 0 and last + max(distances) < extent


def _positions(axis: AxisPhase) -> npt.NDArray[np.int64]:
    """[outputs, taps]: inputs along a dimension, perhaps beyond the ends."""
    distances = [distance for _, distance in axis.taps]
    check_items(axis.inputs.count, len(distances))
    return np.add.outer(axis.inputs.numbers, distances)


def pixel_order(phase: Phase, x: Plane) -> npt.NDArray[np.int64] | None:
    """The outputs of a phase, numbered row by row, in the order of the runs; None if they are."""
    runs = _axis_runs(phase, x)
    if all(len(axis) == 1 for axis in runs[1:]):
        return None
    numbers = np.arange(pixels_of(phase)).reshape([axis.outputs.count for axis in phase])
    return np.concatenate(
        [
            numbers[np.ix_(*(outputs for outputs, _ in run))].ravel()
            for run in itertools.product(*runs)
        ]
    )


@traceable
def grid_offsets(
    plane: Plane, grid: tuple[Progression, ...], phase: Phase, x: Plane, whole: bool
) -> tuple[Offsets]:
    """Byte offsets of the pixels of a grid, which belong to the outputs of a phase, in a plane.

    `whole`: whether they are in the order of `whole_run`.
    """
    check_items(pixels_of(phase))
    offsets = plane.offsets(*(row.numbers for row in grid))
    order = None if whole else pixel_order(phase, x)
    return (offsets if order is None else offsets[order],)


@traceable
def whole_run(phase: Phase, x: Plane, channels: int, used: str) -> tuple[Offsets, Offsets]:
    """(runs, taps) of one run, which reads all taps, also in the border.

    `used`: of `used_as_text`, for weights of several digits; else empty.
    """
    entries = _entry_offsets(phase, x, 0, channels).ravel()
    runs = np.array([[0, pixels_of(phase), 0, len(entries)]], np.int32)
    table = np.stack([entries, np.arange(len(entries), dtype=np.int32)], 1)
    return (runs, table) if not used else with_digits(runs, table, _used_of_text(used))


Used = npt.NDArray[np.bool_]
"""[steps, digits, taps]: whether an entry of the reduction has weights in a digit."""


def with_digits(runs: Offsets, entries: Offsets, used: Used) -> tuple[Offsets, Offsets]:
    """Runs and entries that list an entry of the reduction for each digit that has weights.

    An entry of a digit is numbered as a tap of its own.
    """
    _, digits, taps = used.shape
    records: list[list[int]] = []
    parts: list[Offsets] = []
    first = 0
    for pixel, end, start, stop in runs.tolist():
        offsets, numbers = entries[start:stop].T
        each = [numbers // taps * taps * digits + d * taps + numbers % taps for d in range(digits)]
        every = np.stack([np.tile(offsets, digits), np.concatenate(each)], 1)
        mine = every[used.reshape(-1)[every[:, 1]]]
        parts.append(mine[np.argsort(mine[:, 1])])
        records.append([pixel, end, first, first := first + len(mine)])
    return np.array(records, np.int32), np.concatenate(parts).astype(np.int32)


def used_as_text(used: Used) -> str:
    """`used` as a number that a program of symbols can have."""
    return "x".join((*map(str, used.shape), np.packbits(used).tobytes().hex()))


def _used_of_text(text: str) -> Used:
    *shape, digits = text.split("x")
    extents = tuple(map(int, shape))
    check_items(*extents)
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(digits), np.uint8))
    return bits[: math.prod(extents)].reshape(extents).astype(np.bool_)
