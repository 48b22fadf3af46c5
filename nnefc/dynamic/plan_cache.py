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
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from nnefc.dynamic.call_memory import check_memory
from nnefc.dynamic.planner import PLAN_BYTES, Request, SymbolicPlan
from nnefc.runtime.plan.plan_conditions import ShapeKey, Shapes
from nnefc.runtime.run.compiled_model import CompiledModel
from nnefc.support.errors import NnefError
from nnefc.support.fork_safe import renew_after_fork
from nnefc.symbolic.sym_int_base import Untraceable

if TYPE_CHECKING:
    from nnefc.dynamic.plan_store import PlanStore
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.compile.compiled_program import CompiledProgram
    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.plan.trace_template import TracedProgram
    from nnefc.runtime.run.executable import Executable
    from nnefc.support.value_inputs import ValueInput

MAX_PLANS: Final = 64
"""Capacity of the cache for plans of one combination of shapes."""
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


class _CachedPlan:
    """A plan for one combination of shapes, and the number of its calls."""

    __slots__ = ("calls", "is_degraded", "model")

    def __init__(self, model: Executable, *, is_degraded: bool = False) -> None:
        self.model = model
        self.is_degraded = is_degraded
        self.calls = 0


class Source(Protocol):
    """What the cache needs of a `GraphSource`."""

    name: str
    inputs: list[str]
    outputs: list[str]
    free: list[str]

    @property
    def value_inputs(self) -> Mapping[str, ValueInput]: ...

    @property
    def growing_axes(self) -> Mapping[str, int]: ...

    def symbol_values(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]: ...


class PlanMaker(Protocol):
    """A `Planner`, or one that is made when a plan is needed."""

    @property
    def is_ready(self) -> bool:
        """Whether it makes plans without further ado."""
        ...

    @property
    def document(self) -> GraphSource:
        """The document, which is parsed if necessary."""
        ...

    @property
    def threads(self) -> int | None:
        """The number of threads that the caller requested; None: all usable CPUs."""
        ...

    @property
    def store(self) -> PlanStore[Any] | None:
        """Where the plans are kept for other processes."""
        ...

    @property
    def constant_bytes(self) -> int: ...

    @property
    def config(self) -> CompileConfig: ...

    @property
    def programs(self) -> Sequence[tuple[Request, TracedProgram]]:
        """The latest traced programs, with their requests."""
        ...

    def outputs(self, shapes: Mapping[str, Sequence[int]]) -> tuple[TensorSpec, ...]:
        """The results, with these shapes of some inputs; -1 for extents that vary."""
        ...

    def compile(self, shapes: Shapes, states: Shapes) -> CompiledModel: ...

    def trace(self, request: Request) -> SymbolicPlan: ...


