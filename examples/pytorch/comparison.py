"""Compare results and times with PyTorch's, for the examples."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np


def difference(actual: Any, expected: Any) -> float:
    """The largest difference of items, relative to the largest expected item."""
    expected = expected.numpy()
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def milliseconds(*functions: Callable[[], Any], seconds: float = 1.0) -> list[float]:
    """The median times of functions, which are called alternately for `seconds` seconds."""
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while not times[0] or time.perf_counter() < end:
        for function, samples in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            samples.append(time.perf_counter() - start)
    return [1e3 * median(samples) for samples in times]


def report(what: str, actual: Any, expected: Any, ours: float, theirs: float) -> None:
    far = difference(actual, expected)
    print(f"{what}: difference {far:.1e}; nnefc {ours:.2f} ms, PyTorch {theirs:.2f} ms")
