"""The plan cache of a dynamic model: cached plans, symbolic plans, concrete plans.

    shapes ──▶ a cached plan ──▶ a symbolic plan whose guards hold ──▶ a new symbolic plan
               (LRU)             (SymbolicExecutable.at)              (front end, passes, lowering)

A symbolic plan, pattern for short, is a program with symbolic integers, traced once for extents of
similar size; see docs/design/dynamic.md.
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

PLANS: Final = 64
"""Capacity of the cache in plans."""
PLAN_BYTES: Final = 256 << 20
"""Bytes that a model retains between calls for the numbers of plans, and for values between
launches; more if one call needs more.
"""
PATTERNS: Final = 64
"""Capacity of the cache in symbolic plans."""
MAX_LOG2_DISTANCE: Final = 6
"""A pattern is reused for extents of inputs within a factor of 2^6 of those it was traced with.

BERT and CNNs are at most 3 % slower with a pattern of inputs 25 times as short or long than with
their own.  Extents of states, which are read once, may have any distance.
"""
RESPECIALIZE_AFTER: Final = 8
"""Calls with the same shapes after which a concrete plan replaces that of a degraded pattern."""
ATTEMPTS: Final = 8
"""Consecutive traces that fail, or hold for one shape only, before tracing is given up."""


class ShapeKey:
    """The shapes of the inputs of a graph, then of its states, flattened."""

    __slots__ = ("extents", "names", "ranks")

    def __init__(self, shapes: Shapes, states: Shapes) -> None:
        every = (*shapes.values(), *states.values())
        self.names = (*shapes, *states)
        self.ranks = tuple(map(len, every))
        self.extents = tuple(chain.from_iterable(every))

    def at(self, places: Sequence[int]) -> tuple[int, ...]:
        """The extents there."""
        return tuple(map(self.extents.__getitem__, places))


@dataclass(frozen=True, slots=True, eq=False)
class SymbolicPlan:
    """A program for many shapes, and the conditions on shapes that its guards leave out.

    A call of a decoder compares these few hundred extents as one tuple.
    """

    model: SymbolicExecutable
    symbols: tuple[str, ...]
    """Symbols in the shapes of inputs, in the order of the function's parameters."""
    like: ShapeKey
    """The shapes of the trace."""
    groups: Sequence[Sequence[int]]
    """Indices of extents of states that share a symbol: they are equal."""
    fixed: Sequence[int]
    """Indices of extents that are constant."""
    bits: tuple[int, ...]
    """Bit lengths of the hints of `symbols`."""
    is_degraded: bool
    """Whether an optimization was left out because it needs plain integers."""

    def distance(self, values: Sequence[int]) -> int:
        """The largest difference in bit length between values and hints."""
        pairs = zip(values, self.bits, strict=False)  # lengths of states come behind
        return max((abs(value.bit_length() - bits) for value, bits in pairs), default=0)

    def values(self, symbols: Mapping[str, int], asked: ShapeKey) -> list[int] | None:
        """The arguments of the function; None if the shapes differ in what is constant."""
        like = self.like
        if asked.names != like.names or asked.ranks != like.ranks:
            return None
        if tuple(symbols) != self.symbols or asked.at(self.fixed) != like.at(self.fixed):
            return None
        values = list(symbols.values())
        for places in self.groups:
            extents = asked.at(places)
            if extents.count(extents[0]) != len(extents):
                return None
            values.append(extents[0])
        return values


@dataclass(slots=True)
class _CachedPlan:
    """A cached plan."""

    model: Executable
    is_degraded: bool = False
    calls: int = 0


