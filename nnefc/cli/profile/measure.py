"""Profile a model on random inputs, and measure the limits of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnefc.cli.profile.rows import Row, launch_rows
from nnefc.cli.support.options import usage
from nnefc.cli.support.printing import count, status

if TYPE_CHECKING:
    from nnefc.cli.support.opened_model import OpenedModel
    from nnefc.ir import Graph
    from nnefc.runtime.machine.roofline import Roofline
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.run.compiled_model import CompiledModel
    from nnefc.runtime.run.profile import Profile

_ROOFLINE_SECONDS = 0.2
"""Duration of the measurement of the machine, for each thread."""


@dataclass(frozen=True, eq=False)
class ModelProfile:
    """Times of the launches of a model, and the limits of this machine."""

    name: str
    threads: int
    arena_bytes: int
    launches: Sequence[LaunchInfo]
    profile: Profile
    rooflines: Mapping[int, Roofline]
    """Limits of one thread and of all, by number of threads."""
    itemsize: int
    """Bytes of the widest floating-point item, which the peak depends on."""
    rows: Sequence[Row]
    """A row for each launch, in the order of execution."""

    @property
    def peak_gflops(self) -> float:
        """Peak speed of all threads together."""
        return self.rooflines[self.threads].peak_gflops(self.itemsize)


def profile_model(
    opened: OpenedModel,
    threads: int | None,
    seconds: float,
    *,
    best: bool,
    call: int | None = None,
) -> ModelProfile:
    """Profile a model for `seconds`; `best`: rows have the shortest times, not the medians.

    `call`: the call of a session to profile, counted from 1; None: the first one with states.
    """
    from nnefc.ir import DType
    from nnefc.runtime.machine.roofline import measure_roofline
    from nnefc.runtime.memory.random_inputs import random_inputs

    model, graph = _compiled(opened, threads, call)
    inputs = random_inputs(model, {value.name: value.type for value in graph.inputs}, 0)
    counts = {1, model.threads}
    with status("measuring the limits of this machine"):
        rooflines = {n: measure_roofline(n, seconds=_ROOFLINE_SECONDS * n) for n in counts}
    with status(f"profiling {count(model.threads, 'thread')} for {seconds:g} s"):
        profile = model.profile(*inputs, seconds=seconds)
    doubles = any(v.type.dtype is DType.FLOAT64 for op in graph.ops for v in op.outputs)
    itemsize = 8 if doubles else 4
    return ModelProfile(
        name=opened.name,
        threads=model.threads,
        arena_bytes=model.arena_bytes,
        launches=model.launches,
        profile=profile,
        rooflines=rooflines,
        itemsize=itemsize,
        rows=launch_rows(model.launches, profile, rooflines, itemsize, best=best),
    )


def _compiled(
    opened: OpenedModel, threads: int | None, call: int | None
) -> tuple[CompiledModel, Graph]:
    """The model for a call, whose states are inputs and outputs, and its graph."""
    from nnefc.cli.support.import_and_compile import compile_graph

    if opened.calls is None:
        if call is not None:
            raise usage(f"--call {call}: the model keeps no states", "leave it out")
        return opened.compile(threads), opened.graph
    step = (call or (2 if opened.graph.states else 1)) - 1
    graph = opened.calls.graph(step, in_place=True)
    return compile_graph(graph, opened.config(threads)), graph
