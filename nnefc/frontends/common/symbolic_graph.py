"""Graphs whose extents are expressions of symbols: `S + 1`, `N*S`.

A trace builds the graph of a source with symbolic integers.  Each extent is a number, for sample
values of the symbols, and an expression, which the trace has recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeVar

from nnefc.frontends.common.graph_source import (
    MAX_SAMPLES,
    DeclaredOutput,
    GraphSource,
    SampleGraph,
    Shapes,
    sample_graph,
)
from nnefc.ir import Graph, Value
from nnefc.ir.graph import walk
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.symbolic.expressions import expressions
from nnefc.symbolic.integers import Trace, is_symbolic
from nnefc.symbolic.straight_line import Function
from nnefc.symbolic.sym_int_base import Untraceable
from nnefc.symbolic.traced_array import hints_within

T = TypeVar("T")
TYPICAL: Final = 64
"""Values of symbols with which most extents of networks are above 1."""
MAX_TRACES: Final = 3
"""Traces with different sample values, while extents have no expression."""
Extents = tuple[str | None, ...]
"""Extents as expressions; None for one that varies, but has no expression."""


@dataclass(frozen=True, slots=True)
class SymbolicGraph:
    """A graph for sample values of symbols, with the extents that depend on them."""

    graph: Graph
    shapes: Shapes
    """Shapes of the inputs by name."""
    values: Mapping[str, int]
    """The sample values of the symbols without a value."""
    varying: Mapping[Value, Extents] = field(default_factory=dict[Value, Extents])
    """The extents of the values that have a varying one."""

    def extents(self, value: Value) -> Extents:
        """All extents of a value whose shape is known."""
        return self.varying.get(value) or tuple(map(str, value.type.dims))


def symbolic_graph(source: GraphSource, shapes: Shapes, diagnostics: Diagnostics) -> SymbolicGraph:
    """The graph of a source for `shapes` of some inputs; the other extents depend on symbols.

    Raises NnefError as `sample_graph`, which chooses the values of the symbols.
    """
    sample = sample_graph(source, shapes, diagnostics)
    traced = _Traced(sample, sample.graph, {})
    if sample.values:
        traced = _best_trace(source, shapes, sample)
    sample, graph, varying = traced
    for value in graph.inputs:
        if value.name in shapes:
            varying.pop(value, None)
    for count in graph.counts:  # only a run determines these extents
        value = graph.outputs[count.of]
        extents = list(varying.get(value) or map(str, value.type.dims))
        extents[count.axis] = None
        varying[value] = tuple(extents)
    return SymbolicGraph(graph, sample.shapes, sample.values, varying)


def may_differ(declared: DeclaredOutput, extents: Sequence[int]) -> bool:
    """Whether the extents of a result for sample shapes are others than the declared numbers."""
    pairs = zip(declared.extents, map(str, extents))
    return len(declared.extents) != len(extents) or any(a not in (b, "?") for a, b in pairs)


def check_declared_extents(
    source: GraphSource, shapes: Shapes, place: Place, diagnostics: Diagnostics
) -> None:
    """Report results that are declared with other extents than those that no symbol decides.

    `shapes`: of some inputs.
    """
    declared = {each.name: each for each in source.declared_outputs()}
    if not declared:
        return
    try:
        symbolic = symbolic_graph(source, shapes, Diagnostics())
    except NnefError:  # of sample values, which calls report
        return
    for name, value in zip(symbolic.graph.output_names, symbolic.graph.outputs, strict=True):
        output = declared.get(name)
        if output and (wrong := output.mismatch(symbolic.extents(value), place)):
            diagnostics.add(wrong)


class _Traced(NamedTuple):
    """A graph that was built under a trace, with plain integers in place of SymInts."""

    sample: SampleGraph
    graph: Graph
    varying: dict[Value, Extents]

    @property
    def unknown(self) -> int:
        """The number of extents without an expression."""
        return sum(each.count(None) for each in self.varying.values())


def _best_trace(source: GraphSource, shapes: Shapes, sample: SampleGraph) -> _Traced:
    """The trace with the most expressions: an extent of 1, as small samples give, takes guards."""
    built, tried = [sample], list[_Traced]()
    if source.value_inputs:  # one exception does not show all that depends on values
        built += _samples(source, shapes, sample)
    while len(tried) < min(len(built), MAX_TRACES) and not (tried and not tried[-1].unknown):
        tried.append(_traced(source, shapes, built[len(tried)], built))
    return min(tried, key=lambda each: each.unknown)


def _traced(
    source: GraphSource, shapes: Shapes, sample: SampleGraph, built: list[SampleGraph]
) -> _Traced:
    """The graph of a source, built under a trace for the values of a sample.

    Extents that are plain integers in the trace may differ where its guards do not hold.  They are
    compared with graphs for such values: those `built` so far, and a further one, which is added.
    """
    trace = Trace()
    lifted = {
        **source.symbol_values(sample.shapes),
        **{name: trace.symbol(value) for name, value in sample.values.items()},
    }
    names = list(sample.values)
    try:
        graph, holds = source.graph(sample.shapes, lifted=lifted), trace.function([])
    except (Untraceable, NnefError):  # NnefError: of a value that only a trace has
        graph, holds = sample.graph, None
    dims: dict[Value, Sequence[Any]] = {
        value: value.type.shape for value in _values(graph) if value.type.shape is not None
    }
    program = trace.program(list(chain.from_iterable(dims.values())))
    texts = _rows(expressions(program, names), dims)
    if (other := _exception(source, shapes, sample, holds, built)) is not None:
        built.append(other)
    unguarded = program._replace(steps=tuple(step for step in program.steps if step.target))
    function = unguarded.function()
    for other in built:
        values = [other.values[name] for name in names]
        if other is not sample and not _holds(holds, values):
            with suppress(ArithmeticError, ValueError):
                numbers = function(*values) or ()
                _drop_wrong(texts, _rows(numbers, dims), _twins(graph, other.graph))
    _replace_by_hints(graph)
    pairs = ((value, tuple(each)) for value, each in texts.items())
    varying = {v: each for v, each in pairs if each != tuple(map(str, v.type.dims))}
    return _Traced(sample, graph, varying)


def _rows(cells: Iterable[T], like: Mapping[Value, Sequence[Any]]) -> dict[Value, list[T]]:
    """Consecutive cells as rows that are as long as those of `like`."""
    rest = iter(cells)
    return {value: list(islice(rest, len(row))) for value, row in like.items()}


def _exception(
    source: GraphSource,
    shapes: Shapes,
    sample: SampleGraph,
    holds: Function | None,
    built: Sequence[SampleGraph],
) -> SampleGraph | None:
    """A new graph for sample values for which the guards of a trace do not hold, if some are."""
    names, known = list(sample.values), [each.values for each in built]
    samples = list(islice(source.sample_shapes(shapes), MAX_SAMPLES))
    samples.sort(key=lambda each: _distance(each[1][n] for n in names))
    for tried, every in samples:
        values = {name: every[name] for name in names}
        if values not in known and not _holds(holds, list(values.values())):
            with suppress(NnefError):
                return SampleGraph(source.graph(tried), tried, values)
    return None


def _samples(source: GraphSource, shapes: Shapes, first: SampleGraph) -> Iterator[SampleGraph]:
    """The graphs of further samples."""
    for tried, every in islice(source.sample_shapes(shapes), MAX_SAMPLES):
        values = {name: every[name] for name in first.values}
        if values != first.values:
            with suppress(NnefError):
                yield SampleGraph(source.graph(tried), tried, values)


def _distance(values: Iterable[int]) -> float:
    """The distance of the least value from `TYPICAL`, as a ratio."""
    least = max(min(values), 1)
    return max(least / TYPICAL, TYPICAL / least)


def _holds(guards: Function | None, values: Sequence[int]) -> bool:
    """Whether the guards of a trace hold for some values; False without a trace."""
    try:
        return guards is not None and guards(*values) is not None
    except (ArithmeticError, ValueError):
        return False


def _twins(graph: Graph, other: Graph) -> dict[Value, Value]:
    """The values of another graph of the same source, by position or by name."""
    ours, theirs = list(_values(graph)), list(_values(other))
    if [op.name for op in walk(graph)] == [op.name for op in walk(other)]:
        return dict(zip(ours, theirs, strict=True))
    named = {value.name: value for value in theirs if value.name}
    twins = {value: named[value.name] for value in ours if value.name in named}
    pairs = zip(graph.outputs, other.outputs)
    return {**twins, **{ours: theirs for ours, theirs in pairs if ours.op is not None}}


def _drop_wrong(
    texts: Mapping[Value, list[str | None]],
    expected: Mapping[Value, Sequence[int]],
    twins: Mapping[Value, Value],
) -> None:
    """Replace expressions by None where they have another value than the graph of `twins`."""
    for value, twin in twins.items():
        row, shape = texts.get(value), twin.type.shape
        if row is None or shape is None:
            continue
        if len(row) != len(shape):
            row[:] = [None] * len(row)
        else:
            row[:] = [t if a == b else None for t, a, b in zip(row, expected[value], shape)]


def _values(graph: Graph) -> Iterator[Value]:
    """The inputs and the results of operations, also those in bodies."""
    yield from graph.inputs
    for op in walk(graph):
        yield from op.outputs
        for body in op.bodies:
            yield from body.inputs


def _replace_by_hints(graph: Graph) -> None:
    """Replace the SymInts of a graph by plain integers."""
    for value in _values(graph):
        if value.type.shape is not None and is_symbolic(value.type.shape):
            value.type = value.type.with_shape(hints_within(value.type.shape))
    for op in walk(graph):
        op.attributes = {name: hints_within(each) for name, each in op.attributes.items()}
