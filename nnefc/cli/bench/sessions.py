"""Measure the calls of a session: a first one, such as a prompt, and those that follow."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

    from nnefc.cli.bench.parallel_calls import Load
    from nnefc.cli.support.opened_model import DocumentModel
    from nnefc.cli.support.session_calls import SessionCalls
    from nnefc.dynamic.dynamic_model import DynamicModel, Session

    Array = np.ndarray[Any, Any]

REWIND: Final = 16
"""Later calls after which the states become those after the first call again."""


@dataclass(eq=False)
class SessionCaller:
    """Calls of a session that start from the same states: none, or those after a first call."""

    session: Session
    arrays: Sequence[Array]
    first: Sequence[Array] | None
    """The arrays of the first call; None: measure first calls."""
    saved: Mapping[str, Array] = field(default_factory=dict[str, Any])

    def __call__(self) -> None:
        self.session(*self.arrays)

    @property
    def repetitions(self) -> int:
        """Calls to measure between two preparations."""
        return 1 if self.first is None else REWIND

    def prepare(self) -> None:
        """Restore the states; later calls then find them in memory with spare capacity."""
        self.session.reset()
        if self.first is None:
            return
        if not self.saved:
            self.session(*self.first)
            self.saved = {name: array.copy() for name, array in self.session.states.items()}
        self.session.states.update(self.saved)
        self()


def repeat_prepared(caller: SessionCaller, seconds: float) -> list[float]:
    """Seconds of each call of a caller; starts calls until `seconds` are over, at least one."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        caller.prepare()
        for _ in range(caller.repetitions):
            start = time.perf_counter()
            caller()
            times.append(time.perf_counter() - start)
    return times


def session_facts(
    opened: DocumentModel,
    calls: SessionCalls,
    threads: int | None,
    load: Load,
) -> list[dict[str, Any]]:
    """Latencies of the first call and of later ones, for JSON; each takes half of the time."""
    from nnefc.cli.bench.machine_load import LoadMeter
    from nnefc.cli.bench.parallel_calls import run_streams, timing_facts
    from nnefc.cli.support.printing import status
    from nnefc.ops.tools.cost import macs

    model = opened.compile_session(calls, threads)
    results: list[dict[str, Any]] = []
    for step, kind in enumerate(("first", "later")):
        graph = calls.graph(step, in_place=False)
        callers = [_caller(model, calls, step, load.given, i) for i in range(load.streams)]
        meter = LoadMeter.start()
        half = load._replace(warmup=load.warmup / 2, seconds=load.seconds / 2)
        with status(f"{half.text(_threads(threads))}: {kind} calls"):
            times, elapsed = run_streams(callers, half.warmup, half.seconds, repeat_prepared)
        others = meter.others()
        # callers spend the rest of the time on preparations
        facts = timing_facts(times, sum(times) / load.streams, elapsed)
        rate = facts.pop("calls_per_second")
        items = calls.items(step)
        results.append(
            {
                "call": kind,
                "symbols": dict(calls.call(step).symbols),
                "items": items,
                "past_items": calls.items(0) * step,
                "threads": _threads(threads),
                "streams": load.streams,
                "other_load": others,
                **facts,
                "per_second": items * rate,
                "gflops": 2 * sum(map(macs, graph.ops)) * rate / 1e9,
            }
        )
    return results


def _caller(
    model: DynamicModel, calls: SessionCalls, step: int, given: Mapping[str, Array], seed: int
) -> SessionCaller:
    session = model.session()
    first, arrays = (_arrays(session, calls, number, given, seed) for number in (0, step))
    return SessionCaller(session, arrays, first if step else None)


def _arrays(
    session: Session, calls: SessionCalls, step: int, given: Mapping[str, Array], seed: int
) -> list[Array]:
    """The arrays for the inputs of a call: `given` ones of the right shape, else random ones."""
    from nnefc.cli.support.inputs import value_arrays
    from nnefc.ir import TensorType
    from nnefc.runtime.memory.random_inputs import random_inputs

    shapes, known = calls.call(step).shapes, calls.source.types()
    values = value_arrays(shapes, calls.source.value_inputs)
    dims = {**shapes, **{name: x.shape for name, x in values.items()}}
    types = {name: TensorType(known[name].dtype, dims[name]) for name in calls.source.inputs}
    fitting = {name: x for name, x in given.items() if x.shape == dims.get(name)}
    fitting |= values
    return random_inputs(session, types, seed, fitting)


def _threads(threads: int | None) -> int:
    """The number of threads that are used."""
    from nnefc.runtime.run.team import shared_team

    return shared_team(threads).threads


def print_session(facts: Mapping[str, Any]) -> None:
    """Print a row for each number of threads and kind of call."""
    from nnefc.cli.bench.tables import busy_notes
    from nnefc.cli.support.measurements import duration
    from nnefc.cli.support.printing import console, print_table, table

    out, results = console(), facts["results"]
    grows = any(result["past_items"] for result in results)
    rate = "tokens/s" if grows else "calls/s"
    several = any(result["streams"] > 1 for result in results)
    columns = ["call", *(["tokens", "after"] if grows else []), "threads"]
    columns += ["streams"] if several else []
    columns += ["median", "mean", "p95", "max", rate, "GFLOP/s"]
    view = table(*columns, numeric=columns[1:])
    for result in results:
        view.add_row(
            result["call"],
            *([f"{result['items']:,}", f"{result['past_items']:,}"] if grows else []),
            str(result["threads"]),
            *([str(result["streams"])] if several else []),
            *(duration(result[f"{key}_ms"] / 1e3) for key in ("median", "mean", "p95", "max")),
            f"{result['per_second']:,.{0 if result['per_second'] >= 1000 else 1}f}",
            f"{result['gflops']:.3g}",
        )
    print_table(out, view)
    for note in busy_notes(results, facts["machine"]["cpus"]):
        out.print(f"note: {note}")
    if grows:
        out.print(
            f"tokens: items that a call appends to states; later calls find up to "
            f"{REWIND} times as many more, then the states are those after the first call again"
        )
