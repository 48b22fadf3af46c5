"""Compare results and times with PyTorch's, for the examples."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np


def difference(found: Any, wanted: Any) -> float:
    """The largest difference of items, by the largest item."""
    wanted = wanted.numpy()
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def milliseconds(*functions: Callable[[], Any], seconds: float = 1.0) -> list[float]:
    """The median times of functions that are called by turns for so many seconds."""
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while not times[0] or time.perf_counter() < end:
        for function, kept in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            kept.append(time.perf_counter() - start)
    return [1e3 * median(kept) for kept in times]


def report(what: str, found: Any, wanted: Any, ours: float, theirs: float) -> None:
    far = difference(found, wanted)
    print(f"{what}: difference {far:.1e}; nnefc {ours:.2f} ms, PyTorch {theirs:.2f} ms")
