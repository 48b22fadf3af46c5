"""Makes plans from a document: traces for many shapes, concrete plans for one combination.

It needs the compiler, so a model from an artifact has one only where its patterns do not suffice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nnefc.dynamic.output_shapes import output_specs
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.runtime.plan.plan_conditions import PlanConditions, ShapeKey, Shapes
from nnefc.runtime.plan.symbolic_executable import SymbolicExecutable
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.support.wording import wording
from nnefc.symbolic.sym_int_base import Untraceable

if TYPE_CHECKING:
    import numpy as np

    from nnefc.dynamic.plan_store import PlanStore
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.ir import Graph
    from nnefc.options.compile_config import CompileConfig
    from nnefc.program.packed_weight import PackedWeight
    from nnefc.runtime.memory.weight_pool import WeightPool
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.plan.trace_template import TracedProgram
    from nnefc.runtime.run.compiled_model import CompiledModel
    from nnefc.support.progress import Progress

    Array = np.ndarray[Any, Any]

PLAN_BYTES: Final = 256 << 20
"""Capacity in bytes: for the parameters of plans, and for the memory of values between launches.

A single call may need more.
"""
MAX_STATE_ITEMS: Final = 1 << 40
"""The most items of a state of fixed size, such that offsets in memory fit in 64 bits."""
MAX_PROGRAMS: Final = 4
"""Traced programs that a planner keeps: a launch takes about 12 KB of them."""


class Request(NamedTuple):
    """The shapes that a plan is made for."""

    shapes: Shapes
    """Shapes of the inputs by name."""
    states: Shapes
    """Shapes of the states by name."""
    dynamic_axes: Mapping[str, Sequence[int]]
    """Axes of states whose extents change between calls."""
    capacity: int | None = None
    """The extent of the memory of growing states; None: with room for a call."""


class SymbolicPlan(NamedTuple):
    """A plan for many shapes."""

    model: SymbolicExecutable
    conditions: PlanConditions


class Planner:
    """Makes the plans of a model; they share weights and memory."""

    def __init__(
        self,
        source: GraphSource,
        config: CompileConfig,
        progress: Progress | None = None,
        store: PlanStore[Any] | None = None,
    ) -> None:
        """`store`: keeps the plans for other processes."""
        from nnefc.runtime.memory.weight_pool import WeightPool

        self.document = source
        self.config = config
        self.threads = config.threads
        self.is_ready = True
        self.programs: list[tuple[Request, TracedProgram]] = []
        """The latest traced programs with their requests: files need them again."""
        self.traces = 0
        """The number of symbolic plans so far."""
        self._latest: Shapes | None = None
        """The shapes of the latest plan."""
        self._progress = progress
        self.store = store
        self._shared: WeightPool = WeightPool(PLAN_BYTES)
        for array in source.arrays():
            self._shared.keep(array)

    @property
    def constant_bytes(self) -> int:
        """Bytes of the packed weights that plans share."""
        return self._shared.nbytes

    def packed(self, weight: PackedWeight) -> Array:
        """The items of a packed weight, which plans share."""
        return self._shared.packed(weight)

    def adopt(self, weight: PackedWeight, items: Array) -> None:
        """Use these items of a packed weight, which need not be packed again."""
        self._shared.adopt(weight, items)

    def outputs(self, shapes: Mapping[str, Sequence[int]]) -> tuple[TensorSpec, ...]:
        """The results, with these shapes of some inputs; -1 for extents that vary."""
        return output_specs(self.document, shapes, self._latest)

    def compile(self, shapes: Shapes, states: Shapes) -> CompiledModel:
        """The concrete plan for these shapes; raises NnefError with all errors."""
        graph = self.document.graph(shapes, states=states)
        self._latest = shapes
        return compile_concrete(graph, self.config, self._progress, self._shared)

    def trace(self, request: Request) -> SymbolicPlan:
        """A new symbolic plan; raises Untraceable, or NnefError for an error of the document."""
        from nnefc.driver.kernels_ahead import compiling_around
        from nnefc.runtime.plan.trace_template import compile_template
        from nnefc.support.memory_errors import memory_errors

        with memory_errors("compile the model"), compiling_around(self.config):
            program = traced(self.document, self.config, request)
            template = compile_template(program, self._progress, self._shared)
        self._latest = request.shapes
        self.programs = [*self.programs, (request, program)][-MAX_PROGRAMS:]
        self.traces += 1
        if self.store is not None:
            self.store.store(self)
        threads = self.config.threads
        model = SymbolicExecutable(*template, self._shared.arenas, threads=threads)
        return SymbolicPlan(model, program.conditions)


def compile_concrete(
    graph: Graph,
    config: CompileConfig,
    progress: Progress | None = None,
    shared: WeightPool | None = None,
) -> CompiledModel:
    """The model of a graph for known shapes; `shared`: with plans for other shapes."""
    from nnefc.artifacts.graph_origin import FromGraph
    from nnefc.driver.compile import compile_graph

    origin = FromGraph(graph, config)
    return compile_graph(graph, config, progress=progress, origin=origin, shared=shared)


def traced(source: GraphSource, config: CompileConfig, request: Request) -> TracedProgram:
    """The program for a request, with symbolic integers for symbols and for changing extents.

    Raises Untraceable, or NnefError for an error of the document.
    """
    from nnefc.driver.lower_graph import lower_graph
    from nnefc.runtime.plan.trace_template import TracedProgram
    from nnefc.symbolic.integers import SymInt, Trace

    shapes, states, dynamic_axes, capacity = request
    symbols = source.symbol_values(shapes)
    trace = Trace(must_vary=True)  # for a single shape, a concrete plan takes less time
    inputs = {name: trace.symbol(value) for name, value in symbols.items()}
    dynamic_extents = {
        shape[axis]
        for name, shape in states.items()
        for axis in dynamic_axes.get(name, ())
        if axis < len(shape)  # the graph reports a changed rank
    }
    extents = {value: trace.symbol(value) for value in sorted(dynamic_extents)}
    lifted: dict[str, Any] = {
        name: tuple(
            extents[extent] if axis in dynamic_axes.get(name, ()) else extent
            for axis, extent in enumerate(shape)
        )
        for name, shape in states.items()
    }
    graph = source.graph(shapes, states=lifted, lifted=inputs, capacity=capacity)
    program = lower_graph(graph, config, dynamic_shapes=True)
    dims: list[Any] = []  # None for items, which are symbols all of them
    for value, (name, shape) in zip(graph.inputs, shapes.items(), strict=False):
        dims += [None] * len(shape) if name in source.value_inputs else value.type.dims
    dims += chain.from_iterable(lifted.values())
    conditions = PlanConditions(
        tuple(symbols),
        ShapeKey.of(shapes, states),
        [[i for i, x in enumerate(dims) if x is extent] for extent in extents.values()],
        [i for i, x in enumerate(dims) if x is not None and not isinstance(x, SymInt)],
        tuple(symbols.values()),
        trace.is_degraded,
    )
    return TracedProgram(trace, program, graph, conditions)


def launches_at(source: GraphSource, config: CompileConfig, shapes: Shapes) -> Sequence[LaunchInfo]:
    """The launches of a symbolic plan without states for these shapes; nothing is compiled."""
    from nnefc.runtime.plan.launch_info import launch_infos
    from nnefc.runtime.plan.trace_template import hint_infos

    return hint_infos(
        launch_infos(traced_or_concrete(source, config, Request(shapes, {}, {})).program)
    )


def traced_or_concrete(
    source: GraphSource, config: CompileConfig, request: Request
) -> TracedProgram:
    """As `traced`; where tracing cannot go on, the program for exactly these shapes."""
    if source.symbol_values(request.shapes) or _change(request):
        try:
            return traced(source, config, request)
        except (Untraceable, NnefError):  # NnefError: the graph below reports it
            pass
    return concrete(source, config, request)


def concrete(source: GraphSource, config: CompileConfig, request: Request) -> TracedProgram:
    """The program for exactly the shapes of a request."""
    from nnefc.driver.lower_graph import lower_graph
    from nnefc.runtime.plan.trace_template import TracedProgram
    from nnefc.symbolic.integers import Trace

    shapes, states, _, capacity = request
    symbols = source.symbol_values(shapes)
    trace = Trace()
    for value in symbols.values():
        int(trace.symbol(value))  # a guard that the symbol has this value
    graph = source.graph(shapes, states=states, capacity=capacity)
    program = lower_graph(graph, config, dynamic_shapes=True)
    key = ShapeKey.of(shapes, states)
    every, values = list(range(len(key.extents))), tuple(symbols.values())
    conditions = PlanConditions(tuple(symbols), key, [], every, values, is_degraded=False)
    return TracedProgram(trace, program, graph, conditions)


def _change(request: Request) -> bool:
    return any(name in request.dynamic_axes for name in request.states)


def requests_for(source: GraphSource, shapes: Iterable[Shapes]) -> list[Request]:
    """Requests for calls with these shapes of inputs.

    If operators keep states: without states, and with those that the first call leaves.
    """
    every = list(shapes)
    requests = [Request(each, {}, {}) for each in every]
    if every and (states := _states_after(source, every[0])):
        axes = {name: (axis,) for name, axis in source.growing_axes.items()}
        requests += [Request(each, states, axes) for each in every]
    return requests


def fixed_memory_requests(
    source: GraphSource, shapes: Iterable[Shapes], capacity: int | None
) -> list[Request]:
    """As `requests_for`, for states in memory that neither moves nor grows.

    Growing states have memory for `capacity` items, and exist without items before the first call.
    Raises NnefError `input/state` for states that would need other memory in each call.
    """
    every = list(shapes)
    states = _states_after(source, every[0])
    growing = {name: axis for name, axis in source.growing_axes.items() if name in states}
    _check_memory(source, every[0], states, growing, capacity)
    empty = {name: _with_length(states[name], axis, 0) for name, axis in growing.items()}
    requests = [Request(each, empty, {}, capacity) for each in every]
    if not states:
        return requests
    axes = {name: (axis,) for name, axis in growing.items()}
    appended: list[Mapping[str, int]] = []
    for each in every:
        after = _states_after(source, each)
        appended.append({name: after[name][axis] for name, axis in growing.items()})
    for each, items in zip(every, appended, strict=True):
        rooms = {name: (capacity or 0) - count for name, count in items.items()}
        _check_room(min(rooms.values(), default=0), each, capacity)
        for lengths in _past_lengths(rooms, appended):
            past = {name: _with_length(states[name], growing[name], lengths[name]) for name in axes}
            requests.append(Request(each, {**states, **past}, axes, capacity))
    return requests


def _past_lengths(
    rooms: Mapping[str, int], appended: Sequence[Mapping[str, int]]
) -> Sequence[Mapping[str, int]]:
    """Lengths of states to trace a later call with, such that `rooms` allow them.

    First those after as many calls as there is room for: states that grow by other numbers of
    items then have other lengths, and equal ones share a symbol of a plan.  Then those after a
    first call, where a length may equal the number of new items, which some plans exclude.
    """
    first = {name: min(appended[0][name], room) for name, room in rooms.items()}
    lengths: Mapping[str, int] = dict.fromkeys(rooms, 0)
    for items in appended:
        longer = {name: lengths[name] + count for name, count in items.items()}
        if any(longer[name] > room for name, room in rooms.items()):
            break
        lengths = longer
    different = [each for each in (lengths, first) if all(each.values())]
    return different[:1] if lengths == first else different


def _with_length(shape: Sequence[int], axis: int, length: int) -> tuple[int, ...]:
    return (*shape[:axis], length, *shape[axis + 1 :])


def _option(capacity: object) -> str:
    """The option that gives a capacity of states."""
    return wording(f"state_capacity={capacity!r}", f"--state-capacity {capacity}")


def _check_room(room: int, shapes: Shapes, capacity: int | None) -> None:
    """Raise NnefError if a first call with these shapes leaves less than no room."""
    if room < 0 and capacity is not None:
        named = ", ".join(f"{name}: {list(shape)}" for name, shape in shapes.items())
        raise NnefError.of(
            "input/state",
            f"{_option(capacity)}: a call with {named} appends {capacity - room} items",
            hint=f"{_option(2 * (capacity - room))}, or shorter calls",
        )


def _check_memory(
    source: GraphSource,
    shapes: Shapes,
    states: Shapes,
    growing: Mapping[str, int],
    capacity: int | None,
) -> None:
    """Raise NnefError unless states fit in fixed memory after a first and a second call."""
    problems: list[Diagnostic] = []
    if growing and capacity is None:
        problems.append(
            Diagnostic(
                "input/state",
                f"{wording('emit_c', '--emit c')}: calls append items to the states "
                f"{', '.join(growing)}, whose memory in C has a fixed size",
                hint=f"give the most items: {_option(2048)}",
            )
        )
    if capacity is not None and (type(capacity) is not int or capacity < 1):
        message = f"{_option(capacity)}, expected a number of items, at least 1"
        raise NnefError.of("input/argument", message)
    if capacity is not None and not growing:
        problems.append(
            Diagnostic("input/argument", f"{_option(capacity)}: no state of the model grows")
        )
    for name, axis in growing.items():
        items = math.prod(_with_length(states[name], axis, capacity or 0))
        if items > MAX_STATE_ITEMS:
            message = f"{_option(capacity)}: state {name!r} would have {items:,} items, more than "
            problems.append(Diagnostic("input/argument", f"{message}{MAX_STATE_ITEMS:,}"))
    second = source.graph(shapes, states=states, in_place=False).state_shapes
    problems += [
        Diagnostic(
            "input/state",
            f"{wording('emit_c', '--emit c')}: the shape of state {name!r} changes from "
            f"{list(states[name])} to {list(shape)} in a second call, but its memory in C has a "
            "fixed size",
            hint="name shapes whose first call fills a cache with a window",
        )
        for name, shape in second.items()
        if name not in growing and shape != states[name]
    ]
    if problems:
        raise NnefError(problems)


def _states_after(source: GraphSource, shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """The shapes of the states after a first call, by name."""
    graph = source.graph(shapes)
    return {
        state.name: tuple(map(int, graph.outputs[state.output].type.dims))
        for state in graph.states
        if state.output is not None
    }
