"""The plan cache of a dynamic model: cached plans, symbolic plans, concrete plans.

    shapes ──▶ a cached plan ──▶ a symbolic plan whose guards hold ──▶ a new symbolic plan
               (LRU)             (SymbolicExecutable.at)              (front end, passes, lowering)

A symbolic plan is a program with symbolic integers, traced once for extents of similar size; see
docs/design/dynamic.md.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from nnefc.dynamic.states import only_sessions
from nnefc.frontends.common.graph_source import sample_graph
from nnefc.runtime.memory.weight_pool import WeightPool
from nnefc.runtime.run.model import CompiledModel
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.fork_safe import renew_after_fork
from nnefc.symbolic.base import Untraceable
from nnefc.symbolic.integers import SymInt, Trace

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.plan.symbolic_plan import SymbolicExecutable
    from nnefc.runtime.run.executable import Executable
    from nnefc.support.progress import Progress

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]

MAX_PLANS: Final = 64
"""Capacity of the cache for plans of one combination of shapes."""
PLAN_BYTES: Final = 256 << 20
"""Capacity in bytes: for the parameters of plans, and for the memory of values between launches.

A single call may need more.
"""
MAX_SYMBOLIC_PLANS: Final = 64
"""Capacity of the cache for symbolic plans."""
MAX_LOG2_DISTANCE: Final = 6
"""A symbolic plan is reused for extents of inputs within a factor of 2^6 of those of its trace.

BERT and CNNs are at most 3 % slower with the plan of inputs 25 times as short or long than with
their own.  For extents of states, which are read once, the distance is not limited.
"""
RESPECIALIZE_AFTER: Final = 8
"""Calls with the same shapes after which a concrete plan replaces a degraded symbolic one."""
MAX_FAILED_TRACES: Final = 8
"""Consecutive traces that fail, or hold for one shape only, before tracing is given up."""


class ShapeKey:
    """The shapes of the inputs of a graph, then of its states, flattened."""

    __slots__ = ("extents", "names", "ranks")

    def __init__(self, shapes: Shapes, states: Shapes) -> None:
        every = (*shapes.values(), *states.values())
        self.names = (*shapes, *states)
        self.ranks = tuple(map(len, every))
        self.extents = tuple(chain.from_iterable(every))

    def at(self, indices: Sequence[int]) -> tuple[int, ...]:
        """The extents at these indices."""
        return tuple(map(self.extents.__getitem__, indices))


@dataclass(frozen=True, slots=True, eq=False)
class SymbolicPlan:
    """A program for many shapes, and the conditions on shapes that its guards do not contain.

    These compare the few hundred extents of a decoder's states as one tuple.
    """

    model: SymbolicExecutable
    symbols: tuple[str, ...]
    """Symbols in the shapes of inputs, in the order of the function's parameters."""
    traced: ShapeKey
    """The shapes of the trace."""
    groups: Sequence[Sequence[int]]
    """Indices of extents of states that share a symbol and must be equal."""
    fixed: Sequence[int]
    """Indices of extents that are constant."""
    bits: tuple[int, ...]
    """Bit lengths of the hints of `symbols`."""
    is_degraded: bool
    """Whether an optimization was left out because it needs plain integers."""

    def distance(self, values: Sequence[int]) -> int:
        """The largest difference in bit length between values and hints."""
        pairs = zip(values, self.bits, strict=False)  # extents of states follow, without a limit
        return max((abs(value.bit_length() - bits) for value, bits in pairs), default=0)

    def values(self, symbols: Mapping[str, int], key: ShapeKey) -> list[int] | None:
        """The values of the function's parameters; None if constant extents or ranks differ."""
        traced = self.traced
        if key.names != traced.names or key.ranks != traced.ranks:
            return None
        if tuple(symbols) != self.symbols or key.at(self.fixed) != traced.at(self.fixed):
            return None
        values = list(symbols.values())
        for indices in self.groups:
            extents = key.at(indices)
            if extents.count(extents[0]) != len(extents):
                return None
            values.append(extents[0])
        return values


@dataclass(slots=True)
class _CachedPlan:
    """A plan for one combination of shapes, and the number of its calls."""

    model: Executable
    is_degraded: bool = False
    calls: int = 0


