"""Phases: outputs of a convolution that read the same taps.

conv has one phase.  In deconv the outputs of a phase are a stride apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from nnefc.ops.core.window_arithmetic import Window
from nnefc.symbolic.integers import ceil_div, is_symbolic
from nnefc.symbolic.table_size import PYTHON_ITEM, check_items

Tap = tuple[int, int]
"""(number of the tap, distance of its input from that of a tap at distance 0)"""


@dataclass(frozen=True, slots=True)
class Progression:
    """Evenly spaced numbers."""

    first: int
    count: int
    step: int

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count * self.step, self.step)


@dataclass(frozen=True, slots=True)
class AxisPhase:
    """Outputs along a dimension that read the same taps at the same distances."""

    number: int
    """Index into `axis_taps`."""
    outputs: Progression
    inputs: Progression
    """The inputs that these outputs read with a tap at distance 0."""
    taps: tuple[Tap, ...]


Phase = tuple[AxisPhase, ...]
"""Outputs that read the same taps; one item per dimension."""


def phases(window: Window) -> Iterator[Phase]:
    """conv: one phase, all outputs.  deconv: a phase per remainder modulo the stride."""
    return itertools.product(*(axis_phases(window, i) for i in range(window.rank)))


def axis_phases(window: Window, axis: int) -> Iterator[AxisPhase]:
    """The phases along a dimension that have outputs."""
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


def whole_axes(window: Window) -> tuple[bool, ...]:
    """Whether the phases of a window have all taps along each dimension: those of symbolic extents.

    Code that is made for symbols has all taps, also where tables are computed for small extents.
    """
    return tuple(map(is_symbolic, zip(window.input, window.output, strict=True)))


def axis_taps(window: Window, axis: int, *, whole: bool = False) -> list[tuple[Tap, ...]]:
    """The taps of each phase along a dimension; phases of deconv are numbered by remainder.

    conv has no taps that read the border for every output, unless it has the `whole` kernel: see
    `whole_axes`.
    """
    size, stride, dilation = window.size[axis], window.stride[axis], window.dilation[axis]
    check_items(PYTHON_ITEM, size, stride if window.reverse else 1)
    if not window.reverse:
        whole = whole or whole_axes(window)[axis]
        taps = range(size) if whole else window.covering_taps(axis)
        return [tuple((t, t * dilation) for t in taps)]
    # output o reads input (o + before - t * dilation) / stride if that is an integer
    return [
        tuple(
            (t, -((t * dilation - remainder) // stride))
            for t in range(size)
            if (t * dilation - remainder) % stride == 0
        )
        for remainder in range(stride)
    ]


def pixels_of(phase: Phase) -> int:
    """The number of outputs of a phase."""
    return math.prod(axis.outputs.count for axis in phase)


def tap_count(phase: Phase) -> int:
    return math.prod(len(axis.taps) for axis in phase)


def tap_grid(phase: Phase) -> list[tuple[Tap, ...]]:
    """All taps of a phase, as one tap per dimension."""
    check_items(PYTHON_ITEM, tap_count(phase))
    return list(itertools.product(*(axis.taps for axis in phase)))
