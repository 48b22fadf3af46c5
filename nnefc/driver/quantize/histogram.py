"""Histograms of tensors whose range is not known in advance."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.support.errors import NnefError

Array = np.ndarray[Any, Any]

BINS: Final = 8192
"""Bins of a histogram, half of them for negative items."""
_HALF: Final = BINS // 2
_CHUNK: Final = 1 << 20
"""Items that are counted at a time."""
_LEAST_EXPONENT: Final = -1000
"""Smaller ranges would have bins whose width is 0 in float64."""


class Histogram:
    """Counts of items in `BINS` bins of equal width around 0, and their exact range.

    The bins cover -2^e to 2^e.  An item outside doubles the range until it is inside, and pairs of
    bins become one, so 0 is always the border of two bins and counts stay exact.
    """

    __slots__ = ("_exponent", "counts", "high", "low", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        """The name of the tensor in messages."""
        self.counts: Array = np.zeros(BINS, np.int64)
        """The items in each bin, int64 [BINS]."""
        self.low = math.inf
        """The smallest item."""
        self.high = -math.inf
        """The largest item."""
        self._exponent: int | None = None

    @property
    def total(self) -> int:
        """The number of items."""
        return int(self.counts.sum())

    @property
    def width(self) -> float:
        """The width of a bin; 0 if all items are 0."""
        return 0.0 if self._exponent is None else 2.0 * math.ldexp(1.0, self._exponent) / BINS

    @property
    def edges(self) -> Array:
        """The borders of the bins, float64 [BINS + 1]."""
        return (np.arange(BINS + 1) - _HALF) * self.width

    @property
    def centres(self) -> Array:
        """The centres of the bins, float64 [BINS]."""
        return (np.arange(BINS) - _HALF + 0.5) * self.width

    def part_outside(self, low: float, high: float) -> float:
        """The part of the items below `low` or above `high`, up to those of two bins."""
        if not self.total or (low <= self.low and self.high <= high):
            return 0.0
        outside = (self.edges[1:] <= low) | (self.edges[:-1] >= high)
        return float(self.counts[outside].sum() / self.total)

    def add(self, array: Array) -> None:
        """Count the items of an array of reals; an empty array changes nothing.

        Raises NnefError `quantization/finite` for NaN and infinities.
        """
        flat = array.reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            self._add(flat[start : start + _CHUNK].astype(np.float64))

    def _add(self, items: Array) -> None:
        low, high = float(items.min()), float(items.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            wrong = items[~np.isfinite(items)]
            raise NnefError.of(
                "quantization/finite",
                f"tensor '{self.name}' has {wrong[0]} among its items",
                hint="samples must give finite values everywhere; nnefc compare names the first "
                "operation whose result has NaN",
            )
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._cover(max(-low, high))
        if self._exponent is None:
            self.counts[_HALF] += items.size
            return
        at = np.floor(items / self.width).astype(np.int64) + _HALF
        self.counts += np.bincount(np.clip(at, 0, BINS - 1), minlength=BINS)

    def _cover(self, magnitude: float) -> None:
        """Double the range until it has items of this magnitude."""
        if magnitude == 0:
            return
        exponent = max(math.frexp(magnitude)[1], _LEAST_EXPONENT)
        if self._exponent is None:
            self._exponent = exponent
        for _ in range(exponent - self._exponent):
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.zeros(BINS, np.int64)
            self.counts[_HALF // 2 : _HALF // 2 + _HALF] = pairs
        self._exponent = max(exponent, self._exponent)