class PlanCache:
    """The plans of a model by the shapes of a call.  Plans share packed weights."""

    def __init__(
        self, source: Source, planner: PlanMaker, plans: Sequence[SymbolicPlan] = ()
    ) -> None:
        """`plans`: symbolic plans that exist already."""
        self._source = source
        self._planner = planner
        self._plans: OrderedDict[Any, _CachedPlan] = OrderedDict()
        self._symbolic_plans = list(plans)
        """Most recently used first."""
        self.requests: list[Request] = []
        """The shapes that plans have been made for, at most `MAX_SYMBOLIC_PLANS`."""
        self._failed_traces = 0
        self._previous: Shapes = {}
        """Shapes of states in the previous call."""
        self._dynamic_axes: dict[str, set[int]] = {}
        """Axes of states whose extents have changed between calls."""
        self._lock = threading.Lock()
        """Held while cached plans are looked up, added and removed."""
        self._making = threading.RLock()
        """Held while plans are made, which may take seconds."""
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """After a fork no thread of the child holds a lock."""
        self._lock, self._making = threading.Lock(), threading.RLock()

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def symbolic_plans(self) -> int:
        """The number of symbolic plans."""
        return len(self._symbolic_plans)

    @property
    def nbytes(self) -> int:
        """Bytes of all plans."""
        return sum(each.model.nbytes for each in list(self._plans.values()))

    def find(self, shapes: Shapes, states: Shapes) -> Executable:
        """The plan for these shapes of inputs and states; raises NnefError if they do not fit."""
        key = (*shapes.values(), *states, *states.values())
        with self._lock:
            previous, self._previous = self._previous, states
            plan = self._cached(key)
        if plan is None:
            plan = self._get_or_add(key, lambda: self._possible(shapes, states, previous))
        plan.calls += 1
        if plan.is_degraded and plan.calls > RESPECIALIZE_AFTER and self._planner.is_ready:
            plan = self._respecialized(key, plan, shapes, states)
        return plan.model

    def _possible(self, shapes: Shapes, states: Shapes, previous: Shapes) -> _CachedPlan:
        """`_plan`; raises NnefError if values of the call ask for more memory than there is."""
        plan = self._plan(shapes, states, previous)
        if self._source.value_inputs:
            check_memory(plan.model.call_bytes, self._source.value_inputs, shapes)
        return plan

    def concrete(self, shapes: Shapes) -> CompiledModel:
        """The concrete plan for these shapes, without states."""
        key = (*shapes.values(), "concrete")
        model = self._get_or_add(key, lambda: _CachedPlan(self._concrete(shapes))).model
        assert isinstance(model, CompiledModel)
        return model

    def _cached(self, key: Any) -> _CachedPlan | None:
        """The plan of a key, if there is one; the caller holds the lock."""
        plan = self._plans.get(key)
        if plan is not None:
            self._plans.move_to_end(key)
        return plan

    def _get_or_add(self, key: Any, make: Callable[[], _CachedPlan]) -> _CachedPlan:
        """The plan of a key, built if missing; calls with cached plans go on meanwhile."""
        with self._making:
            with self._lock:
                plan = self._cached(key)
            if plan is None:
                plan = make()
                self._add(key, plan)
            return plan

    def _add(self, key: Any, plan: _CachedPlan) -> None:
        """Add or replace a plan; evicts the least recently used ones."""
        with self._lock:
            self._plans[key] = plan
            self._plans.move_to_end(key)
            while len(self._plans) > MAX_PLANS or self._exceeds_memory(plan):
                self._plans.popitem(last=False)

    def _respecialized(
        self, key: Any, plan: _CachedPlan, shapes: Shapes, states: Shapes
    ) -> _CachedPlan:
        """A concrete plan in place of a degraded one, which other threads use meanwhile."""
        with self._making:
            if not plan.is_degraded:  # another thread has replaced it
                return plan
            concrete = _CachedPlan(self._planner.compile(shapes, states))
            plan.is_degraded = False
            self._add(key, concrete)
            return concrete

    def _exceeds_memory(self, added: _CachedPlan) -> bool:
        """Whether all plans exceed PLAN_BYTES; not computed after the addition of a small one."""
        if added.model.nbytes <= PLAN_BYTES // MAX_PLANS or len(self._plans) == 1:
            return False
        return sum(each.model.nbytes for each in self._plans.values()) > PLAN_BYTES

    def _concrete(self, shapes: Shapes) -> CompiledModel:
        """A concrete plan without states: from a symbolic plan, or a new one."""
        if not self._planner.is_ready:
            symbols, key = self._source.symbol_values(shapes), ShapeKey.of(shapes, {})
            for symbolic, values in self._candidates(symbols, key):
                if (compiled := symbolic.model.compiled_at(values)) is not None:
                    return self._adopted(compiled, shapes)
        return self._planner.compile(shapes, {})

    def _adopted(self, compiled: CompiledProgram, shapes: Shapes) -> CompiledModel:
        """The model of a compiled program for these shapes."""
        from nnefc.artifacts.graph_origin import FromDocument
        from nnefc.dynamic.planner import launches_at

        planner, saved = self._planner, compiled.launches

        def launches() -> Sequence[LaunchInfo]:
            found = launches_at(planner.document, planner.config, shapes)
            return found if len(found) == len(saved()) else saved()

        origin = FromDocument(lambda: planner.document.graph(shapes), lambda: planner.config)
        return CompiledModel(compiled, origin, threads=planner.threads, launches=cache(launches))

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
        symbols, key = self._source.symbol_values(shapes), ShapeKey.of(shapes, states)
        for symbolic, values in self._candidates(symbols, key):
            if (model := symbolic.model.at(values)) is not None:
                self._symbolic_plans.remove(symbolic)
                self._symbolic_plans.insert(0, symbolic)
                return _CachedPlan(model, is_degraded=symbolic.conditions.is_degraded)
        self._record_growth(previous, states)
        for name, axis in self._source.growing_axes.items():
            self._dynamic_axes.setdefault(name, set()).add(axis)
        is_dynamic = bool(symbols) or any(name in self._dynamic_axes for name in states)
        axes = {name: tuple(self._dynamic_axes.get(name, ())) for name in states}
        request = Request(
            dict(shapes), dict(states), {n: tuple(sorted(a)) for n, a in axes.items() if a}
        )
        may_trace = is_dynamic and self._failed_traces < MAX_FAILED_TRACES
        if may_trace:
            with suppress(Untraceable, NnefError):  # the concrete plan reports the error
                symbolic = self._planner.trace(request)
                values = symbolic.conditions.parameters(symbols, key)
                assert values is not None, "a symbolic plan fits the shapes of its trace"
                model = symbolic.model.at(values)
                assert model is not None, "the guards hold for the shapes of the trace"
                self._symbolic_plans.insert(0, symbolic)
                del self._symbolic_plans[MAX_SYMBOLIC_PLANS:]
                self._remember(request)
                is_general = _holds_for_others(symbolic, values)
                self._failed_traces = 0 if is_general else self._failed_traces + 1
                return _CachedPlan(model, is_degraded=symbolic.conditions.is_degraded)
        concrete = self._planner.compile(shapes, states)
        self._remember(request)
        self._failed_traces += may_trace
        return _CachedPlan(concrete)

    def _candidates(
        self, symbols: Mapping[str, int], key: ShapeKey
    ) -> list[tuple[SymbolicPlan, list[int]]]:
        """Symbolic plans whose guards may hold, with values of their parameters; nearest first."""
        candidates: list[tuple[int, SymbolicPlan, list[int]]] = []
        for plan in self._symbolic_plans:
            values = plan.conditions.parameters(symbols, key)
            if values is None:
                continue
            distance = plan.conditions.distance(values)
            if distance <= MAX_LOG2_DISTANCE:
                candidates.append((distance, plan, values))
        return [(plan, values) for _, plan, values in sorted(candidates, key=lambda x: x[0])]

    def _remember(self, request: Request) -> None:
        self.requests = [*self.requests, request][-MAX_SYMBOLIC_PLANS:]


def _holds_for_others(plan: SymbolicPlan, values: Sequence[int]) -> bool:
    """Whether the guards of a plan hold for some other value of one of its symbols."""
    return any(
        plan.model.holds([*values[:i], other, *values[i + 1 :]])
        for i, value in enumerate(values)
        for other in (value + 1, value - 1, 2 * value, value // 2, value + 16)
        if (other > 0 or value <= 0) and other != value
    )
