"""Extents as expressions of integers and symbols: `S`, `2*S`, `S/2 + 1`, `P+S`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from nnefc.syntax import ast
from nnefc.syntax.parser import parse_expression
from nnefc.syntax.printer import print_expression

COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class NoValue(Exception):
    """An expression has no value: a symbol in it has none, or it is not integer arithmetic.

    The message gives the reason; it is empty for functions, which only the body evaluates.
    """


def extent_text(extent: ast.Expression) -> str:
    """An extent as text, without spaces, but for those in the name of a symbol."""
    if isinstance(extent, ast.Identifier):  # no expression has names with spaces
        return extent.name
    return print_expression(extent).replace(" ", "")


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


@lru_cache(maxsize=256)
def assertion(text: str) -> ast.Expression | None:
    """The expression of an assertion; None for that of a scenario, which need not hold.

    Raises NnefError for a syntax error.
    """
    return None if ":" in text else parse_expression(text)
