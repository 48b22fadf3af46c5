"""Symbols: extents of inputs that have a value only when the inputs are known.

An extent is written as an expression of integers and symbols: `S`, `2*S`, `S/2 + 1`, `P+S`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nnefc.errors import Diagnostic, NnefError, Place
from nnefc.syntax import ast
from nnefc.syntax.parser import parse_expression
from nnefc.syntax.printer import print_expression

EXTERNALS: Final = ("external", "tract_core_external")
"""Operators that introduce inputs."""

DECLARATIONS: Final = ("tract_symbol", "tract_pulse_streaming_symbol")
TRIED: Final = 20_000
"""Values that are tried where an extent is not linear in a symbol."""
LARGEST: Final = 1 << 63
"""Extents are below it."""
ASSERTION: Final = "tract_assert"


class NoValue(Exception):
    """An expression has no value: a symbol in it has none, or it is no arithmetic of integers."""


@dataclass(frozen=True, slots=True)
class Input:
    """A graph input as the document has it; an extent is an expression.

    `datum_type`: the name of its item type.
    """

    name: str
    place: Place
    extents: tuple[ast.Expression, ...]
    datum_type: str

    @property
    def written(self) -> tuple[str, ...]:
        """The extents as text: `1`, `2*S+1`."""
        return tuple(print_expression(e).replace(" ", "") for e in self.extents)

    def unlike(self, shape: Sequence[int], why: str) -> Diagnostic:
        """What is said if a shape that is given does not fit."""
        have = f"[{','.join(map(str, shape))}]"
        message = f"input '{self.name}' is [{','.join(self.written)}], but {have} is given: {why}"
        return Diagnostic("input/shape", message, self.place)


def declared(document: ast.Document) -> list[str]:
    """Symbols that the document declares."""
    names: list[str] = []
    for extension in document.extensions:
        kind = extension.names[0].name
        if kind in DECLARATIONS:
            listed = [n.name for n in extension.names[1:]] or extension.text.split()
            names += listed or (["S"] if kind != "tract_symbol" else [])
    return names


def inputs(document: ast.Document) -> Iterator[Input]:
    """The inputs of the graph whose shapes are written out, in the order of the body."""
    for statement in document.graph.body:
        call, target = statement.value, statement.target
        if not isinstance(target, ast.Identifier) or not isinstance(call, ast.Invocation):
            continue
        if call.name not in EXTERNALS:
            continue
        arguments = dict(
            zip(("shape", "datum_type"), (a.value for a in call.arguments if a.name is None))
        )
        arguments |= {a.name: a.value for a in call.arguments if a.name is not None}
        shape, datum = arguments.get("shape"), arguments.get("datum_type")
        name = call.dtype or "scalar"
        if isinstance(datum, ast.Literal_) and isinstance(datum.value, str):
            name = datum.value
        if isinstance(shape, ast.Array):
            yield Input(target.name, document.source.place(shape.at), shape.items, name)


def free_symbols(document: ast.Document) -> list[str]:
    """Symbols in the shapes of inputs, in the order of their first use."""
    return list(dict.fromkeys(n for each in inputs(document) for n in names_of(each.extents)))


def all_symbols(document: ast.Document) -> list[str]:
    """Symbols that the document declares, then others in the shapes of inputs."""
    return list(dict.fromkeys([*declared(document), *free_symbols(document)]))


def names_of(extents: Iterable[ast.Expression]) -> Iterator[str]:
    """The symbols in some extents."""
    for extent in extents:
        yield from _names(extent)


def _names(expression: ast.Expression) -> Iterator[str]:
    match expression:
        case ast.Identifier():
            yield expression.name
        case ast.Unary():
            yield from _names(expression.operand)
        case ast.Binary():
            yield from _names(expression.left)
            yield from _names(expression.right)
        case _:
            return


def extent_of(expression: ast.Expression, symbols: Mapping[str, int]) -> int:
    """The value of an extent; division is that of whole numbers.  Raises NoValue."""
    match expression:
        case ast.Literal_(value=int(value)):
            return int(value)
        case ast.Identifier(name=name) if name in symbols:
            return symbols[name]
        case ast.Unary(operator="-"):
            return -extent_of(expression.operand, symbols)
        case ast.Binary(operator=operator):
            left = extent_of(expression.left, symbols)
            right = extent_of(expression.right, symbols)
            match operator:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "/" if right:
                    return left // right
                case "<" | "<=" | ">" | ">=" | "==" | "!=":
                    return int(_compare(operator, left, right))
                case _:
                    raise NoValue
        case _:
            raise NoValue


def _compare(operator: str, left: int, right: int) -> bool:
    return {
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
        "==": left == right,
        "!=": left != right,
    }[operator]


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
            why = f"the rank is {len(each.extents)}, not {len(shapes[each.name])}"
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
    for each, axis, expression in pairs:
        extent = shapes[each.name][axis]
        names = dict.fromkeys(_names(expression))
        try:
            found = extent_of(expression, values)
        except NoValue:
            unknown = [name for name in names if name not in values]
            if len(unknown) == 1:
                why = f"no {unknown[0]} makes {each.written[axis]} {extent}"
                problems.append(each.unlike(shapes[each.name], why))
            continue
        if found != extent:
            known = " and ".join(
                f"{name} = {values[name]}"
                + (f" of input '{tellers[name]}'" if name in tellers else "")
                for name in names
            )
            why = f"axis {axis} is {found}, not {extent}{known and ', as '}{known}"
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
                extent if any(name not in values for name in _names(e)) else extent_of(e, values)
                for e, extent in zip(each.extents, shapes[each.name], strict=True)
            ]
    return found


def _solve(
    pairs: Sequence[tuple[Input, ast.Expression, int]], values: dict[str, int]
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


def _tells(
    pair: tuple[Input, ast.Expression, int], values: dict[str, int], tellers: dict[str, str]
) -> bool:
    """Whether an extent tells a symbol that was not known, which is added then."""
    each, expression, extent = pair
    unknown = {name for name in _names(expression) if name not in values}
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


def assertions(document: ast.Document) -> Iterable[tuple[ast.Extension, str]]:
    """What the document asserts of its symbols, as text."""
    for extension in document.extensions:
        if extension.names[0].name == ASSERTION:
            text = extension.text or " ".join(n.name for n in extension.names[1:])
            yield extension, text


def _broken_assertions(document: ast.Document, values: Mapping[str, int]) -> Iterator[Diagnostic]:
    for extension, text in assertions(document):
        if ":" in text:  # of a scenario, one of several, none of which has to be
            continue
        place = document.source.place(extension.at)
        try:
            expression = parse_expression(text)
        except NnefError:
            message = f"'{text}' is no assertion"
            yield Diagnostic("tract/assert", message, place, hint="for example: S >= 1")
            continue
        try:
            holds = extent_of(expression, values)
        except NoValue:
            continue
        if not holds:
            known = ", ".join(f"{n} = {values[n]}" for n in dict.fromkeys(_names(expression)))
            message = f"{text} does not hold: {known}"
            yield Diagnostic("tract/assert", message, place)
