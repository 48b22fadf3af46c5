"""Extents of graphs as expressions of symbols."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final

from nnefc.frontends.common.graph_source import (
    MAX_SAMPLES,
    GraphSource,
    SampleGraph,
    Shapes,
    sample_graph,
)
from nnefc.frontends.common.symbolic_graph import MAX_TRACES, TYPICAL
from nnefc.ir import Graph
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError
from nnefc.support.names import unused_name
from nnefc.support.wording import wording
from nnefc.symbolic.expressions import expressions
from nnefc.symbolic.integers import SymInt, Trace
from nnefc.symbolic.straight_line import Function, StraightLine
from nnefc.symbolic.sym_int_base import Untraceable

MAX_COMPARED: Final = 4
"""Sample values of symbols for which a graph must be the same."""
_PROBES: Final = (*range(2, 34), *(n + i for n in (64, 256, 1024, 1 << 16) for i in (-1, 0, 1)))
"""Values of a symbol for which a model must not decide otherwise; 1 often broadcasts."""
_OTHER = re.compile(r"[^A-Za-z0-9_]")
_CALL = re.compile(r"\b(?:min|max|ceil|floor|round|abs)\(|%")
"""What expressions of the dialect do not have."""


class NoText(Exception):
    """A number depends on symbols in a way that has no expression; the message says how."""


class Extents:
    """The texts of the numbers of a graph, which may depend on symbols."""

    def __init__(
        self,
        trace: Trace | None = None,
        symbols: Mapping[str, str] | None = None,
        decisive: Callable[[], list[str]] = list,
    ) -> None:
        """`symbols`: the symbols of the trace, in order, with their names in the document.

        `decisive`: tells the symbols whose values decide about the graph of the trace.
        """
        self._trace = trace
        self.decisive = decisive
        self._names = symbols or {}
        self._texts: dict[str, str] = {}

    @property
    def symbols(self) -> list[str]:
        """The names of the symbols in the document."""
        return list(self._names.values())

    def program(self, number: SymInt) -> StraightLine:
        """The program that computes a number from the symbols."""
        assert self._trace is not None
        return self._trace.program([number])

    def require_open(self) -> None:
        """Raise NnefError `flatten/symbol` for symbols whose values decided about the graph."""
        if wrong := self.decisive():
            raise _needs_values(wrong)

    def text(self, number: Any) -> str:
        """The text of an integer, or of a real number; raises NoText."""
        if not isinstance(number, SymInt):
            return repr(float(number)) if isinstance(number, float) else str(int(number))
        if number.name not in self._texts:
            self._texts[number.name] = self._expression(number)
        return self._texts[number.name]

    def _expression(self, number: SymInt) -> str:
        assert self._trace is not None
        (text,) = expressions(self._trace.program([number]), self.symbols)
        if text is None or _CALL.search(text):
            what = "a table" if text is None else text
            raise NoText(f"a number that depends on symbols by {what}")
        return text.replace("//", "/")  # division of integers truncates in the dialect


def require_values(source: GraphSource, shapes: Shapes) -> None:
    """Raise NnefError for inputs whose values decide shapes, and are not given."""
    problems = [
        Diagnostic(
            "flatten/value",
            f"the values of input '{name}' decide what the model computes; a document has them"
            " as constants",
            hint=wording(f"shapes={{{name!r}: VALUES}}", f"--shape {name}=VALUES") + " gives them",
        )
        for name in source.value_inputs
        if name not in shapes
    ]
    if problems:
        raise NnefError(problems)


def symbolic_form(
    source: GraphSource, shapes: Shapes, diagnostics: Diagnostics
) -> tuple[Graph, Extents]:
    """The graph of a source whose extents are symbolic where the shapes leave them open.

    The graph is the same for other extents, of some for which the model has been tried.
    Raises NnefError `flatten/symbol` that names the symbols which must have a value.
    """
    if not source.unbound(shapes):
        return source.graph(shapes, diagnostics), Extents()
    samples = list(_samples(source, shapes))
    if not samples:
        return sample_graph(source, shapes, diagnostics).graph, Extents()
    wrong: list[str] = []
    for sample in samples[:MAX_TRACES]:
        graph, trace = _traced(source, sample)
        wrong = _decisive(trace, sample, samples)
        if not wrong and (wrong := _limiting(source, shapes, trace, sample)):
            graph, trace = _traced(source, sample, computes_limits=True)
            wrong = _decisive(trace, sample, samples)
        if not wrong:
            sample_graph(source, sample.shapes, diagnostics)  # for its warnings
            decisive = partial(_decisive, trace, sample, samples)
            return graph, Extents(trace, _identifiers(sample.values), decisive)
    raise _needs_values(wrong)


def _needs_values(names: Sequence[str]) -> NnefError:
    listed = ", ".join(f"'{name}'" for name in names)
    message = f"what the model computes depends on symbols: {listed}"
    options = " ".join(f"--symbol {name}=VALUE" for name in names)
    return NnefError.of("flatten/symbol", message, hint=f"give values to them: {options}")


def _samples(source: GraphSource, shapes: Shapes) -> Iterator[SampleGraph]:
    """Graphs for sample values of the symbols, the typical ones first."""
    names = source.unbound(shapes)
    tried = list(islice(source.sample_shapes(shapes), MAX_SAMPLES))
    tried.sort(key=lambda each: _distance(each[1][name] for name in names))
    found = 0
    for sample, every in tried:
        values = {name: every[name] for name in names}
        if found == MAX_COMPARED:
            return
        if min(values.values()) > 1:
            with suppress(NnefError):
                yield SampleGraph(source.graph(sample), sample, values)
                found += 1


def _distance(values: Iterable[int]) -> float:
    """The distance of the least value from `TYPICAL`, as a ratio."""
    least = max(min(values), 1)
    return max(least / TYPICAL, TYPICAL / least)


def _traced(
    source: GraphSource, sample: SampleGraph, *, computes_limits: bool = False
) -> tuple[Graph, Trace]:
    """The graph of a source for symbolic integers; raises NnefError if they have no trace."""
    trace = Trace(computes_limits=computes_limits)
    lifted = {
        **source.symbol_values(sample.shapes),
        **{name: trace.symbol(value) for name, value in sample.values.items()},
    }
    try:
        return source.graph(sample.shapes, lifted=lifted), trace
    except (Untraceable, NnefError) as error:
        listed = ", ".join(sample.values)
        message = f"the model cannot be written with the symbols {listed}: {error}"
        raise NnefError.of("flatten/symbol", message, hint="--symbol gives them values") from None


def _decisive(trace: Trace, sample: SampleGraph, samples: Sequence[SampleGraph]) -> list[str]:
    """The symbols whose values decide about the graph of a trace."""
    names = list(sample.values)
    fails = _failing(trace.decisions(), names)
    probed = ((name, {**sample.values, name: n}) for name in names for n in _PROBES)
    if decided := dict.fromkeys(name for name, values in probed if fails(values)):
        return list(decided)
    guards = trace.function([])

    def holds(values: Mapping[str, int]) -> bool:
        try:
            return guards(*(values[name] for name in names)) is not None
        except (ArithmeticError, ValueError):
            return False

    others = [each.values for each in samples if each is not sample]
    agree = [values for values in others if holds(values)]
    # extents computed from small samples may be 1, which takes other guards, but not operations
    is_smaller = [all(x <= sample.values[name] for name, x in v.items()) for v in others]
    if agree and all(v in agree or small for v, small in zip(others, is_smaller, strict=True)):
        return []
    # a sample that differs in one symbol may be impossible, but its guards can be evaluated
    alone = [
        name
        for name in names
        if not any(holds({**sample.values, name: sample.values[name] * n}) for n in (2, 3))
    ]
    return alone or ([] if not others else names)


def _failing(guards: Function, names: Sequence[str]) -> Callable[[Mapping[str, int]], bool]:
    """Whether guards fail for values of the symbols; what cannot be computed is no failure."""

    def fails(values: Mapping[str, int]) -> bool:
        try:
            return guards(*(values[name] for name in names)) is None
        except (ArithmeticError, ValueError):
            return False

    return fails


def _limiting(source: GraphSource, shapes: Shapes, trace: Trace, sample: SampleGraph) -> list[str]:
    """The symbols that limit bounds otherwise than in the trace, such as the end of x[:, :512].

    Values for which the model cannot run do not count: those of a symbol alone, of all symbols
    that are equal in the sample, or of all.
    """
    names = list(sample.values)
    fails = _failing(trace.limits(), names)

    def is_possible(values: Mapping[str, int]) -> bool:
        try:
            narrowed = source.with_symbols({**source.given, **values})
            narrowed.graph({**narrowed.determined(), **shapes})
        except NnefError:
            return False
        return True

    def limits(name: str, value: int) -> bool:
        alone = {**sample.values, name: value}
        if not fails(alone):
            return False
        own = sample.values[name]
        equal = {each: value if n == own else n for each, n in sample.values.items()}
        scaled = {each: max(n * value // own, 1) for each, n in sample.values.items()}
        tried = [alone, *(each for each in (equal, scaled) if each != alone and fails(each))]
        return any(map(is_possible, tried))

    return [name for name in names if any(limits(name, n) for n in _PROBES)]


def _identifiers(names: Mapping[str, int]) -> dict[str, str]:
    """Different identifiers for symbols."""
    written: dict[str, str] = {}
    for name in names:
        plain = _OTHER.sub("_", name)
        plain = plain if plain[:1].isalpha() else f"s{plain}"
        written[name] = unused_name(plain, written.values())
    return written
