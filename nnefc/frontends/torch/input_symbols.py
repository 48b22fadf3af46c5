"""Symbols of the inputs of a program: each is an extent or a number of the call.

Graphs of Dynamo take tensors of shapes such as `[2*s0*s1]`, and numbers that no shape tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from nnefc.frontends.torch.program import Input, InputKind

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SUM: Final = re.compile(r"[\w\s+*-]+")
"""Sums of products of symbols and numbers."""


def numbers_as_values(inputs: Iterable[Input]) -> Iterator[Input]:
    """The inputs of an exported program, in which numbers that are symbols are values of a call."""
    for each in inputs:
        is_symbol = each.kind is InputKind.NUMBER and _NAME.fullmatch(each.extents[0])
        yield replace(each, kind=InputKind.VALUE) if is_symbol else each


def with_own_symbols(inputs: Sequence[Input]) -> list[Input]:
    """Inputs in which each symbol is an extent of a shape, or a number of the call.

    Expressions of other symbols become symbols of their own, one for equal expressions.
    """
    known = {e for each in inputs for e in _extents(each) if _NAME.fullmatch(e)}
    known.update(each.extents[0] for each in inputs if each.kind is InputKind.VALUE)
    new: dict[str, str] = {}

    def named(expression: str) -> str:
        """An expression of known symbols, or the symbol that stands for it."""
        if expression.isdecimal() or _is_known(expression, known):
            return expression
        return new.setdefault(expression, f"extent_{len(new)}")

    shaped = [
        replace(each, extents=tuple(map(named, each.extents)))
        if each.kind is InputKind.USER
        else each
        for each in inputs
    ]
    known.update(new.values())
    return list(_with_values(shaped, known, new))


def _extents(each: Input) -> Iterable[str]:
    return each.extents if each.kind is InputKind.USER else ()


def _is_known(expression: str, known: set[str]) -> bool:
    """Whether the shapes determine an expression."""
    is_sum = _SUM.fullmatch(expression) and "**" not in expression
    return bool(is_sum) and known.issuperset(_NAME.findall(expression))


def _with_values(inputs: Sequence[Input], known: set[str], new: dict[str, str]) -> Iterator[Input]:
    """The inputs; numbers that no shape determines are those of a call."""
    for each in inputs:
        if each.kind is not InputKind.NUMBER:
            yield each
            continue
        expression = new.get(each.extents[0], each.extents[0])
        if _is_known(expression, known):
            yield replace(each, extents=(expression,))
            continue
        symbol = expression if _NAME.fullmatch(expression) else f"number_{each.name}"
        known.add(symbol)
        new[expression] = symbol
        yield replace(each, kind=InputKind.VALUE, extents=(symbol,))
