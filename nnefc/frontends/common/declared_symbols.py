"""The symbols of a document: declarations, symbolic extents of inputs, assertions.

An extent is an expression of integers and symbols: `S`, `2*S`, `S/2 + 1`, `P+S`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from nnefc.support.errors import Diagnostic, Place
from nnefc.syntax import ast
from nnefc.syntax.parser import parse_expression
from nnefc.syntax.printer import print_expression

EXTERNALS: Final = ("external", "tract_core_external")
"""Operators that introduce inputs."""

DECLARATIONS: Final = ("tract_symbol", "tract_pulse_streaming_symbol")
COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
ASSERTION: Final = "tract_assert"


class NoValue(Exception):
    """An expression has no value: a symbol in it has none, or it is not integer arithmetic.

    The message gives the reason; it is empty for functions, which only the body evaluates.
    """


@dataclass(frozen=True, slots=True)
class SymbolicInput:
    """A graph input with extents as expressions; `datum_type`: the name of its item type."""

    name: str
    place: Place
    extents: tuple[ast.Expression, ...]
    datum_type: str

    @property
    def written(self) -> tuple[str, ...]:
        """The extents as text: `1`, `2*S+1`."""
        return tuple(map(extent_text, self.extents))

    def mismatch(self, shape: Sequence[int], reason: str) -> Diagnostic:
        """The error `input/shape` of a `shape` that does not fit this input."""
        actual = f"[{','.join(map(str, shape))}]"
        declared = f"[{','.join(self.written)}]"
        message = f"input '{self.name}' is {declared}, but {actual} is given: {reason}"
        return Diagnostic("input/shape", message, self.place)


def extent_text(extent: ast.Expression) -> str:
    """An extent as text, without spaces."""
    return print_expression(extent).replace(" ", "")


def declarations(document: ast.Document) -> Iterator[tuple[ast.Extension, list[str]]]:
    """The extensions that declare symbols, and the names that each declares."""
    for extension in document.extensions:
        kind = extension.names[0].name
        if kind in DECLARATIONS:
            listed = [n.name for n in extension.names[1:]] or extension.text.split()
            yield extension, listed or (["S"] if kind != "tract_symbol" else [])


def declared(document: ast.Document) -> list[str]:
    """Symbols that the document declares."""
    return list(dict.fromkeys(name for _, names in declarations(document) for name in names))


def externals(document: ast.Document) -> Iterator[tuple[ast.Identifier, ast.Invocation]]:
    """The statements that introduce inputs, in the order of the body."""
    for statement in document.graph.body:
        call, target = statement.value, statement.target
        if not isinstance(target, ast.Identifier) or not isinstance(call, ast.Invocation):
            continue
        if call.name in EXTERNALS:
            yield target, call


def inputs(document: ast.Document) -> Iterator[SymbolicInput]:
    """The inputs of the graph that have an array as their shape, in the order of the body."""
    for target, call in externals(document):
        arguments = dict(
            zip(("shape", "datum_type"), (a.value for a in call.arguments if a.name is None))
        )
        arguments |= {a.name: a.value for a in call.arguments if a.name is not None}
        shape, datum = arguments.get("shape"), arguments.get("datum_type")
        name = call.dtype or "scalar"
        if isinstance(datum, ast.Literal_) and isinstance(datum.value, str):
            name = datum.value
        if isinstance(shape, ast.Array):
            yield SymbolicInput(target.name, document.source.place(shape.at), shape.items, name)


def free_symbols(document: ast.Document) -> list[str]:
    """Symbols in the shapes of inputs, in the order of their first use."""
    return list(dict.fromkeys(n for each in inputs(document) for n in names_of(each.extents)))


def all_symbols(document: ast.Document) -> list[str]:
    """Symbols that the document declares, then others in the shapes of inputs."""
    return list(dict.fromkeys([*declared(document), *free_symbols(document)]))


def names_of(extents: Iterable[ast.Expression]) -> Iterator[str]:
    """The symbols in some extents."""
    for extent in extents:
        yield from (node.name for node in identifiers(extent))


def identifiers(extent: ast.Expression) -> Iterator[ast.Identifier]:
    """The symbols in an extent, from left to right."""
    for node, _ in _nodes(extent):
        if isinstance(node, ast.Identifier):
            yield node


def depth(extent: ast.Expression) -> int:
    """How deep the operations of an extent nest."""
    return max(level for _, level in _nodes(extent))


def _nodes(extent: ast.Expression) -> Iterator[tuple[ast.Expression, int]]:
    """The nodes of an extent with their depth.

    This is no recursion, because it measures the depth before others recurse.
    """
    pending = [(extent, 0)]
    while pending:
        node, level = pending.pop()
        yield node, level
        match node:
            case ast.Unary():
                pending.append((node.operand, level + 1))
            case ast.Binary():
                pending += [(node.right, level + 1), (node.left, level + 1)]
            case _:
                pass


def extent_of(expression: ast.Expression, symbols: Mapping[str, int]) -> int:
    """The value of an extent; division rounds down.  Raises NoValue."""
    match expression:
        case ast.Literal_(value=int(value)):
            return int(value)
        case ast.Identifier(name=name) if name in symbols:
            return symbols[name]
        case ast.Unary(operator="-"):
            return -extent_of(expression.operand, symbols)
        case ast.Binary(operator=sign):
            left = extent_of(expression.left, symbols)
            right = extent_of(expression.right, symbols)
            match sign:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "/" if right:
                    return left // right
                case "/":
                    raise NoValue("a division by 0")
                case _ if sign in COMPARISONS:
                    return int(COMPARISONS[sign](left, right))
                case _:
                    raise NoValue(f"'{sign}' is no operator of whole numbers")
        case ast.Identifier(name=name):
            raise NoValue(f"'{name}' has no value")
        case ast.Invocation():
            raise NoValue
        case _:
            raise NoValue(f"'{print_expression(expression)}' is no whole number or symbol")


def assertions(document: ast.Document) -> Iterable[tuple[ast.Extension, str]]:
    """The assertions of the document about its symbols, as text."""
    for extension in document.extensions:
        if extension.names[0].name == ASSERTION:
            text = extension.text or " ".join(n.name for n in extension.names[1:])
            yield extension, text


@lru_cache(maxsize=256)
def assertion(text: str) -> ast.Expression | None:
    """The expression of an assertion; None for that of a scenario, which need not hold.

    Raises NnefError for a syntax error.
    """
    return None if ":" in text else parse_expression(text)
