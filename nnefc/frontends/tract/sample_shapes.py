"""Sample shapes of a document: small values of its symbols that its assertions allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, product
from typing import Final

from nnefc.frontends.common import assumptions, symbols
from nnefc.support.errors import Diagnostic, NnefError, Place
from nnefc.syntax import ast

VALUES: Final = (4, 8, 2, 16, 3, 1, 6, 32, 12, 64, 5, 7, 128, 10, 0, 256, 1024)
"""Sample values; at first all symbols get the same one."""
COMBINATIONS: Final = 20_000


def sample_shapes(
    document: ast.Document, given: Mapping[str, int] | None = None
) -> Iterator[tuple[dict[str, tuple[int, ...]], dict[str, int]]]:
    """Shapes of the inputs for which all assertions hold and no extent is below 1, with the values
    of the symbols.

    `given`: values that symbols must have.  Yields at least one pair; raises NnefError
    `tract/symbol` if none is found.
    """
    free = [name for name in assumptions.free_symbols(document) if name not in (given or {})]
    found = False
    for tried in _combinations(free):
        values = {**tried, **(given or {})}
        shapes = shapes_with(document, values)
        if shapes is None:
            continue
        try:
            told = symbols.bind(document, shapes)
        except NnefError:
            continue
        found = True
        yield shapes, {**values, **told}
    if not found:
        raise NnefError([_impossible(document, free, given or {})])


@dataclass(frozen=True, slots=True)
class _Constraint:
    """What values of symbols have to do; `fulfilled`: with which of those that were tried, as bits.

    `why`: why there is none, if it has no value at all.
    """

    text: str
    place: Place
    fulfilled: int
    why: str = ""


def _impossible(
    document: ast.Document, free: Sequence[str], given: Mapping[str, int]
) -> Diagnostic:
    """What is said if no values fulfil all demands: those of them that contradict each other."""
    tried = [{**values, **given} for values in _combinations(free)]
    demands = [
        _constraint(f"{text} >= 1 of input '{each.name}'", each.place, extent, tried)
        for each in assumptions.inputs(document)
        for text, extent in zip(each.written, each.extents, strict=True)
    ]
    for extension, text in assumptions.assertions(document):
        expression = assumptions.assertion(text)
        if expression is not None:
            place = document.source.place(extension.at)
            demands.append(_constraint(text, place, expression, tried))
    for one in list(demands):
        others = [demand for demand in demands if demand is not one]
        if not _together(others, tried):
            demands = others
    noun = "the symbol" if len(free) == 1 else "the symbols"
    message = f"no small values of {noun} {', '.join(free)} "
    if _together(demands, tried):  # none contradict each other: a quotient tells another value
        message += "make the shapes of all inputs possible"
        return Diagnostic("tract/symbol", message, hint="give the shapes of the inputs")
    listed = " and ".join(
        f"{demand.text} (line {demand.place.line}{demand.why and ': '}{demand.why})"
        for demand in demands
    )
    return Diagnostic(
        "tract/symbol", f"{message}fulfil {listed}", demands[0].place, hint="mend one of them, or "
        "give the shapes of the inputs"
    )  # fmt: skip


def _constraint(
    text: str,
    place: Place,
    expression: ast.Expression,
    tried: Sequence[Mapping[str, int]],
) -> _Constraint:
    """Of an expression that has to be 1 or more, as truth is."""
    fulfilled, why = 0, ""
    for i, values in enumerate(tried):
        try:
            fulfilled |= (assumptions.extent_of(expression, values) >= 1) << i
        except assumptions.NoValue as reason:
            why = str(reason)
    return _Constraint(text, place, fulfilled, "" if fulfilled else why)


def _together(demands: Sequence[_Constraint], tried: Sequence[object]) -> bool:
    """Whether something that was tried fulfils all demands."""
    left = (1 << len(tried)) - 1
    for demand in demands:
        left &= demand.fulfilled
    return left != 0


def shapes_with(
    document: ast.Document, values: Mapping[str, int]
) -> dict[str, tuple[int, ...]] | None:
    """Shapes of the inputs that are written out; None if an extent has no value, or is below 1."""
    try:
        shapes = {
            each.name: tuple(assumptions.extent_of(extent, values) for extent in each.extents)
            for each in assumptions.inputs(document)
        }
    except assumptions.NoValue:
        return None
    extents = chain.from_iterable(shapes.values())
    return shapes if all(extent > 0 for extent in extents) else None


def _combinations(names: Sequence[str]) -> Iterator[dict[str, int]]:
    for value in VALUES:
        yield dict.fromkeys(names, value)
    for values in islice(product(VALUES, repeat=len(names)), COMBINATIONS):
        yield dict(zip(names, values, strict=True))
