"""Check and measure the engines on a module."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.measure import PAUSE, TOLERANCE
from benchmarks.pytorch import OURS
from benchmarks.pytorch.engines import ENGINES, eager, tensors
from benchmarks.pytorch.networks import NETWORKS, case
from benchmarks.statistics import ratio, summarise
from benchmarks.turns import REST


@dataclass(slots=True)
class Measured:
    """An engine on a module; `failure`: why the rest is empty."""

    failure: str = ""
    seconds: float = 0.0
    """To compile the module, with the first call."""
    error: float = 0.0
    """Largest difference from eager PyTorch, relative to the largest item of a result."""
    turns: list[list[float]] = field(default_factory=list[list[float]])

    @property
    def is_right(self) -> bool:
        return not self.failure and self.error <= TOLERANCE


def measure(
    name: str,
    engines: Sequence[str],
    threads: int,
    rounds: int,
    turn: float,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Facts of the engines on a network; they take turns in this process."""
    import torch

    torch.set_num_threads(threads)
    torch.compiler.reset()
    built = case(name)
    wanted = tensors(eager(built, threads)())
    measured = {engine: Measured() for engine in engines}
    calls: dict[str, Callable[[], Any]] = {}
    for engine, each in measured.items():
        tell(f"compiling for {engine}")
        start = time.perf_counter()
        try:
            with torch.no_grad():
                call = ENGINES[engine](built, threads)
            found = tensors(call())
        except Exception as error:
            each.failure = " ".join(str(error).split())[:200] or type(error).__name__
            continue
        each.seconds = time.perf_counter() - start
        each.error = difference(found, wanted)
        calls[engine] = call
    for i in range(rounds):
        for engine, call in calls.items():
            tell(f"{i + 1}/{rounds} {engine}")
            time.sleep(max(PAUSE, REST))
            measured[engine].turns.append(_turn(call, turn))
    return _facts(name, threads, measured)


def _turn(call: Callable[[], Any], seconds: float) -> list[float]:
    """Seconds of each call, for about `seconds`, after a call that is not counted."""
    call()
    clock = time.perf_counter
    times: list[float] = []
    end = clock() + seconds
    gc.disable()
    try:
        while not times or clock() < end:
            start = clock()
            call()
            times.append(clock() - start)
    finally:
        gc.enable()
    return times


def difference(found: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest difference of results, relative to the largest item of each."""
    if len(found) < len(wanted):
        return math.inf
    worst = 0.0
    for mine, right in zip(found, wanted):
        if mine.shape != right.shape:
            return math.inf
        scale = right.abs().max().item() or 1.0
        error = (mine.double() - right.double()).abs().max().item() / scale
        worst = max(worst, math.inf if math.isnan(error) else error)
    return worst


def _facts(name: str, threads: int, measured: dict[str, Measured]) -> dict[str, Any]:
    """A comparison as data; times are in milliseconds."""
    right = {name: each for name, each in measured.items() if each.is_right and each.turns}
    peers = {name: each for name, each in right.items() if name not in OURS}
    times = {name: summarise(each.turns) for name, each in right.items()}
    best = min(peers, key=lambda name: times[name].median, default=None)
    ours = next((name for name in OURS if name in right), None)
    least = min((times[name].least for name in peers), default=None)
    return {
        "name": name,
        "title": NETWORKS[name].title,
        "threads": threads,
        "best_peer": best,
        "ours": ours,
        "ratio": ratio(right[best].turns, right[ours].turns).value if best and ours else None,
        "ratio_of_fastest": least / times[ours].least if ours and least else None,
        "engines": {name: _engine(each) for name, each in measured.items()},
    }


def _engine(measured: Measured) -> dict[str, Any]:
    if measured.failure:
        return {"failure": measured.failure}
    summary = summarise(measured.turns)
    return {
        "median_ms": 1e3 * summary.median,
        "min_ms": 1e3 * summary.least,
        "runs": summary.runs,
        "error": measured.error,
        "is_right": measured.is_right,
        "compile_seconds": measured.seconds,
        "turns_ms": [[round(1e3 * s, 5) for s in turn] for turn in measured.turns],
    }
