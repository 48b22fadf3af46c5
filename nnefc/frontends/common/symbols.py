"""Symbols: extents of inputs that have a value only when the inputs are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nnefc.frontends.common.assumptions import (
    NoValue,
    SymbolicInput,
    assertion,
    assertions,
    extent_of,
    inputs,
    names_of,
    plain,
)
from nnefc.frontends.common.linear_equations import MOST, LinearSum, linear, solved
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.syntax import ast

TRIED: Final = 20_000
"""Values that are tried where an extent is not linear in a symbol."""
LARGEST: Final = 1 << 63
"""Extents are below it."""


def bind(
    document: ast.Document,
    shapes: Mapping[str, Sequence[int]],
    given: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Values of the symbols, of the `shapes` of inputs and of what is `given`.

    Raises NnefError with all contradictions: `tract/symbol`, `input/shape`, `tract/assert`.
    """
    values = dict(given or {})
    problems: list[Diagnostic] = []
    wanted = [each for each in inputs(document) if each.name in shapes]
    for each in wanted:
        if len(each.extents) != len(shapes[each.name]):
            why = f"the rank has to be {len(each.extents)}, not {len(shapes[each.name])}"
            problems.append(each.unlike(shapes[each.name], why))
        elif beyond := [extent for extent in shapes[each.name] if extent >= LARGEST]:
            why = f"{beyond[0]} does not fit in 64 bits"
            problems.append(each.unlike(shapes[each.name], why))
    if problems:
        raise NnefError(problems)
    pairs = [
        (each, axis, expression) for each in wanted for axis, expression in enumerate(each.extents)
    ]
    told = [(each, expression, shapes[each.name][axis]) for each, axis, expression in pairs]
    tellers = _solve(told, values)
    problems += _solve_together(told, values, tellers)
    for each, axis, expression in pairs:
        extent = shapes[each.name][axis]
        names = dict.fromkeys(names_of([expression]))
        try:
            found = extent_of(expression, values)
        except NoValue as reason:
            unknown = [name for name in names if name not in values]
            why = f"no {unknown[0]} makes {each.written[axis]} {extent}" if unknown else str(reason)
            if len(unknown) <= 1 and why:
                problems.append(each.unlike(shapes[each.name], why))
            continue
        if found != extent:
            known = " and ".join(
                f"{name} = {values[name]}"
                + (f" of input '{tellers[name]}'" if name in tellers else "")
                for name in names
            )
            why = f"axis {axis} has to be {found}, not {extent}{known and ', as '}{known}"
            problems.append(each.unlike(shapes[each.name], why))
    problems += _broken_assertions(document, values)
    if problems:
        raise NnefError(problems)
    return values


def evaluated(
    document: ast.Document, shapes: Mapping[str, Sequence[int]], values: Mapping[str, int]
) -> dict[str, Sequence[int]]:
    """The same `shapes` of inputs, with extents as they are computed of the `values`."""
    found = dict(shapes)
    for each in inputs(document):
        if each.name in shapes:
            found[each.name] = [
                extent_of(e, values) if all(name in values for name in names_of([e])) else extent
                for e, extent in zip(each.extents, shapes[each.name], strict=True)
            ]
    return found


def _solve(
    pairs: Sequence[tuple[SymbolicInput, ast.Expression, int]], values: dict[str, int]
) -> dict[str, str]:
    """Add the values that extents tell: those of which there is one first, since a quotient is
    that of several numbers, and one extent may tell a symbol of another one.

    Gives the names of the inputs that told them, by symbol.
    """
    tellers: dict[str, str] = {}
    exact = [pair for pair in pairs if not _divides(pair[1])]
    while any(_tells(pair, values, tellers) for pair in exact) or any(
        _tells(pair, values, tellers) for pair in pairs
    ):
        pass
    return tellers


def _solve_together(
    pairs: Sequence[tuple[SymbolicInput, ast.Expression, int]],
    values: dict[str, int],
    tellers: dict[str, str],
) -> Iterator[Diagnostic]:
    """Add the values that several extents tell together; what is wrong if there are none."""
    left: list[tuple[SymbolicInput, ast.Expression, int]] = []
    equations: list[tuple[LinearSum, int]] = []
    for each, expression, extent in pairs:
        found = linear(expression, values)
        if found is not None and len(found.factors) > 1:
            left.append((each, expression, extent))
            equations.append((found, extent))
    unknown = {name for found, _ in equations for name in found.factors}
    if not equations or max(len(unknown), len(equations)) > MOST:
        return
    answer = solved(equations)
    if answer is not None:
        values.update(answer)
        tellers.update(dict.fromkeys(answer, left[0][0].name) if len(left) == 1 else {})
        tellers.update(_solve(pairs, values))
        return
    for i in reversed(range(len(equations))):  # which of them contradict each other
        if solved(rest := equations[:i] + equations[i + 1 :]) is None:
            equations, left = rest, left[:i] + left[i + 1 :]
    names = ", ".join(dict.fromkeys(name for found, _ in equations for name in found.factors))
    first = left[0][0]
    parts = [
        f"{plain(expression)} {extent}" + (f" of input '{each.name}'" if each is not first else "")
        for each, expression, extent in left
    ]
    shape = [extent for each, _, extent in pairs if each is first]
    yield first.unlike(shape, f"no whole numbers {names} make {' and '.join(parts)}")


def _tells(
    pair: tuple[SymbolicInput, ast.Expression, int], values: dict[str, int], tellers: dict[str, str]
) -> bool:
    """Whether an extent tells a symbol that was not known, which is added then."""
    each, expression, extent = pair
    unknown = {name for name in names_of([expression]) if name not in values}
    if len(unknown) != 1:
        return False
    (name,) = unknown
    value = _solved(expression, name, extent, values)
    if value is None:
        return False
    values[name] = value
    tellers[name] = each.name
    return True


def _divides(expression: ast.Expression) -> bool:
    match expression:
        case ast.Unary():
            return _divides(expression.operand)
        case ast.Binary():
            return (
                expression.operator == "/"
                or _divides(expression.left)
                or _divides(expression.right)
            )
        case _:
            return False


def _solved(
    expression: ast.Expression, name: str, extent: int, values: Mapping[str, int]
) -> int | None:
    """The least value of a symbol, 0 or more, for which an expression has a value; None if there is
    none.

    Where it is not linear small values are tried.
    """
    if isinstance(expression, ast.Identifier):
        return extent

    def at(value: int) -> int:
        return extent_of(expression, {**values, name: value})

    try:
        first, slope = at(0), at(1) - at(0)
        if slope and at(TRIED) == first + TRIED * slope:  # linear
            candidates = [(extent - first) // slope]
        else:
            candidates = range(TRIED)
        return next((v for v in candidates if v >= 0 and at(v) == extent), None)
    except NoValue:
        return None


def _broken_assertions(document: ast.Document, values: Mapping[str, int]) -> Iterator[Diagnostic]:
    for extension, text in assertions(document):
        try:
            expression = assertion(text)
            holds = expression is None or extent_of(expression, values)
        except (NnefError, NoValue):  # the former has been told (`declarations`)
            continue
        if not holds and expression is not None:
            names = dict.fromkeys(names_of([expression]))
            known = ", ".join(f"{n} = {values[n]}" for n in names)
            message = f"{text} does not hold: {known}"
            yield Diagnostic("tract/assert", message, document.source.place(extension.at))
