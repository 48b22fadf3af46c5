"""Phases: outputs of a convolution that meet the same taps. They are a stride apart in deconv."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from nnefc.lower.partition import ceil_div
from nnefc.ops.core.window_arithmetic import Window

Tap = tuple[int, int]
"""Number of the tap, distance."""


@dataclass(frozen=True, slots=True)
class Progression:
    """Numbers that are equally far apart."""

    first: int
    count: int
    step: int

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count * self.step, self.step)


@dataclass(frozen=True, slots=True)
class AxisPhase:
    """Outputs along a dimension that meet the same taps at the same distances."""

    number: int
    """Which ones of `axis_taps` these are."""
    outputs: Progression
    inputs: Progression
    """The inputs of these outputs with a tap at distance 0."""
    taps: tuple[Tap, ...]


Phase = tuple[AxisPhase, ...]
"""Outputs that meet the same taps; one item per dimension."""


def phases(window: Window) -> Iterator[Phase]:
    """conv: all outputs. deconv: those with the same remainder by the stride."""
    return itertools.product(*(axis_phases(window, i) for i in range(window.rank)))


def axis_phases(window: Window, axis: int) -> Iterator[AxisPhase]:
    """Those that have outputs."""
    before, outputs, stride = window.padding[axis][0], window.output[axis], window.stride[axis]
    for number, taps in enumerate(axis_taps(window, axis)):
        if not window.reverse:
            yield AxisPhase(
                number, Progression(0, outputs, 1), Progression(-before, outputs, stride), taps
            )
            continue
        first = (number - before) % stride
        if first >= outputs:
            continue
        count = ceil_div(outputs - first, stride)
        start = (first + before - number) // stride
        yield AxisPhase(
            number, Progression(first, count, stride), Progression(start, count, 1), taps
        )


def axis_taps(window: Window, axis: int) -> list[tuple[Tap, ...]]:
    """Those of each phase along a dimension; the number of a phase of deconv is the remainder."""
    size, stride, dilation = window.size[axis], window.stride[axis], window.dilation[axis]
    if not window.reverse:
        return [tuple((t, t * dilation) for t in range(size))]
    # output o meets input (o + before - t * dilation) / stride where that is whole
    return [
        tuple(
            (t, -((t * dilation - remainder) // stride))
            for t in range(size)
            if (t * dilation - remainder) % stride == 0
        )
        for remainder in range(stride)
    ]


def pixels_of(phase: Phase) -> int:
    return math.prod(axis.outputs.count for axis in phase)


def tap_count(phase: Phase) -> int:
    return math.prod(len(axis.taps) for axis in phase)


def tap_grid(phase: Phase) -> list[tuple[Tap, ...]]:
    """The taps that meet something: one along each dimension."""
    return list(itertools.product(*(axis.taps for axis in phase)))
