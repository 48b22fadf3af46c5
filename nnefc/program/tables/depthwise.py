"""Tables of depthwise and grouped convolutions: pieces of rows, and taps phase by phase."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnefc.ops.core.window_arithmetic import Window
from nnefc.program.tables.phases import Tap, axis_phases, axis_taps, whole_axes
from nnefc.program.tables.plane_records import Records, records, split_width
from nnefc.program.tables.planes import Plane
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.table_size import PYTHON_ITEM, check_items


def tap_orders(window: Window, whole: Sequence[bool] = ()) -> list[list[tuple[Tap, ...]]]:
    """The taps of each phase; phases are ordered by their numbers along the dimensions.

    Taps are sorted by distance, so that those of neighbouring inputs follow each other.
    `whole`: `whole_axes` of the window with which the code was made, by default of this one.
    """
    check_items(PYTHON_ITEM, *window.size)
    along = [
        [sorted(taps, key=lambda tap: tap[1]) for taps in axis_taps(window, axis, whole=every)]
        for axis, every in enumerate(whole or whole_axes(window))
    ]
    return [list(itertools.product(*chosen)) for chosen in itertools.product(*along)]


@dataclass(frozen=True, slots=True)
class RowWeights:
    """Where the weights of a channel block are, in bytes."""

    first: int
    """Before the first phase."""
    phase: int
    """Before the rows of a phase."""
    row: int
    """Of a row of taps."""
    rounds: int = 1
    """How often a phase has all of its rows, each time with other weights."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """`count` outputs along a dimension that are computed together, `apart` from each other."""

    output: int
    count: int
    apart: int
    input: int
    """The input that the first output reads with a tap at distance 0."""
    phase: int


def _stretches(window: Window, axis: int, heights: tuple[int, ...]) -> list[_Stretch]:
    """All outputs along a dimension, ordered by the first output of each stretch."""
    check_items(PYTHON_ITEM, window.output[axis])
    stretches: list[_Stretch] = []
    for each in axis_phases(window, axis):
        widths = split_width(each.outputs.count, heights)
        for width, start in zip(widths, itertools.accumulate((0, *widths)), strict=False):
            output, input_ = each.outputs.numbers[start], each.inputs.numbers[start]
            stretches.append(_Stretch(output, width, each.outputs.step, input_, each.number))
    return sorted(stretches, key=lambda stretch: stretch.output)


def _rows_and_columns(window: Window, heights: tuple[int, ...]) -> Iterator[list[_Stretch]]:
    """The stretches of each dimension; those of the last one have one of `heights` outputs."""
    for axis in range(window.rank - 1):
        yield _stretches(window, axis, (1,))
    yield _stretches(window, window.rank - 1, heights)


def columns_of(window: Window, heights: tuple[int, ...]) -> list[int]:
    """Positions of outputs along the last dimension, in order of computation."""
    *_, last = _rows_and_columns(window, heights)
    return [each.output + i * each.apart for each in last for i in range(each.count)]


@traceable
def depthwise_pieces(
    window: Window,
    row: int,
    heights: tuple[int, ...],
    weights: RowWeights,
    x: Plane,
    y: Plane,
    other: Plane,
    whole: tuple[bool, ...],
) -> tuple[Records, npt.NDArray[np.int32]]:
    """(pieces, row by row; the table of taps).

    `heights`: of the instruction set, which may be another one than that of this machine.  `whole`:
    `whole_axes` of the window for which the weights were packed.
    """
    along = list(_rows_and_columns(window, heights))
    sources = [[each.input for each in stretches] for stretches in along]
    targets = [[each.output for each in stretches] for stretches in along]
    numbers = [[each.phase for each in stretches] for stretches in along]
    counts = [len(axis_taps(window, axis)) for axis in range(window.rank)]
    check_items(*map(len, numbers))
    phase = np.ravel_multi_index(tuple(np.meshgrid(*numbers, indexing="ij")), counts).ravel()
    tables = _tables(window, row, weights, x, whole)
    lengths = np.array([len(table) for table in tables])
    pieces = records(
        np.tile([each.count for each in along[-1]], len(phase) // len(along[-1])),
        x.offsets(*sources).astype(np.int64),
        y.offsets(*targets).astype(np.int64),
        other.offsets(*targets).astype(np.int64),
        (np.cumsum(lengths) - lengths)[phase],
        lengths[phase],
    )
    return pieces, np.concatenate(tables).astype(np.int32)


def _tables(
    window: Window, row: int, weights: RowWeights, x: Plane, whole: tuple[bool, ...]
) -> list[list[int]]:
    """For each phase: byte offset of its weights, then offsets of its rows of taps."""
    tables: list[list[int]] = []
    at = weights.first
    for taps in tap_orders(window, whole):
        offsets = [
            sum(distance * pitch for (_, distance), pitch in zip(tap, x.pitches, strict=True))
            for tap in taps[::row]
        ] * weights.rounds
        tables.append([at, *offsets])
        at += weights.phase + len(offsets) * weights.row
    return tables
