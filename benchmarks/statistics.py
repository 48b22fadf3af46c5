"""Medians and ratios of times, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Turns = Sequence[Sequence[float]]
"""Seconds of runs by turn.  Runs of a turn are consecutive; turns of engines alternate."""

RESAMPLES = 2000

MIN_TURNS = 5
"""Fewer turns are too few for a bootstrap of their median."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of runs in seconds; `median`: the median of the medians of turns."""

    least: float
    median: float
    p10: float
    p90: float
    runs: int


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its 95 % confidence interval; None with fewer than `MIN_TURNS` turns."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.2f} (–)"
        return f"{self.value:.2f} ({self.low:.2f}–{self.high:.2f})"


def summarise(turns: Turns) -> Summary:
    """Statistics of all runs."""
    runs = np.concatenate([np.asarray(turn) for turn in turns])
    p10, p90 = np.percentile(runs, [10, 90])
    median = float(np.median(_medians(turns)))
    return Summary(float(runs.min()), median, float(p10), float(p90), len(runs))


def ratio_samples(above: Turns, below: Turns, seed: int = 0) -> np.ndarray[Any, Any]:
    """[RESAMPLES]: bootstrap samples of median(above) / median(below).

    Turns of the same number were measured shortly after each other and are drawn together, because
    other load on the machine slows both.
    """
    a, b = _medians(above), _medians(below)
    assert len(a) == len(b), "equal numbers of turns"
    drawn = np.random.default_rng(seed).integers(0, len(a), (RESAMPLES, len(a)))
    return np.median(a[drawn], axis=1) / np.median(b[drawn], axis=1)


def ratio(above: Turns, below: Turns, seed: int = 0) -> Interval:
    """median(above) / median(below), with its confidence interval."""
    value = float(np.median(_medians(above)) / np.median(_medians(below)))
    return _interval(value, ratio_samples(above, below, seed), len(above))


def geometric_mean(pairs: Sequence[tuple[Turns, Turns]]) -> Interval:
    """The geometric mean of the ratios of pairs that were measured independently."""
    values = [ratio(*pair).value for pair in pairs]
    logs = [np.log(ratio_samples(*pair, seed=i)) for i, pair in enumerate(pairs)]
    value = math.exp(sum(map(math.log, values)) / len(values))
    return _interval(value, np.exp(np.mean(logs, axis=0)), min(len(a) for a, _ in pairs))


def _medians(turns: Turns) -> np.ndarray[Any, Any]:
    return np.array([np.median(np.asarray(turn)) for turn in turns])


def _interval(value: float, samples: np.ndarray[Any, Any], turns: int) -> Interval:
    if turns < MIN_TURNS:
        return Interval(value, None, None)
    low, high = np.percentile(samples, [2.5, 97.5])
    return Interval(value, float(low), float(high))
