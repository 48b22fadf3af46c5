"""Bind symbols: solve for their values from the shapes of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from nnefc.frontends.common.extents import (
    COMPARISONS,
    NoValue,
    assertion,
    extent_of,
    extent_text,
    names_of,
)
from nnefc.frontends.common.linear_equations import MAX_SIZE, LinearSum, linear, solved
from nnefc.frontends.common.signature import Signature, SymbolicInput
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.symbolic.linear_shapes import LinearShapes, Terms
from nnefc.syntax import ast

MAX_TRIED: Final = 20_000
"""Values to try where an extent is not linear in a symbol."""
EXTENT_LIMIT: Final = 1 << 63
"""Extents are smaller."""


def bind(
    signature: Signature,
    shapes: Mapping[str, Sequence[int]],
    known: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """The `known` values of symbols, and those that the `shapes` of inputs determine.

    Raises NnefError with all contradictions: `input/symbol`, `input/shape`, `tract/assert`.
    """
    values = dict(known or {})
    problems = list(_bind_items(signature, shapes, values))
    wanted = [each for each in signature.shaped.inputs if each.name in shapes]
    for each in wanted:
        if len(each.extents) != len(shapes[each.name]):
            reason = f"the rank has to be {len(each.extents)}, not {len(shapes[each.name])}"
            problems.append(each.mismatch(shapes[each.name], reason))
        elif beyond := [extent for extent in shapes[each.name] if extent >= EXTENT_LIMIT]:
            reason = f"{beyond[0]} does not fit in 64 bits"
            problems.append(each.mismatch(shapes[each.name], reason))
    if problems:
        raise NnefError(problems)
    pairs = [
        (each, axis, expression) for each in wanted for axis, expression in enumerate(each.extents)
    ]
    equations = [(each, expression, shapes[each.name][axis]) for each, axis, expression in pairs]
    sources = _solve(equations, values)
    problems += _solve_together(equations, values, sources)
    for each, axis, expression in pairs:
        extent = shapes[each.name][axis]
        names = dict.fromkeys(names_of([expression]))
        try:
            expected = extent_of(expression, values)
        except NoValue as error:
            unknown = [name for name in names if name not in values]
            reason = str(error)
            if unknown:
                reason = f"no {unknown[0]} makes {each.written[axis]} {extent}"
            if len(unknown) <= 1 and reason:
                problems.append(each.mismatch(shapes[each.name], reason))
            continue
        if expected != extent:
            listed = " and ".join(
                f"{name} = {values[name]}"
                + (f" of input '{sources[name]}'" if name in sources else "")
                for name in names
            )
            reason = f"axis {axis} has to be {expected}, not {extent}{listed and ', as '}{listed}"
            problems.append(each.mismatch(shapes[each.name], reason))
    problems += _broken_assertions(signature, values)
    if problems:
        raise NnefError(problems)
    return values


def _bind_items(
    signature: Signature, shapes: Mapping[str, Sequence[int]], values: dict[str, int]
) -> Iterator[Diagnostic]:
    """Add the items of inputs whose values decide shapes to `values`; contradictions."""
    for each in signature.inputs:
        key = shapes.get(each.name)
        if each.values is None or key is None:
            continue
        if fault := each.values.fault(key):
            text = f"values of input '{each.name}': {fault}"
            yield Diagnostic("input/shape", text, each.place)
            continue
        for name, item in zip(each.values.symbols(len(key)), key, strict=True):
            if values.setdefault(name, item) != item:
                message = f"input '{each.name}' is {each.values.text(key)}, but {name} = "
                message += f"{values[name]} is given"
                yield Diagnostic("input/symbol", message, each.place)


def impossible_extents(
    signature: Signature, shapes: Mapping[str, Sequence[int]], values: Mapping[str, int]
) -> Iterator[Diagnostic]:
    """The errors `input/shape` of extents that are negative, or do not fit in 64 bits.

    Those of the inputs without `shapes`, where the `values` of symbols determine them.
    """
    for each in signature.shaped.inputs:
        if each.name in shapes:
            continue
        for axis, expression in enumerate(each.extents):
            try:
                extent = extent_of(expression, values)
            except NoValue:
                continue
            if 0 <= extent < EXTENT_LIMIT:
                continue
            names = [n for n in dict.fromkeys(names_of([expression])) if n != each.written[axis]]
            listed = " and ".join(f"{name} = {values[name]}" for name in names)
            reason = "is negative" if extent < 0 else "does not fit in 64 bits"
            message = f"axis {axis} of input '{each.name}' is {each.written[axis]} = {extent}"
            message += f"{listed and ' for '}{listed}, which {reason}"
            yield Diagnostic("input/shape", message, each.place)


def evaluated_shapes(
    signature: Signature, shapes: Mapping[str, Sequence[int]], values: Mapping[str, int]
) -> dict[str, Sequence[int]]:
    """The `shapes` of inputs, with symbolic extents computed from `values` where possible."""
    evaluated = dict(shapes)
    for each in signature.inputs:
        if each.name in shapes and each.values is not None:
            key = shapes[each.name]
            names = each.values.symbols(len(key))
            evaluated[each.name] = [values.get(n, x) for n, x in zip(names, key, strict=True)]
        elif each.name in shapes:
            evaluated[each.name] = [
                extent_of(e, values) if all(name in values for name in names_of([e])) else extent
                for e, extent in zip(each.extents, shapes[each.name], strict=True)
            ]
    return evaluated


def linear_shapes(signature: Signature, known: Mapping[str, int]) -> LinearShapes | None:
    """The shapes of the inputs and the assertions; None if some are not linear in the symbols.

    Also None if a known symbol is 0: its products with others do not determine these.
    """
    if 0 in known.values():
        return None
    shapes = {
        each.name: tuple(_terms(extent, known) for extent in each.extents)
        for each in signature.shaped.inputs
    }
    conditions: list[tuple[str, Terms, Terms]] = []
    for stated in signature.assertions:
        try:
            expression = assertion(stated.text)
        except NnefError:  # reported by `check_declarations`
            continue
        match expression:
            case None:
                continue
            case ast.Binary(operator=sign) if sign in COMPARISONS:
                sides = _terms(expression.left, known), _terms(expression.right, known)
                if None in sides:
                    return None
                conditions.append(cast("tuple[str, Terms, Terms]", (sign, *sides)))
            case _:
                return None
    if any(None in extents for extents in shapes.values()):
        return None
    extents = cast("dict[str, tuple[Terms, ...]]", shapes)
    return LinearShapes(extents, conditions, known, signature.value_inputs)


def _terms(expression: ast.Expression, known: Mapping[str, int]) -> Terms | None:
    terms = linear(expression, known)
    return terms and (terms.constant, tuple(terms.factors.items()))


Equation = tuple[SymbolicInput, ast.Expression, int]
"""An extent of an input as an expression, and its number."""


def _solve(equations: Sequence[Equation], values: dict[str, int]) -> dict[str, str]:
    """Add the symbols that single extents determine to `values`; their inputs by symbol.

    Extents without a division come first: a quotient has several solutions, and a value from
    one extent may determine another one.
    """
    sources: dict[str, str] = {}
    exact = [each for each in equations if not _divides(each[1])]
    while any(_solve_one(each, values, sources) for each in exact) or any(
        _solve_one(each, values, sources) for each in equations
    ):
        pass
    return sources


def _solve_together(
    equations: Sequence[Equation], values: dict[str, int], sources: dict[str, str]
) -> Iterator[Diagnostic]:
    """Add the symbols that several extents determine together; an error if they contradict."""
    extents: list[Equation] = []
    system: list[tuple[LinearSum, int]] = []
    for each, expression, extent in equations:
        terms = linear(expression, values)
        if terms is not None and len(terms.factors) > 1:
            extents.append((each, expression, extent))
            system.append((terms, extent))
    unknown = {name for terms, _ in system for name in terms.factors}
    if not system or max(len(unknown), len(system)) > MAX_SIZE:
        return
    answer = solved(system)
    if answer is not None:
        values.update(answer)
        sources.update(dict.fromkeys(answer, extents[0][0].name) if len(extents) == 1 else {})
        sources.update(_solve(equations, values))
        return
    for i in reversed(range(len(system))):  # reduce to equations that contradict each other
        if solved(rest := system[:i] + system[i + 1 :]) is None:
            system, extents = rest, extents[:i] + extents[i + 1 :]
    names = ", ".join(dict.fromkeys(name for terms, _ in system for name in terms.factors))
    first = extents[0][0]
    listed = [
        f"{extent_text(expression)} {extent}"
        + (f" of input '{each.name}'" if each is not first else "")
        for each, expression, extent in extents
    ]
    shape = [extent for each, _, extent in equations if each is first]
    yield first.mismatch(shape, f"no whole numbers {names} make {' and '.join(listed)}")


def _solve_one(equation: Equation, values: dict[str, int], sources: dict[str, str]) -> bool:
    """Whether an extent determines a new symbol, which is added to `values`."""
    each, expression, extent = equation
    unknown = {name for name in names_of([expression]) if name not in values}
    if len(unknown) != 1:
        return False
    (name,) = unknown
    value = _least_solution(expression, name, extent, values)
    if value is None:
        return False
    values[name] = value
    sources[name] = each.name
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


def _least_solution(
    expression: ast.Expression, name: str, extent: int, values: Mapping[str, int]
) -> int | None:
    """The least natural number for a symbol with which an expression is `extent`, or None.

    If the expression is not linear, small values are tried.
    """
    if isinstance(expression, ast.Identifier):
        return extent

    def at(value: int) -> int:
        return extent_of(expression, {**values, name: value})

    try:
        first, slope = at(0), at(1) - at(0)
        if slope and at(MAX_TRIED) == first + MAX_TRIED * slope:  # linear
            candidates = [(extent - first) // slope]
        else:
            candidates = range(MAX_TRIED)
        return next((v for v in candidates if v >= 0 and at(v) == extent), None)
    except NoValue:
        return None


def _broken_assertions(signature: Signature, values: Mapping[str, int]) -> Iterator[Diagnostic]:
    for stated in signature.assertions:
        try:
            expression = assertion(stated.text)
            holds = expression is None or extent_of(expression, values)
        except (NnefError, NoValue):  # NnefError: reported by `check_declarations`
            continue
        if not holds and expression is not None:
            names = dict.fromkeys(names_of([expression]))
            known = ", ".join(f"{n} = {values[n]}" for n in names)
            message = f"{stated.text} does not hold: {known}"
            yield Diagnostic("tract/assert", message, stated.place)
