"""Plans of a model whose shapes are known at a call: found, computed of symbols, or made.

    shapes ──▶ a plan of before ──▶ a pattern that holds for them ──▶ a new pattern
               (LRU of models)      (ParametricModel.at)             (front end, passes, lowering)

A pattern is a program of extents (`nnefc.symbolic`), made once for lengths that are alike; see
docs/design/dynamic.md.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nnefc.errors import Diagnostics, NnefError
from nnefc.frontends.tract.names import kept_shapes, state_name
from nnefc.frontends.tract.trial import try_out
from nnefc.runtime.model import CompiledModel
from nnefc.runtime.shared import SharedWeights
from nnefc.states import only_sessions
from nnefc.symbolic import Extent, Trace

if TYPE_CHECKING:
    from nnefc.frontends.tract.source import Source
    from nnefc.ir import Graph
    from nnefc.runtime.objects import Progress
    from nnefc.runtime.parametric import ParametricModel

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]

PLANS: Final = 64
PLAN_BYTES: Final = 256 << 20
"""Plans that a model keeps, and how much memory they may take for values between launches."""
PATTERNS: Final = 64
"""Patterns that a model keeps."""
REACH: Final = 2
"""What is chosen for lengths is good for others that have so many bits more or less."""
SETTLED: Final = 8
"""Calls after which shapes have a plan of their own, if that of their pattern is a makeshift."""
ATTEMPTS: Final = 2
"""Patterns that are tried to be made of a model for which there cannot be any."""


@dataclass(frozen=True, slots=True)
class _Place:
    """An extent of an input of the graph: of one of the document, or of a state."""

    name: str
    axis: int


@dataclass(frozen=True, slots=True, eq=False)
class _Pattern:
    """A model for many shapes, and what has to be the same of all of them."""

    model: ParametricModel
    symbols: tuple[str, ...]
    """Those that shapes of inputs tell, in the order of the function's parameters."""
    groups: tuple[tuple[_Place, ...], ...]
    """Extents of states that are one symbol: they are equal."""
    fixed: Mapping[_Place, int]
    """All other extents."""
    ranks: Mapping[str, int]
    """Of all inputs and states."""
    bits: tuple[int, ...]
    """Of the values that it was made for."""
    is_makeshift: bool
    """Whether something is left out of it that is worth it, and for known numbers alone."""

    def distance(self, values: Sequence[int]) -> int:
        """How many bits values have more or less than those that it was made for, at most."""
        pairs = zip(values, self.bits, strict=True)
        return max((abs(value.bit_length() - bits) for value, bits in pairs), default=0)

    def values(self, symbols: Mapping[str, int], every: Shapes) -> list[int] | None:
        """What the function takes; None if shapes are not like those it was made for.

        `every`: shapes of the inputs of the graph, of states among them.
        """
        if every.keys() != self.ranks.keys() or tuple(symbols) != self.symbols:
            return None
        if any(len(every[name]) != rank for name, rank in self.ranks.items()):
            return None
        if any(every[at.name][at.axis] != extent for at, extent in self.fixed.items()):
            return None
        values = list(symbols.values())
        for first, *others in self.groups:
            value = every[first.name][first.axis]
            if any(every[at.name][at.axis] != value for at in others):
                return None
            values.append(value)
        return values


@dataclass(slots=True)
class _Made:
    """A plan that is kept."""

    model: CompiledModel
    is_makeshift: bool = False
    calls: int = 0


