"""What the window kernels are told of a sliding window: dimensions, tables, runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """One dimension: `inputs` items, and which of them the taps of each output meet.

    table: [outputs, taps], negative where nothing is there.  `counts`: terms per output, for
    sums that are divided by them.  `fixed`: must not be joined with its neighbours.
    """

    inputs: int
    table: Indices
    counts: Indices | None = None
    fixed: bool = False

    @property
    def outputs(self) -> int:
        return self.table.shape[0]

    @property
    def taps(self) -> int:
        return self.table.shape[1]

    @property
    def is_identity(self) -> bool:
        return (
            self.taps == 1
            and self.outputs == self.inputs
            and bool((self.table[:, 0] == np.arange(self.inputs)).all())
        )

    @property
    def covers(self) -> bool:
        """Whether there is one output, which meets every item once and nothing else."""
        return self.outputs == 1 and np.array_equal(self.table[0], np.arange(self.inputs))


def identity(extent: int, *, fixed: bool = False) -> Dimension:
    return Dimension(extent, np.arange(extent, dtype=np.int64)[:, None], None, fixed)


def join(dimensions: Sequence[Dimension]) -> list[Dimension]:
    """Neighbours along which nothing happens become one dimension; at least one is left."""
    joined: list[Dimension] = []
    for dimension in dimensions:
        plain = dimension.is_identity and dimension.counts is None and not dimension.fixed
        if plain and joined:
            before = joined[-1]
            if before.is_identity and before.counts is None and not before.fixed:
                joined[-1] = identity(before.inputs * dimension.inputs)
                continue
            if dimension.inputs == 1 and not before.fixed:
                continue
        joined.append(dimension)
    return joined or [identity(1)]


def pitches(dimensions: Sequence[Dimension], itemsize: int) -> list[int]:
    """Bytes from one input item to the next along each dimension."""
    extents = [d.inputs for d in dimensions]
    return [itemsize * math.prod(extents[i + 1 :]) for i in range(len(extents))]


def tables(dimensions: Iterable[Dimension]) -> tuple[list[int], list[int]]:
    """(words, where each dimension starts): tables as [taps, outputs], -1 for identities."""
    words: list[int] = []
    starts: list[int] = []
    for dimension in dimensions:
        if dimension.is_identity:
            starts.append(-1)
            continue
        starts.append(len(words))
        words += dimension.table.T.ravel().tolist()
    return words, starts


def counts(dimensions: Iterable[Dimension]) -> tuple[list[int], list[int]]:
    """(words, where each dimension starts): terms per output."""
    words: list[int] = []
    starts: list[int] = []
    for dimension in dimensions:
        starts.append(len(words))
        found = dimension.counts
        words += [1] * dimension.outputs if found is None else found.tolist()
    return words, starts


def runs(dimension: Dimension, pitch: int) -> list[int]:
    """The stretches of outputs whose sources are evenly spaced, for every tap.

    taps + 1 words: number of the first run of each tap; then per run first output, end,
    source offset in bytes (-1: nothing there), step in bytes.
    """
    heads = [0]
    words: list[int] = []
    for tap in range(dimension.taps):
        for first, end, source, step in _stretches(dimension.table[:, tap]):
            words += [first, end, source * pitch if source >= 0 else -1, step * pitch]
        heads.append(len(words) // 4)
    return heads + words


def _stretches(sources: Indices) -> Iterable[tuple[int, int, int, int]]:
    steps = np.diff(sources)
    if sources.size > 1 and (sources >= 0).all() and (steps == steps[0]).all():
        yield 0, sources.size, int(sources[0]), int(steps[0])
        return
    items: list[int] = np.maximum(sources, -1).tolist()
    i = 0
    while i < len(items):
        end = i + 1
        if items[i] < 0:
            while end < len(items) and items[end] < 0:
                end += 1
            yield i, end, -1, 1
        elif end < len(items) and items[end] >= 0:
            step = items[end] - items[i]
            while end < len(items) and items[end] >= 0 and items[end] - items[end - 1] == step:
                end += 1
            yield i, end, items[i], step
        else:
            yield i, end, items[i], 1
        i = end
