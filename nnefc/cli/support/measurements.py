"""Repeated runs, their statistics, and text for times: shared by commands that measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nnefc.cli.support.options import usage

if TYPE_CHECKING:
    import numpy as np


def require_seconds(option: str, seconds: float, *, zero: bool = False) -> None:
    """Raise NnefError unless 0 < seconds <= 3600; `zero`: 0 is allowed too."""
    if zero and not 0 <= seconds <= 3600:
        raise usage(f"{option} {seconds:g}: must be between 0 and 3600 seconds")
    if not zero and not 0 < seconds <= 3600:
        raise usage(f"{option} {seconds:g}: must be more than 0 seconds and at most 3600")


def repeat(action: Callable[[], Any], seconds: float) -> list[float]:
    """Seconds of each run of `action`; starts runs until `seconds` are over, at least one."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return times


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Nearest-rank percentile of sorted values."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def duration(seconds: float) -> str:
    """A time with three digits and its unit: 12.3 us, 1.23 ms, 4.56 s."""
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def ratio_interval(
    old: Sequence[float], new: Sequence[float], confidence: float = 0.99
) -> tuple[float, float, float]:
    """(median(new) / median(old), lower bound, upper bound of its bootstrap confidence interval).

    Consecutive runs are correlated, because other load on the machine comes and goes; so the
    bootstrap draws blocks of about the square root of the number of runs.  The draws are seeded.
    """
    import numpy as np

    generator = np.random.default_rng(0)
    draws = _medians(np.asarray(new), generator) / _medians(np.asarray(old), generator)
    margin = (1 - confidence) / 2
    low, high = np.quantile(draws, [margin, 1 - margin])
    return float(np.median(new) / np.median(old)), float(low), float(high)


def _medians(
    samples: np.ndarray[Any, Any], generator: np.random.Generator, draws: int = 1000
) -> np.ndarray[Any, Any]:
    """[draws]: medians of resamples (circular block bootstrap, Politis & Romano 1992)."""
    import numpy as np

    n = len(samples)
    size = max(1, round(n**0.5))
    starts = generator.integers(0, n, (draws, -(-n // size)))
    chosen = (starts[:, :, None] + np.arange(size)).reshape(draws, -1)[:, :n] % n
    return np.median(samples[chosen], axis=1)


_MIN_DIFFERENCE = 0.01
"""Smaller relative differences occur between two measurements of the same program."""


def verdict(ratio: float, low: float, high: float) -> str:
    """faster, slower or same, for a ratio of times and its confidence interval."""
    if low <= 1 <= high or abs(ratio - 1) < _MIN_DIFFERENCE:
        return "same"
    return "faster" if ratio < 1 else "slower"


def histogram(samples: Sequence[float], width: int, encoding: str) -> str:
    """A histogram as one line of `width` characters, from the least value to the greatest."""
    low, high = min(samples), max(samples)
    counts = [0] * width
    for sample in samples:
        counts[min(width - 1, int((sample - low) / ((high - low) or 1) * width))] += 1
    highest = max(counts)
    levels = _levels(encoding)
    return "".join(levels[-(-count * (len(levels) - 1) // highest)] for count in counts)


def _levels(encoding: str) -> str:
    """Characters from empty to full that the encoding can represent."""
    levels = " ▁▂▃▄▅▆▇█"
    try:
        levels.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return " .:-=+*#"
    return levels
