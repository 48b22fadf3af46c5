"""Observers: the range of the codes of a tensor, as a function of its histogram.

Each takes a histogram with at least one item, and the type of the codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from nnefc.driver.quantize.codes import Range, parameters_of, rounded
from nnefc.driver.quantize.histogram import Histogram
from nnefc.ir import DType

Array = np.ndarray[Any, Any]
Observer = Callable[[Histogram, DType], Range]

_FRACTIONS: Final = np.linspace(0.2, 1.0, 81)
"""Fractions of the whole range that are tried.  A fifth of it has 400 bins, more than codes."""
_FLOOR: Final = 1e-10
"""The least probability that a divergence divides by."""


def min_max(histogram: Histogram, dtype: DType) -> Range:
    """The range of all items."""
    return Range(histogram.low, histogram.high)


def percentile(percent: float) -> Observer:
    """An observer that leaves out items at both ends: `percent` of 100 lie within the range, or up
    to a bin more.
    """

    def observer(histogram: Histogram, dtype: DType) -> Range:
        left_out = histogram.total * (100.0 - percent) / 200.0
        below = np.concatenate([[0], np.cumsum(histogram.counts)])
        edges = histogram.edges
        low = edges[np.flatnonzero(below <= left_out)[-1]]
        high = edges[np.flatnonzero(histogram.total - below <= left_out)[0]]
        return Range(
            min(max(float(low), histogram.low), histogram.high),
            max(min(float(high), histogram.high), histogram.low),
        )

    return observer


def mean_square(histogram: Histogram, dtype: DType) -> Range:
    """The range with the least mean square of the differences of items and the reals of their
    codes, for items in the centres of their bins.

    Both ends shrink together first, then each alone (Banner et al., 2019, search the same error
    by formulas for two distributions).
    """
    filled = np.flatnonzero(histogram.counts)
    centres = np.clip(histogram.centres[filled], histogram.low, histogram.high)
    weights = histogram.counts[filled].astype(np.float64)

    def error(range_: Range) -> float:
        return float(weights @ np.square(_rounded(centres, range_, dtype) - centres))

    best = min(_shrunk(min_max(histogram, dtype)), key=error)
    lower = (Range(best.low * fraction, best.high) for fraction in _FRACTIONS[::-1])
    best = min(lower, key=error)
    higher = (Range(best.low, best.high * fraction) for fraction in _FRACTIONS[::-1])
    return min(higher, key=error)


def entropy(histogram: Histogram, dtype: DType) -> Range:
    """The range with the least Kullback-Leibler divergence of the distribution of codes from that
    of items (Migacz, 8-bit inference with TensorRT, 2017).

    Items outside of a range count at its ends.  A code spreads its items over the bins that have
    some, except for the code of 0: 0 is exact, and the many zeros of a ReLU would otherwise make
    the range small, so that their code has few bins.
    """
    return min(
        _shrunk(min_max(histogram, dtype)),
        key=lambda range_: _divergence(histogram, range_, dtype),
    )


OBSERVERS: Final = ("min-max", "percentile", "entropy", "mean-square")
"""The names of the observers."""


def observer_of(name: str, percent: float) -> Observer:
    """The observer of a name among `OBSERVERS`; `percent`: for "percentile"."""
    plain: dict[str, Observer] = {
        "min-max": min_max,
        "entropy": entropy,
        "mean-square": mean_square,
    }
    return percentile(percent) if name == "percentile" else plain[name]


def _shrunk(range_: Range) -> Iterator[Range]:
    """Fractions of a range that has 0, the whole one first: it is chosen among equals."""
    low, high = min(range_.low, 0.0), max(range_.high, 0.0)
    for fraction in _FRACTIONS[::-1]:
        yield Range(low * fraction, high * fraction)


def _rounded(items: Array, range_: Range, dtype: DType) -> Array:
    return rounded(items, parameters_of(range_, dtype))


def _divergence(histogram: Histogram, range_: Range, dtype: DType) -> float:
    """The divergence of codes from items, in nats, without that of chance: counts of few items
    differ between bins although the items come from a smooth distribution (Miller, 1955).
    """
    width = histogram.width
    if width == 0:
        return 0.0
    half = len(histogram.counts) // 2
    first = half + int(np.floor(range_.low / width))
    last = min(half + max(int(np.ceil(range_.high / width)), 1), len(histogram.counts))
    inner = histogram.counts[first:last].astype(np.float64)
    items = inner.copy()
    items[0] += histogram.counts[:first].sum()
    items[-1] += histogram.counts[last:].sum()
    reals = _rounded(histogram.centres[first:last], range_, dtype)
    code = np.unique(reals, return_inverse=True)[1]
    filled = inner > 0
    bins = np.bincount(code, filled)[code]
    spread = np.where(filled, np.bincount(code, inner)[code] / np.maximum(bins, 1), 0.0)
    spread = np.where(reals == 0, inner, spread)
    p, q = items / items.sum(), spread / max(spread.sum(), _FLOOR)
    counted = p > 0
    divergence = np.sum(p[counted] * np.log(p[counted] / np.maximum(q[counted], _FLOOR)))
    merged = filled & (reals != 0)
    freedom = int(merged.sum()) - np.unique(code[merged]).size
    return float(divergence - freedom / (2.0 * items.sum()))