class PlanCache:
    """The plans of a model by the shapes of a call; they share packed weights."""

    def __init__(
        self, source: GraphSource, config: CompileConfig, progress: Progress | None = None
    ) -> None:
        self._source = source
        self._config = config
        self._progress = progress
        self._shared = WeightPool(PLAN_BYTES)
        for array in source.arrays():
            self._shared.keep(array)
        self._made: OrderedDict[Any, _CachedPlan] = OrderedDict()
        self._patterns: list[SymbolicPlan] = []
        """Most recently used first."""
        self._failed = 0
        self._before: Shapes = {}
        """Shapes of states of the call before."""
        self._growing: dict[str, set[int]] = {}
        """Axes of states whose extents have changed from one call to the next."""
        self._lock = threading.RLock()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """In the child of a fork nobody makes plans."""
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._made)

    @property
    def patterns(self) -> int:
        """The number of symbolic plans."""
        return len(self._patterns)

    def find(self, shapes: Shapes, states: Shapes) -> Executable:
        """The plan for shapes of the inputs and of states; NnefError if they do not fit."""
        key = (*shapes.values(), *states, *states.values())
        with self._lock:
            before, self._before = self._before, states
            found = self._kept_or_made(key, lambda: self._planned(shapes, states, before))
            found.calls += 1
            if found.is_degraded and found.calls > RESPECIALIZE_AFTER:
                del self._made[key]
                found = self._kept_or_made(key, lambda: _CachedPlan(self._compiled(shapes, states)))
            return found.model

    def exact(self, shapes: Shapes) -> CompiledModel:
        """The concrete plan for these shapes, without states."""
        key = (*shapes.values(), "exact")
        with self._lock:
            found = self._kept_or_made(key, lambda: _CachedPlan(self._compiled(shapes, {}))).model
        assert isinstance(found, CompiledModel)
        return found

    def _kept_or_made(self, key: Any, make: Callable[[], _CachedPlan]) -> _CachedPlan:
        """The plan under a key, made if missing; evicts the least recently used plans."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
            while len(self._made) > PLANS or self._take_too_much(found):
                self._made.popitem(last=False)
        else:
            self._made.move_to_end(key)
        return found

    def _take_too_much(self, added: _CachedPlan) -> bool:
        """Whether the plans take too many bytes after an addition; ignores small ones."""
        if added.model.nbytes <= PLAN_BYTES // PLANS or len(self._made) == 1:
            return False
        return sum(each.model.nbytes for each in self._made.values()) > PLAN_BYTES

    def _compiled(self, shapes: Shapes, states: Shapes) -> CompiledModel:
        """A concrete plan; it shares memory with others."""
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

    def _watch(self, before: Shapes, states: Shapes) -> None:
        """Note which extents of states have changed from one call to the next."""
        for name, shape in states.items():
            other = before.get(name, shape)
            if other != shape and len(other) == len(shape):
                changed = {i for i, pair in enumerate(zip(other, shape)) if pair[0] != pair[1]}
                self._growing.setdefault(name, set()).update(changed)

    # -- patterns

    def _planned(self, shapes: Shapes, states: Shapes, before: Shapes) -> _CachedPlan:
        """A plan of a symbolic plan, which is traced if necessary; otherwise a concrete plan.

        `before`: shapes of states in the call before.
        """
        symbols, asked = self._source.symbol_values(shapes), ShapeKey(shapes, states)
        for pattern, values in self._near(symbols, asked):
            if (found := pattern.model.at(values)) is not None:
                self._patterns.remove(pattern)
                self._patterns.insert(0, pattern)
                return _CachedPlan(found, pattern.is_degraded)
        self._watch(before, states)
        for name, axis in self._source.growing.items():
            self._growing.setdefault(name, set()).add(axis)
        growing = any(name in self._growing for name in states)
        tried = (bool(symbols) or growing) and self._failed < ATTEMPTS
        if tried:
            with suppress(Untraceable, NnefError):  # the concrete plan reports the error
                pattern = self._traced(symbols, shapes, states)
                values = pattern.values(symbols, asked)
                assert values is not None, "a pattern is for what it was made for"
                found = pattern.model.at(values)
                assert found is not None, "a pattern holds for what it was made for"
                self._patterns.insert(0, pattern)
                del self._patterns[PATTERNS:]
                self._failed = 0 if _holds_for_others(pattern, values) else self._failed + 1
                return _CachedPlan(found, pattern.is_degraded)
        model = self._compiled(shapes, states)
        self._failed += tried
        return _CachedPlan(model)

    def _near(
        self, symbols: Mapping[str, int], asked: ShapeKey
    ) -> list[tuple[SymbolicPlan, list[int]]]:
        """Patterns that may hold, with the arguments of their functions; the nearest first."""
        found: list[tuple[int, SymbolicPlan, list[int]]] = []
        for pattern in self._patterns:
            values = pattern.values(symbols, asked)
            if values is not None and (distance := pattern.distance(values)) <= MAX_LOG2_DISTANCE:
                found.append((distance, pattern, values))
        return [(pattern, values) for _, pattern, values in sorted(found, key=lambda x: x[0])]

    def _traced(self, symbols: Mapping[str, int], shapes: Shapes, states: Shapes) -> SymbolicPlan:
        """A new pattern; raises Untraceable, or NnefError for an error of the document."""
        from nnefc.driver.kernels_ahead import expecting_usual_kernels
        from nnefc.driver.lower import lower_graph
        from nnefc.runtime.plan.symbolic_plan import SymbolicExecutable
        from nnefc.support.memory_errors import memory_errors

        trace = Trace(must_vary=True)  # or it is for these shapes alone, which takes less
        inputs = {name: trace.symbol(value) for name, value in symbols.items()}
        growing = {
            shape[axis]
            for name, shape in states.items()
            for axis in self._growing.get(name, ())
            if axis < len(shape)  # of another rank is what the graph refuses
        }
        extents = {value: trace.symbol(value) for value in sorted(growing)}
        lifted = {
            name: tuple(
                extents[extent] if axis in self._growing.get(name, ()) else extent
                for axis, extent in enumerate(shape)
            )
            for name, shape in states.items()
        }
        graph = self._source.graph(shapes, states=lifted, lifted=inputs)
        program = lower_graph(graph, self._config, growing=True)
        threads = self._config.threads
        with memory_errors("compile the model"), expecting_usual_kernels(self._config):
            model = SymbolicExecutable(
                trace, program, graph, self._progress, self._shared, threads=threads
            )
        taken = [value.type.dims for value in graph.inputs[: len(shapes)]]
        dims = list(chain.from_iterable([*taken, *lifted.values()]))
        return SymbolicPlan(
            model,
            tuple(symbols),
            ShapeKey(shapes, states),
            [[i for i, x in enumerate(dims) if x is extent] for extent in extents.values()],
            [i for i, x in enumerate(dims) if not isinstance(x, SymInt)],
            tuple(value.bit_length() for value in symbols.values()),
            trace.is_degraded,
        )


def _holds_for_others(pattern: SymbolicPlan, values: Sequence[int]) -> bool:
    """Whether a pattern holds for some other value of one of its symbols."""
    return any(
        pattern.model.holds([*values[:i], other, *values[i + 1 :]])
        for i, value in enumerate(values)
        for other in (value + 1, value - 1, 2 * value, value // 2, value + 16)
        if other > 0 and other != value
    )


def needs_shapes(what: str, source: GraphSource, shapes: Shapes) -> NnefError:
    """The error of a request that a model with symbols or states refuses; `shapes`: of inputs.

    States are named; shapes that no symbol has a value for are examples.
    """
    try:
        trial = sample_graph(source, shapes, Diagnostics())
    except NnefError:
        example = "{...}"
    else:
        if kept := trial.graph.state_shapes:
            return only_sessions(what, kept)
        example = str({name: tuple(shape) for name, shape in trial.shapes.items()})
    hint = f"model.for_shapes({example}) gives one"
    return NnefError.of("input/shape", f"{what} needs a model for some shapes alone", hint=hint)
