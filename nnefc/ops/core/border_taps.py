"""Taps of convolutions that lie in the border, which adds nothing to sums.

A convolution may compute outputs with the same taps inside the input together, and leave out the
others.  With large dilations on small planes most taps are left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from operator import mul
from typing import Final

import numpy as np
import numpy.typing as npt

from nnefc.ops.core.window_arithmetic import Window
from nnefc.symbolic.integers import is_symbolic

Inside = npt.NDArray[np.bool_]
"""Whether taps lie inside the input: [outputs, taps] along a dimension, or [taps] of one output."""
AxisRun = tuple[range, Inside]
"""Outputs along a dimension with the same taps inside, and these taps."""

MIN_ROW_PIXELS: Final = 4
"""Minimum pixels of a row to end tiles with rows; a run of fewer pixels does not fill the registers
of a tile and takes as long as this many."""
LEAST_SAVED: Final = 0.1
"""Least share of the products that runs along all dimensions must save, compared with runs of
rows: they need permuted tables of pixels, and small tiles."""
LEAST_INSIDE: Final = 0.6
"""Least share of the taps inside the input at which tiles of bfloat16 read the others, too."""
MAX_RUNS: Final = 64
"""Most runs along all dimensions: each has a list of taps."""
MAX_ITEMS: Final = 1 << 22
"""Most items of `Inside`, so that a pass takes little time for windows of any size."""


def axis_runs(inside: Inside) -> list[AxisRun]:
    """The maximal runs along a dimension."""
    changes = np.flatnonzero((inside[1:] != inside[:-1]).any(1)) + 1
    bounds = [0, *changes.tolist(), len(inside)]
    return [(range(a, b), inside[a]) for a, b in itertools.pairwise(bounds)]


def saves_by_runs(insides: Sequence[Inside]) -> bool:
    """Whether runs along all dimensions save products that runs of rows do not.

    `insides`: by dimension; each has a tap.
    """
    runs = [axis_runs(inside) for inside in insides]
    if not 1 < math.prod(map(len, runs)) <= MAX_RUNS:
        return False
    whole = [(len(inside), int(inside.any(0).sum())) for inside in insides]
    rows = [(len(outputs), int(taps.sum())) for outputs, taps in runs[0]]
    if math.prod(outputs for outputs, _ in whole[1:]) < MIN_ROW_PIXELS:
        rows = whole[:1]
    by_rows = sum(itertools.starmap(mul, rows)) * math.prod(itertools.starmap(mul, whole[1:]))
    return _products(insides) < (1 - LEAST_SAVED) * by_rows


def _products(insides: Sequence[Inside]) -> int:
    """Pairs of an output and a tap inside; pixels of a small run count as `MIN_ROW_PIXELS`."""
    return sum(
        max(math.prod(len(outputs) for outputs, _ in run), MIN_ROW_PIXELS)
        * math.prod(int(taps.sum()) for _, taps in run)
        for run in itertools.product(*map(axis_runs, insides))
    )


def _insides(window: Window) -> list[Inside] | None:
    """By dimension, for a basic operation whose extents are plain numbers; otherwise None."""
    if window.reverse or is_symbolic((*window.input, *window.output)):
        return None
    if any(n * taps > MAX_ITEMS for n, taps in zip(window.output, window.size, strict=True)):
        return None
    return [window.taps(axis, "constant") >= 0 for axis in range(window.rank)]


def leaves_out_border(window: Window) -> bool:
    """Whether direct convolution reads nothing beyond the input."""
    insides = _insides(window)
    return insides is not None and saves_by_runs(insides)


def leaves_out_taps(window: Window) -> bool:
    """Whether so many taps lie in the border that tiles of bfloat16 have to leave them out."""
    return leaves_out_border(window) and computed_fraction(window) < LEAST_INSIDE


def computed_fraction(window: Window) -> float:
    """The fraction of the products that direct convolution computes.

    What runs of rows alone would save is not taken into account.
    """
    insides = _insides(window)
    if insides is None:
        return 1.0
    pairs = math.prod(inside.size for inside in insides)
    if saves_by_runs(insides):
        return _products(insides) / pairs
    return math.prod(len(inside) * int(inside.any(0).sum()) for inside in insides) / pairs