class Plans:
    """The plans of a model by the shapes of a call; weights are in memory once."""

    def __init__(
        self, source: Source, how: Mapping[str, Any], progress: Progress | None = None
    ) -> None:
        """`how`: `threads`, `accuracy` and `methods`, as for `nnefc.compiling.compile_with`."""
        self._source = source
        self._how = dict(how)
        self._progress = progress
        self._shared = SharedWeights()
        for array in source.weights.arrays():
            self._shared.keep(array)
        self._made: OrderedDict[Any, _Made] = OrderedDict()
        self._arena_bytes = 0
        """Of those."""
        self._patterns: list[_Pattern] = []
        """The one that was used last is the first."""
        self._failed = 0
        self._kept: dict[str, Shape] = {}
        """Shapes of states of the call before."""
        self._growing: dict[str, set[int]] = {}
        """Axes of states whose extents have changed from one call to the next."""
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._made)

    @property
    def patterns(self) -> int:
        """How often front end, passes and lowering have run for all plans that came of it."""
        return len(self._patterns)

    def find(self, shapes: Shapes, states: Shapes) -> CompiledModel:
        """The plan for shapes of the inputs and of states; NnefError if they do not fit."""
        key = (*shapes.values(), *states.items())
        with self._lock:
            self._watch(states)
            found = self._kept_or_made(key, lambda: self._planned(shapes, states))
            found.calls += 1
            if found.is_makeshift and found.calls > SETTLED:
                self._forget(key)
                found = self._kept_or_made(key, lambda: _Made(self._compiled(shapes, states)))
            return found.model

    def exact(self, shapes: Shapes) -> CompiledModel:
        """A plan that is made for these shapes alone, without states."""
        key = (*shapes.values(), "exact")
        with self._lock:
            return self._kept_or_made(key, lambda: _Made(self._compiled(shapes, {}))).model

    def _kept_or_made(self, key: Any, make: Callable[[], _Made]) -> _Made:
        """The plan that is kept under a key; those that were used longest ago may go for it."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
            self._arena_bytes += found.model.arena_bytes
            while len(self._made) > 1 and (
                len(self._made) > PLANS or self._arena_bytes > PLAN_BYTES
            ):
                self._forget(next(iter(self._made)))
        self._made.move_to_end(key)
        return found

    def _forget(self, key: Any) -> None:
        """Let a plan go."""
        self._arena_bytes -= self._made.pop(key).model.arena_bytes

    def _compiled(self, shapes: Shapes, states: Shapes) -> CompiledModel:
        """A plan of which nothing is taken from others but weights."""
        from nnefc.compiling import compile_with

        graph = self._source.graph(shapes, states=states)
        return compile_with(graph, progress=self._progress, packed=self._shared.packed, **self._how)

    def _watch(self, states: Shapes) -> None:
        """Note which extents of states change."""
        for name, shape in states.items():
            before = self._kept.get(name, shape)
            if before != shape and len(before) == len(shape):
                changed = {i for i, pair in enumerate(zip(before, shape)) if pair[0] != pair[1]}
                self._growing.setdefault(name, set()).update(changed)
        self._kept = dict(states)

    # -- patterns

    def _planned(self, shapes: Shapes, states: Shapes) -> _Made:
        """A plan of a pattern, if there is one or can be; otherwise one of its own."""
        symbols = self._source.symbol_values(shapes)
        for pattern, values in self._near(symbols, shapes, states):
            if (found := self._of(pattern, values, shapes, states)) is not None:
                self._patterns.remove(pattern)
                self._patterns.insert(0, pattern)
                return _Made(found, pattern.is_makeshift)
        growing = any(name in self._growing for name in states)
        tried = (bool(symbols) or growing) and self._failed < ATTEMPTS
        if tried:
            with suppress(Exception):  # what needs plain numbers, and errors, which these tell
                pattern = self._traced(symbols, shapes, states)
                values = pattern.values(symbols, _inputs(shapes, states))
                found = None if values is None else self._of(pattern, values, shapes, states)
                assert found is not None, "a pattern holds for what it was made for"
                self._patterns.insert(0, pattern)
                del self._patterns[PATTERNS:]
                self._failed = 0
                return _Made(found, pattern.is_makeshift)
        model = self._compiled(shapes, states)
        self._failed += tried
        return _Made(model)

    def _near(
        self, symbols: Mapping[str, int], shapes: Shapes, states: Shapes
    ) -> list[tuple[_Pattern, list[int]]]:
        """Patterns that may hold, with the values that their functions take; the nearest first."""
        found: list[tuple[int, _Pattern, list[int]]] = []
        every = _inputs(shapes, states)
        for pattern in self._patterns:
            values = pattern.values(symbols, every)
            if values is not None and (distance := pattern.distance(values)) <= REACH:
                found.append((distance, pattern, values))
        return [(pattern, values) for _, pattern, values in sorted(found, key=lambda x: x[0])]

    def _of(
        self, pattern: _Pattern, values: Sequence[int], shapes: Shapes, states: Shapes
    ) -> CompiledModel | None:
        """The plan of a pattern for some values of its symbols, if it holds."""
        compiled = pattern.model.at(values)
        if compiled is None:
            return None
        origin = _Called(self._source, shapes, states)
        return CompiledModel(compiled, origin, threads=self._how["threads"])

    def _traced(self, symbols: Mapping[str, int], shapes: Shapes, states: Shapes) -> _Pattern:
        """A new pattern; any exception if there cannot be one."""
        from nnefc.ahead import expecting_usual
        from nnefc.arguments import memory_for
        from nnefc.compiling import lowered
        from nnefc.runtime.parametric import ParametricModel

        trace = Trace()

        lifted: dict[str, tuple[int, ...]] = {}
        groups: dict[int, list[_Place]] = {}
        inputs = {name: trace.symbol(value) for name, value in symbols.items()}
        extents: dict[int, int] = {}
        for name, shape in states.items():
            dims = list(shape)
            for axis in sorted(self._growing.get(name, ())):
                value = shape[axis]
                if value not in extents:
                    extents[value] = trace.symbol(value)
                dims[axis] = extents[value]
                groups.setdefault(value, []).append(_Place(state_name(name), axis))
            lifted[name] = tuple(dims)
        graph = self._source.graph(shapes, states=lifted, lifted=inputs)
        program = lowered(graph, growing=True, **self._how)
        how = self._how["threads"], self._how["accuracy"]
        with memory_for("compile the model"), expecting_usual(*how):
            model = ParametricModel(trace, program, graph, self._progress, self._shared.packed)
        dims = _inputs({value.name: value.type.dims for value in graph.inputs}, lifted)
        return _Pattern(
            model,
            tuple(symbols),
            tuple(map(tuple, groups.values())),
            _fixed(dims),
            {name: len(shape) for name, shape in dims.items()},
            tuple(value.bit_length() for value in (*symbols.values(), *extents)),
            trace.is_makeshift,
        )


def _inputs(shapes: Shapes, states: Shapes) -> dict[str, Shape]:
    """Shapes of the inputs of a graph by name, those of states behind the others."""
    return {**shapes, **{state_name(name): shape for name, shape in states.items()}}


def _fixed(shapes: Shapes) -> dict[_Place, int]:
    """The extents of inputs and states that no symbol stands for."""
    return {
        _Place(name, axis): extent
        for name, dims in shapes.items()
        for axis, extent in enumerate(dims)
        if not isinstance(extent, Extent)
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Called:
    """The origin of a plan that a call has asked for."""

    source: Source
    shapes: Shapes
    states: Shapes

    @property
    def graph(self) -> Graph:
        return self.source.graph(self.shapes, states=self.states)

    def save(self, *_: Any, **__: Any) -> None:
        raise needs_shapes("save", self.source, self.shapes)

    def emit_c(self, *_: Any, **__: Any) -> list[str]:
        raise needs_shapes("emit_c", self.source, self.shapes)

    def reduce(self, model: CompiledModel) -> Any:
        raise needs_shapes("pickle", self.source, self.shapes)


def needs_shapes(what: str, source: Source, shapes: Shapes) -> NnefError:
    """The error of what a model with symbols or states cannot do, where inputs have `shapes`.

    States are named; shapes that no symbol has a value for are examples.
    """
    try:
        trial = try_out(source, shapes, Diagnostics())
    except NnefError:
        example = "{...}"
    else:
        if kept := kept_shapes(trial.graph):
            return only_sessions(what, kept)
        example = str({name: tuple(shape) for name, shape in trial.shapes.items()})
    hint = f"model.for_shapes({example}) gives one"
    return NnefError.of("input/shape", f"{what} needs a model for some shapes alone", hint=hint)
