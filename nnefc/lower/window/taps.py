"""What the window kernels are told of a sliding window: dimensions, tables, runs.

Extents may depend on symbols: tables are made by functions of plain numbers
(`nnefc.symbolic.traced_array`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnefc.lower.context import Lowering
from nnefc.ops.core.window_arithmetic import Window, forward_taps, reverse_taps
from nnefc.program.program import Ref
from nnefc.symbolic.integers import statically_equal
from nnefc.symbolic.traced_array import traced_call

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a window: which of `inputs` items the taps of each output meet.

    counts: the dimension whose terms per output divide sums.
    """

    inputs: int
    outputs: int
    taps: int = 1
    padding: int = 0
    """What precedes the items."""
    stride: int = 1
    dilation: int = 1
    border: str = "constant"
    reverse: bool = False
    counts: Dimension | None = None

    @property
    def is_identity(self) -> bool:
        """Whether output i meets item i and nothing else."""
        return (
            statically_equal(self.taps, 1)
            and statically_equal(self.padding, 0)
            and statically_equal(self.outputs, self.inputs)
            and (statically_equal(self.stride, 1) or statically_equal(self.outputs, 1))
        )

    @property
    def is_plain(self) -> bool:
        """Whether nothing happens along it."""
        return self.counts is None and self.is_identity

    @property
    def is_full_reduction(self) -> bool:
        """Whether there is one output, which meets every item once and nothing else."""
        one_by_one = statically_equal(self.dilation, 1) and not self.reverse
        return (
            statically_equal(self.outputs, 1)
            and statically_equal(self.padding, 0)
            and statically_equal(self.taps, self.inputs)
            and (one_by_one or statically_equal(self.taps, 1))
        )

    @property
    def is_repetition(self) -> bool:
        """Whether every output of a reverse operation meets one item."""
        return self.is_identity or (
            self.reverse
            and statically_equal(self.taps, self.stride)
            and statically_equal(self.dilation, 1)
            and self.padding >= 0
            and self.outputs + self.padding <= self.inputs * self.stride
        )

    def table(self) -> Indices:
        """[outputs, taps]: numbers of items, negative where nothing is there."""
        make = reverse_taps if self.reverse else forward_taps
        return make(
            self.outputs,
            self.taps,
            self.inputs,
            self.padding,
            self.stride,
            self.dilation,
            self.border,
        )

    def divisors(self) -> Indices:
        """[outputs]: what sums are divided by."""
        if self.counts is None:
            return np.ones(self.outputs, np.int64)
        return (self.counts.table() >= 0).sum(1)


def identity(extent: int, counts: Dimension | None = None) -> Dimension:
    return Dimension(extent, extent, counts=counts)


def dimensions_of(window: Window, border: str) -> list[Dimension]:
    """What the taps of a window meet along each dimension."""
    return [
        Dimension(
            window.input[axis],
            window.output[axis],
            window.size[axis],
            window.padding[axis][0],
            window.stride[axis],
            window.dilation[axis],
            border,
            window.reverse,
        )
        for axis in range(window.rank)
    ]


def coalesce(dimensions: Sequence[Dimension]) -> list[Dimension]:
    """Neighbours along which nothing happens become one dimension; at least one is left."""
    joined: list[Dimension] = []
    for dimension in dimensions:
        if joined and dimension.is_plain:
            before = joined[-1]
            if before.is_plain:
                joined[-1] = identity(before.inputs * dimension.inputs)
                continue
            if statically_equal(dimension.inputs, 1):
                continue
        joined.append(dimension)
    return joined or [identity(1)]


def pitches(dimensions: Sequence[Dimension], itemsize: int) -> list[int]:
    """Bytes from one input item to the next along each dimension."""
    extents = [d.inputs for d in dimensions]
    return [itemsize * math.prod(extents[i + 1 :]) for i in range(len(extents))]


def index_table(lower: Lowering, dimensions: Iterable[Dimension]) -> tuple[Ref, list[int]]:
    """(words, where each dimension starts): tables as [taps, outputs], -1 for identities."""
    move_slices: list[Dimension] = []
    starts: list[int] = []
    end = 0
    for dimension in dimensions:
        if dimension.is_identity:
            starts.append(-1)
            continue
        starts.append(end)
        end += dimension.outputs * dimension.taps
        move_slices.append(dimension)
    (words,) = traced_call(_index, tuple(move_slices))
    return lower.table(words), starts


def _index(move_slices: Sequence[Dimension]) -> tuple[Indices]:
    """One word at least."""
    tables = [dimension.table().T.ravel() for dimension in move_slices]
    return (np.concatenate(tables or [np.zeros(1, np.int64)]),)


def count_table(lower: Lowering, dimensions: Sequence[Dimension]) -> tuple[Ref, list[int]]:
    """(words, where each dimension starts): terms per output."""
    (words,) = traced_call(_counts, tuple(dimensions))
    return lower.table(words), [
        sum(d.outputs for d in dimensions[:i]) for i in range(len(dimensions))
    ]


def _counts(dimensions: Sequence[Dimension]) -> tuple[Indices]:
    return (np.concatenate([dimension.divisors() for dimension in dimensions]),)


def run_table(lower: Lowering, dimension: Dimension, pitch: int) -> Ref:
    """The stretches of outputs whose sources are evenly spaced, for every tap.

    taps + 1 words: number of the first run of each tap; then per run first output, end,
    source offset in bytes (-1: nothing there), step in bytes.
    """
    (words,) = traced_call(_runs, dimension, pitch)
    return lower.table(words)


def _runs(dimension: Dimension, pitch: int) -> tuple[Indices]:
    if dimension.is_identity:
        return (np.array([0, 1, 0, dimension.outputs, 0, pitch]),)
    heads = [0]
    words: list[int] = []
    for sources in dimension.table().T:
        for first, end, source, step in _evenly_spaced(sources):
            words += [first, end, source * pitch if source >= 0 else -1, step * pitch]
        heads.append(len(words) // 4)
    return (np.array(heads + words, np.int64),)


def _evenly_spaced(sources: Indices) -> Iterator[tuple[int, int, int, int]]:
    """(first, end, source, step), from the first output on; a source of -1: nothing there."""
    present = sources >= 0
    items = np.where(present, sources, -1)
    alike = present[1:] == present[:-1]
    steps = np.diff(items)
    last = len(items) - 1
    changes = np.flatnonzero((steps[1:] != steps[:-1]) | (alike[1:] != alike[:-1])) + 1
    if last > 0 and not len(changes) and alike[0]:
        yield 0, last + 1, int(items[0]), int(steps[0]) if present[0] else 1
        return
    bounds = np.append(changes, last)
    # the last item that is as far from the one before as each is from the one behind it
    until = bounds[np.searchsorted(bounds, np.arange(last), side="right")].tolist()
    goes_on, distances, found = alike.tolist(), steps.tolist(), items.tolist()
    i = 0
    while i <= last:
        end, step = i + 1, 1
        if i < last and goes_on[i]:
            end = until[i] + 1
            step = distances[i] if found[i] >= 0 else 1
        yield i, end, found[i], step
        i = end
