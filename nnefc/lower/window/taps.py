"""Sliding windows as window kernels read them: dimensions, tables of taps, runs.

Extents may be symbolic, so tables are traced calls of functions of plain numbers
(`nnefc.symbolic.traced_array`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnefc.lower.context import Lowering
from nnefc.program.program import Ref
from nnefc.program.tables.window_taps import (
    WindowDimension,
    evenly_spaced_runs,
    indices_of_taps,
    term_counts,
)
from nnefc.symbolic.traced_array import traced_call


def index_table(lower: Lowering, dimensions: Iterable[WindowDimension]) -> tuple[Ref, list[int]]:
    """(table, start of each dimension): [taps, outputs] per dimension; start -1: identity."""
    indexed: list[WindowDimension] = []
    starts: list[int] = []
    end = 0
    for dimension in dimensions:
        if dimension.is_identity:
            starts.append(-1)
            continue
        starts.append(end)
        end += dimension.outputs * dimension.taps
        indexed.append(dimension)
    (words,) = traced_call(indices_of_taps, tuple(indexed))
    return lower.table(words), starts


def count_table(lower: Lowering, dimensions: Sequence[WindowDimension]) -> tuple[Ref, list[int]]:
    """(table, start of each dimension): the number of terms of each output."""
    (words,) = traced_call(term_counts, tuple(dimensions))
    return lower.table(words), [
        sum(d.outputs for d in dimensions[:i]) for i in range(len(dimensions))
    ]


def run_table(lower: Lowering, dimension: WindowDimension, pitch: int) -> Ref:
    """A table of runs: outputs whose inputs are evenly spaced, for every tap.

    First taps + 1 words: the number of the first run of each tap.  Then four words per run: first
    output, end, byte offset of the input (-1: outside), step in bytes.
    """
    (words,) = traced_call(evenly_spaced_runs, dimension, pitch)
    return lower.table(words)