class PlanCache:
    """The plans of a model by the shapes of a call.  Plans share packed weights."""

    def __init__(
        self, source: GraphSource, config: CompileConfig, progress: Progress | None = None
    ) -> None:
        self._source = source
        self._config = config
        self._progress = progress
        self._shared = WeightPool(PLAN_BYTES)
        for array in source.arrays():
            self._shared.keep(array)
        self._plans: OrderedDict[Any, _CachedPlan] = OrderedDict()
        self._symbolic_plans: list[SymbolicPlan] = []
        """Most recently used first."""
        self._failed_traces = 0
        self._previous: Shapes = {}
        """Shapes of states in the previous call."""
        self._dynamic_axes: dict[str, set[int]] = {}
        """Axes of states whose extents have changed between calls."""
        self._lock = threading.RLock()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """After a fork no thread of the child holds the lock."""
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def symbolic_plans(self) -> int:
        """The number of symbolic plans."""
        return len(self._symbolic_plans)

    def find(self, shapes: Shapes, states: Shapes) -> Executable:
        """The plan for these shapes of inputs and states; raises NnefError if they do not fit."""
        key = (*shapes.values(), *states, *states.values())
        with self._lock:
            previous, self._previous = self._previous, states
            plan = self._get_or_add(key, lambda: self._plan(shapes, states, previous))
            plan.calls += 1
            if plan.is_degraded and plan.calls > RESPECIALIZE_AFTER:
                del self._plans[key]
                plan = self._get_or_add(key, lambda: _CachedPlan(self._compile(shapes, states)))
            return plan.model

    def concrete(self, shapes: Shapes) -> CompiledModel:
        """The concrete plan for these shapes, without states."""
        key = (*shapes.values(), "concrete")
        with self._lock:
            model = self._get_or_add(key, lambda: _CachedPlan(self._compile(shapes, {}))).model
        assert isinstance(model, CompiledModel)
        return model

    def _get_or_add(self, key: Any, make: Callable[[], _CachedPlan]) -> _CachedPlan:
        """The plan of a key, built if missing; evicts the least recently used plans."""
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = make()
            while len(self._plans) > MAX_PLANS or self._exceeds_memory(plan):
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return plan

    def _exceeds_memory(self, added: _CachedPlan) -> bool:
        """Whether all plans exceed PLAN_BYTES; not computed after the addition of a small one."""
        if added.model.nbytes <= PLAN_BYTES // MAX_PLANS or len(self._plans) == 1:
            return False
        return sum(each.model.nbytes for each in self._plans.values()) > PLAN_BYTES

    def _compile(self, shapes: Shapes, states: Shapes) -> CompiledModel:
        """A concrete plan, which shares weights and memory with other plans."""
        from nnefc.artifacts.provenance import FromGraph
        from nnefc.driver.compile import compile_graph

        graph = self._source.graph(shapes, states=states)
        return compile_graph(
            graph,
            self._config,
            progress=self._progress,
            origin=FromGraph(graph, self._config),
            shared=self._shared,
        )

    def _record_growth(self, previous: Shapes, states: Shapes) -> None:
        """Record which extents of states have changed since the previous call."""
        for name, shape in states.items():
            other = previous.get(name, shape)
            if other != shape and len(other) == len(shape):
                changed = {i for i, pair in enumerate(zip(other, shape)) if pair[0] != pair[1]}
                self._dynamic_axes.setdefault(name, set()).update(changed)

    # -- symbolic plans

    def _plan(self, shapes: Shapes, states: Shapes, previous: Shapes) -> _CachedPlan:
        """A plan from a symbolic plan, which is traced if necessary; otherwise a concrete plan.

        `previous`: shapes of states in the previous call.
        """
        symbols, key = self._source.symbol_values(shapes), ShapeKey(shapes, states)
        for symbolic, values in self._candidates(symbols, key):
            if (model := symbolic.model.at(values)) is not None:
                self._symbolic_plans.remove(symbolic)
                self._symbolic_plans.insert(0, symbolic)
                return _CachedPlan(model, symbolic.is_degraded)
        self._record_growth(previous, states)
        for name, axis in self._source.growing_axes.items():
            self._dynamic_axes.setdefault(name, set()).add(axis)
        is_dynamic = bool(symbols) or any(name in self._dynamic_axes for name in states)
        may_trace = is_dynamic and self._failed_traces < MAX_FAILED_TRACES
        if may_trace:
            with suppress(Untraceable, NnefError):  # the concrete plan reports the error
                symbolic = self._trace(symbols, shapes, states)
                values = symbolic.values(symbols, key)
                assert values is not None, "a symbolic plan fits the shapes of its trace"
                model = symbolic.model.at(values)
                assert model is not None, "the guards hold for the shapes of the trace"
                self._symbolic_plans.insert(0, symbolic)
                del self._symbolic_plans[MAX_SYMBOLIC_PLANS:]
                is_general = _holds_for_others(symbolic, values)
                self._failed_traces = 0 if is_general else self._failed_traces + 1
                return _CachedPlan(model, symbolic.is_degraded)
        concrete = self._compile(shapes, states)
        self._failed_traces += may_trace
        return _CachedPlan(concrete)

    def _candidates(
        self, symbols: Mapping[str, int], key: ShapeKey
    ) -> list[tuple[SymbolicPlan, list[int]]]:
        """Symbolic plans whose guards may hold, with values of their parameters; nearest first."""
        candidates: list[tuple[int, SymbolicPlan, list[int]]] = []
        for plan in self._symbolic_plans:
            values = plan.values(symbols, key)
            if values is not None and (distance := plan.distance(values)) <= MAX_LOG2_DISTANCE:
                candidates.append((distance, plan, values))
        return [(plan, values) for _, plan, values in sorted(candidates, key=lambda x: x[0])]

    def _trace(self, symbols: Mapping[str, int], shapes: Shapes, states: Shapes) -> SymbolicPlan:
        """A new symbolic plan; raises Untraceable, or NnefError for an error of the document."""
        from nnefc.driver.kernels_ahead import expecting_usual_kernels
        from nnefc.driver.lower import lower_graph
        from nnefc.runtime.plan.symbolic_plan import SymbolicExecutable
        from nnefc.runtime.plan.trace_template import compile_template
        from nnefc.support.memory_errors import memory_errors

        trace = Trace(must_vary=True)  # for a single shape, a concrete plan takes less time
        inputs = {name: trace.symbol(value) for name, value in symbols.items()}
        dynamic_extents = {
            shape[axis]
            for name, shape in states.items()
            for axis in self._dynamic_axes.get(name, ())
            if axis < len(shape)  # the graph reports a changed rank
        }
        extents = {value: trace.symbol(value) for value in sorted(dynamic_extents)}
        lifted = {
            name: tuple(
                extents[extent] if axis in self._dynamic_axes.get(name, ()) else extent
                for axis, extent in enumerate(shape)
            )
            for name, shape in states.items()
        }
        graph = self._source.graph(shapes, states=lifted, lifted=inputs)
        program = lower_graph(graph, self._config, dynamic_shapes=True)
        threads = self._config.threads
        with memory_errors("compile the model"), expecting_usual_kernels(self._config):
            template = compile_template(trace, program, graph, self._progress, self._shared)
            model = SymbolicExecutable(*template, self._shared.arenas, threads=threads)
        input_dims = [value.type.dims for value in graph.inputs[: len(shapes)]]
        dims = list(chain.from_iterable([*input_dims, *lifted.values()]))
        return SymbolicPlan(
            model,
            tuple(symbols),
            ShapeKey(shapes, states),
            [[i for i, x in enumerate(dims) if x is extent] for extent in extents.values()],
            [i for i, x in enumerate(dims) if not isinstance(x, SymInt)],
            tuple(value.bit_length() for value in symbols.values()),
            trace.is_degraded,
        )


def _holds_for_others(plan: SymbolicPlan, values: Sequence[int]) -> bool:
    """Whether the guards of a plan hold for some other value of one of its symbols."""
    return any(
        plan.model.holds([*values[:i], other, *values[i + 1 :]])
        for i, value in enumerate(values)
        for other in (value + 1, value - 1, 2 * value, value // 2, value + 16)
        if other > 0 and other != value
    )


def needs_shapes(what: str, source: GraphSource, shapes: Shapes) -> NnefError:
    """The error of a request that a model with symbols or states refuses.

    It names states, or gives `shapes` of inputs with examples of unknown extents as a hint.
    """
    try:
        trial = sample_graph(source, shapes, Diagnostics())
    except NnefError:
        example = "{...}"
    else:
        if states := trial.graph.state_shapes:
            return only_sessions(what, states)
        example = str({name: tuple(shape) for name, shape in trial.shapes.items()})
    hint = f"model.for_shapes({example}) returns one"
    return NnefError.of("input/shape", f"{what} needs a model with known shapes", hint=hint)
