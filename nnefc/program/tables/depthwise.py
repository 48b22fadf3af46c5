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

Numbers = npt.NDArray[np.int64]


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
class _Stretches:
    """All outputs along a dimension, as stretches that are computed together, in order."""

    outputs: Numbers
    """The first output of each stretch."""
    counts: Numbers
    apart: Numbers
    """From one output of a stretch to the next."""
    inputs: Numbers
    """The input that the first output reads with a tap at distance 0."""
    phases: Numbers

    @classmethod
    def along(cls, window: Window, axis: int, heights: tuple[int, ...]) -> _Stretches:
        """Stretches of one of `heights` outputs."""
        check_items(PYTHON_ITEM, window.output[axis])
        columns: list[Numbers] = []
        for each in axis_phases(window, axis):
            widths = np.array(split_width(each.outputs.count, heights), np.int64)
            starts = np.cumsum(widths) - widths
            first = each.outputs.first + starts * each.outputs.step
            read = each.inputs.first + starts * each.inputs.step
            constants = (np.full_like(widths, each.outputs.step), np.full_like(widths, each.number))
            columns.append(np.stack([first, widths, constants[0], read, constants[1]]))
        every = np.concatenate(columns, 1)
        return cls(*every[:, np.argsort(every[0], kind="stable")])


def _rows_and_columns(window: Window, heights: tuple[int, ...]) -> Iterator[_Stretches]:
    """The stretches of each dimension; those of the last one have one of `heights` outputs."""
    for axis in range(window.rank - 1):
        yield _Stretches.along(window, axis, (1,))
    yield _Stretches.along(window, window.rank - 1, heights)


def columns_of(window: Window, heights: tuple[int, ...]) -> list[int]:
    """Positions of outputs along the last dimension, in order of computation."""
    *_, last = _rows_and_columns(window, heights)
    records = zip(last.outputs.tolist(), last.counts.tolist(), last.apart.tolist(), strict=True)
    return [first + i * apart for first, count, apart in records for i in range(count)]


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
    sources = [each.inputs for each in along]
    targets = [each.outputs for each in along]
    numbers = [each.phases for each in along]
    counts = [len(axis_taps(window, axis)) for axis in range(window.rank)]
    check_items(*map(len, numbers))
    phase = np.ravel_multi_index(tuple(np.meshgrid(*numbers, indexing="ij")), counts).ravel()
    tables = _tables(window, row, weights, x, whole)
    lengths = np.array([len(table) for table in tables])
    pieces = records(
        np.tile(along[-1].counts, len(phase) // len(along[-1].counts)),
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
