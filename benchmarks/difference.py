"""How far results are from those of an oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

TOLERANCE: Final = 1e-4
"""The largest allowed difference of an item, relative to the largest magnitude in the result."""


def largest_difference(results: Sequence[Array], expected: Sequence[Array]) -> float:
    """The largest difference relative to the largest finite item of each result.

    It is infinite where numbers of results, shapes, integers or infinite items differ, and where
    an item is NaN.
    """
    if len(results) != len(expected):
        return float("inf")
    return max(map(_difference, results, expected), default=0.0)


def _difference(result: Array, wanted: Array) -> float:
    if result.shape != wanted.shape:
        return float("inf")
    if wanted.dtype.kind in "iub":
        return 0.0 if (result == wanted).all() else float("inf")
    finite = np.isfinite(wanted)
    if not (np.isfinite(result) == finite).all() or (result != wanted)[~finite].any():
        return float("inf")
    result, wanted = result[finite], wanted[finite]
    difference = float(np.max(np.abs(result - wanted), initial=0.0))
    return difference / (float(np.max(np.abs(wanted), initial=0.0)) or 1.0)
