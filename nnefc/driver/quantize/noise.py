"""The ratio of signal to noise of a tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Noise:
    """Sums over the items of a tensor, for all samples."""

    signal: float = 0.0
    """The sum of squares of the items of the graph of reals."""
    noise: float = 0.0
    """The sum of squares of the differences of the quantized graph."""
    samples: int = 0

    def add(self, expected: Array, found: Array) -> None:
        """Add the items of a sample."""
        self.samples += 1
        wide = expected.astype(np.float64)
        self.signal += float(np.sum(np.square(wide)))
        self.noise += float(np.sum(np.square(found.astype(np.float64) - wide)))

    @property
    def decibels(self) -> float:
        """10 log10(signal / noise); infinite without noise, NaN without both."""
        if self.noise == 0:
            return math.inf if self.signal else math.nan
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf
