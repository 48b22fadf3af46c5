"""The calls of a session that a command makes: a first one, and those that follow.

For a decoder the first call is a prompt, and each that follows takes one token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.support.inputs import key_of
from nnefc.cli.support.options import usage
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    import numpy as np

    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.ir import Graph

    Array = np.ndarray[Any, Any]

Shapes = Mapping[str, tuple[int, ...]]

MAX_STEP: Final = 8
"""The largest value of a symbol that is tried for calls after the first."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call: the shapes of its inputs, and the values of symbols that they determine."""

    shapes: Shapes
    symbols: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class SessionCalls:
    """The calls of a session."""

    source: GraphSource
    """Its given symbols are those that no input has."""
    first: Call
    later: Call
    given: tuple[Call, ...] = ()
    """Calls after the first whose inputs are given by files; `later` is for those after them."""

    def call(self, step: int) -> Call:
        """Call `step`, counted from 0."""
        calls = (self.first, *self.given)
        return calls[step] if step < len(calls) else self.later

    def with_inputs(self, turns: Sequence[Mapping[str, Array]]) -> SessionCalls:
        """The calls whose inputs have the shapes of the arrays of `turns`; raises NnefError."""
        given: list[Call] = []
        values = self.source.value_inputs
        for arrays in turns[1:]:
            shapes = {**self.later.shapes, **{n: key_of(n, x, values) for n, x in arrays.items()}}
            self.source.check(shapes)
            given.append(Call(shapes, self.source.symbol_values(shapes)))
        return replace(self, given=tuple(given))

    def graphs(self, steps: int) -> Iterator[Graph]:
        """The graphs of the first calls; states are inputs and outputs."""
        states: Shapes = {}
        for step in range(steps):
            graph = self.source.graph(self.call(step).shapes, states=states, in_place=False)
            states = graph.state_shapes
            yield graph

    def graph(self, step: int, *, in_place: bool) -> Graph:
        """The graph of call `step`; see `GraphSource.graph`."""
        states: Shapes = {}
        for before in self.graphs(step):
            states = before.state_shapes
        return self.source.graph(self.call(step).shapes, states=states, in_place=in_place)

    def items(self, step: int) -> int:
        """Items, such as tokens, that call `step` appends to states; 1 if no state grows."""
        grown = _growth(self.source, self.call(step).shapes)
        return max((extents[axis] for extents, axis in grown.values()), default=1)


@dataclass(slots=True, eq=False)
class ReferenceSession:
    """A session of the float64 reference interpreter."""

    source: GraphSource
    check_indices: bool = True
    """An index out of range is an error; False: the nearest item is used."""
    states: dict[str, Array] = field(default_factory=dict[str, Any])

    def graph(self, shapes: Shapes) -> Graph:
        """The graph of the next call, whose states are inputs and outputs."""
        of_states = {name: array.shape for name, array in self.states.items()}
        return self.source.graph(shapes, states=of_states, in_place=False)

    def state_inputs(self, graph: Graph) -> dict[str, Array]:
        """The states that a graph takes, by the names of its inputs."""
        return {
            graph.inputs[state.input].name: self.states[state.name]
            for state in graph.states
            if state.input is not None
        }

    def run(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The results of a call, cut to size, by name; the states become its new ones."""
        from nnefc.dynamic.states import split_outputs
        from nnefc.ops.tools.reference import evaluate

        inputs = {**inputs, **self.state_inputs(graph)}
        found = evaluate(graph, inputs, check_indices=self.check_indices).outputs.values()
        results, self.states = split_outputs(list(found), graph.states, graph.counts)
        return dict(zip(graph.output_names, results, strict=False))


def split_symbols(options: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """`--symbol` options of the first call and of later ones: `S=128,1` is `S=128`, then `S=1`."""
    first: list[str] = []
    later: list[str] = []
    for option in options or ():
        name, _, text = option.partition("=")
        values = text.split(",")
        if len(values) == 2:
            first.append(f"{name}={values[0]}")
            later.append(f"{name}={values[1]}")
        else:
            first.append(option)
    return first, later


def session_calls(source: GraphSource, shapes: Shapes, later: Mapping[str, int]) -> SessionCalls:
    """The calls of a session whose first one has `shapes`.

    `later`: values of symbols in later calls.  Without them, the symbol that says how many items a
    call appends to the states is as small as possible, such as one token; raises NnefError.
    """
    in_inputs = source.with_symbols({}).free
    every = {**source.given, **source.symbol_values(shapes)}
    values = {name: every[name] for name in in_inputs if name in every}
    base = source.with_symbols({n: v for n, v in source.given.items() if n not in in_inputs})
    first = Call(shapes, values)
    if not later:
        return SessionCalls(base, first, _smallest_step(base, first, in_inputs))
    if constant := [name for name in later if name not in in_inputs]:
        raise usage(f"--symbol {constant[0]}: no shape of an input has it, so it cannot change")
    return SessionCalls(base, first, _call(base, {**values, **later}))


def _call(source: GraphSource, values: Mapping[str, int]) -> Call:
    """The call for values of all symbols; raises NnefError if they contradict the document."""
    fixed = source.with_symbols({**source.given, **values})
    fixed.check({})
    shapes = fixed.determined()
    return Call({name: shapes[name] for name in source.inputs}, values)


def _smallest_step(source: GraphSource, first: Call, names: Iterable[str]) -> Call:
    """The call that appends the fewest items after the first one; the first one if states do not
    grow.
    """
    before = _growth(source, first.shapes)
    if not before:
        return first
    states = source.graph(first.shapes, in_place=False).state_shapes
    for name in names:
        for value in range(1, min(first.symbols.get(name, 0), MAX_STEP + 1)):
            try:
                call = _call(source, {**first.symbols, name: value})
                after = _growth(source, call.shapes)
                if _is_shorter(before, after):
                    source.graph(call.shapes, states=states, in_place=False)
                    return call
            except NnefError:
                continue  # a value that the document does not allow
    return first


def _growth(source: GraphSource, shapes: Shapes) -> dict[str, tuple[tuple[int, ...], int]]:
    """(shape, growing axis) of the growing states after one call, by name."""
    states = source.graph(shapes, in_place=False).state_shapes
    axes = source.growing_axes
    return {name: (shape, axes[name]) for name, shape in states.items() if name in axes}


def _is_shorter(
    before: Mapping[str, tuple[tuple[int, ...], int]],
    after: Mapping[str, tuple[tuple[int, ...], int]],
) -> bool:
    """Whether states are smaller along their growing axes, and equal along the others."""
    return all(
        name in after
        and after[name][0][axis] < shape[axis]
        and _others(after[name][0], axis) == _others(shape, axis)
        for name, (shape, axis) in before.items()
    )


def _others(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])
