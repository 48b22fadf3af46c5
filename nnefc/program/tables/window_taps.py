"""Tables of sliding windows over row-major tensors: items that taps read, along each dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnefc.ops.core.window_arithmetic import Window, forward_taps, reverse_taps
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.integers import statically_equal
from nnefc.symbolic.table_size import check_items

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window: which of `inputs` items the taps of each output read.

    `counts`: the dimension whose number of terms per output divides sums.
    """

    inputs: int
    outputs: int
    taps: int = 1
    padding: int = 0
    """Padding before the items."""
    stride: int = 1
    dilation: int = 1
    border: str = "constant"
    reverse: bool = False
    counts: WindowDimension | None = None

    @property
    def is_identity(self) -> bool:
        """Whether output i reads item i only."""
        return (
            statically_equal(self.taps, 1)
            and statically_equal(self.padding, 0)
            and statically_equal(self.outputs, self.inputs)
            and (statically_equal(self.stride, 1) or statically_equal(self.outputs, 1))
        )

    @property
    def is_plain(self) -> bool:
        """Whether the window leaves this dimension unchanged."""
        return self.counts is None and self.is_identity

    @property
    def is_full_reduction(self) -> bool:
        """Whether a single output reads every item exactly once, and no padding."""
        one_by_one = statically_equal(self.dilation, 1) and not self.reverse
        return (
            statically_equal(self.outputs, 1)
            and statically_equal(self.padding, 0)
            and statically_equal(self.taps, self.inputs)
            and (one_by_one or statically_equal(self.taps, 1))
        )

    @property
    def is_repetition(self) -> bool:
        """Whether every output of a reverse operation reads exactly one item."""
        return self.is_identity or (
            self.reverse
            and statically_equal(self.taps, self.stride)
            and statically_equal(self.dilation, 1)
            and self.padding >= 0
            and self.outputs + self.padding <= self.inputs * self.stride
        )

    def table(self) -> Indices:
        """[outputs, taps]: indices of items, negative outside the input."""
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
        """[outputs]: divisors of sums."""
        if self.counts is None:
            check_items(self.outputs)
            return np.ones(self.outputs, np.int64)
        return (self.counts.table() >= 0).sum(1)


def identity(extent: int, counts: WindowDimension | None = None) -> WindowDimension:
    return WindowDimension(extent, extent, counts=counts)


def dimensions_of(window: Window, border: str) -> list[WindowDimension]:
    """The dimensions of a window."""
    return [
        WindowDimension(
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


def coalesce(dimensions: Sequence[WindowDimension]) -> list[WindowDimension]:
    """Merge neighbouring dimensions that the window leaves unchanged; returns at least one."""
    joined: list[WindowDimension] = []
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


def dimension_pitches(dimensions: Sequence[WindowDimension], itemsize: int) -> list[int]:
    """Bytes from one input item to the next along each dimension."""
    extents = [d.inputs for d in dimensions]
    return [itemsize * math.prod(extents[i + 1 :]) for i in range(len(extents))]


@traceable
def indices_of_taps(indexed: Sequence[WindowDimension]) -> tuple[Indices]:
    """The tables of all dimensions, at least one word."""
    tables = [dimension.table().T.ravel() for dimension in indexed]
    return (np.concatenate(tables or [np.zeros(1, np.int64)]),)


@traceable
def term_counts(dimensions: Sequence[WindowDimension]) -> tuple[Indices]:
    return (np.concatenate([dimension.divisors() for dimension in dimensions]),)


@traceable
def evenly_spaced_runs(dimension: WindowDimension, pitch: int) -> tuple[Indices]:
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
    """Runs (first, end, source, step) that cover all outputs; source -1: outside the input."""
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
    # for each item, the last one up to which the distance stays the same
    until = bounds[np.searchsorted(bounds, np.arange(last), side="right")].tolist()
    continues, distances, first_items = alike.tolist(), steps.tolist(), items.tolist()
    i = 0
    while i <= last:
        end, step = i + 1, 1
        if i < last and continues[i]:
            end = until[i] + 1
            step = distances[i] if first_items[i] >= 0 else 1
        yield i, end, first_items[i], step
        i = end


@traceable
def repetition_indices(dimension: WindowDimension) -> tuple[npt.NDArray[np.int32]]:
    """int32 [outputs]: the input item that each output repeats."""
    return (dimension.table().max(1).astype(np.int32),)


@traceable
def tap_positions(sizes: Sequence[int]) -> tuple[npt.NDArray[np.int64]]:
    """[taps, dimensions], flat: the position of every tap along each dimension."""
    check_items(len(sizes), *sizes)
    return (np.indices(sizes).reshape(len(sizes), -1).T.ravel(),)
