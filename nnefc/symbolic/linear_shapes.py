"""Solves quickly for symbols where each extent is linear in them, such as 2*S + 1.

`LinearShapes.solve` answers for shapes that fit.  In all other cases, such as shapes that
contradict each other, the front end solves the equations and reports errors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from nnefc.support import value_inputs
from nnefc.support.value_inputs import ValueInput

Terms = tuple[int, tuple[tuple[str, int], ...]]
"""A constant, and the factors of symbols."""

_COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_LIMIT: Final = 1 << 63


class LinearShapes(NamedTuple):
    """The shapes of inputs, and assertions about symbols."""

    inputs: Mapping[str, tuple[Terms, ...]]
    assertions: Sequence[tuple[str, Terms, Terms]]
    """A comparison that must hold if its symbols have values, and its sides."""
    known: Mapping[str, int]
    """Values of symbols that are given."""
    items: Mapping[str, ValueInput] = MappingProxyType({})
    """The inputs whose values decide shapes."""

    def solve(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int] | None:
        """The values of the symbols with these shapes of inputs, without the known ones.

        None if the shapes do not fit, or if an extent by itself determines no symbol.
        """
        values = dict(self.known)
        for name, each in self.items.items():
            key = shapes.get(name, ())
            if name in shapes and each.fault(key):
                return None
            for symbol, item in zip(each.symbols(len(key)), key, strict=False):
                if values.setdefault(symbol, item) != item:
                    return None
        equations: list[tuple[Terms, int]] = []
        for name, extents in self.inputs.items():
            if name in shapes:
                if len(extents) != len(shapes[name]):
                    return None
                equations += zip(extents, shapes[name], strict=True)
        while any(_solve_one(terms, extent, values) for terms, extent in equations):
            pass
        for terms, extent in equations:
            if extent >= _LIMIT or value_of(terms, values) != extent:
                return None
        for sign, *sides in self.assertions:
            left, right = (value_of(terms, values) for terms in sides)
            if left is not None and right is not None and not _COMPARISONS[sign](left, right):
                return None
        return {n: v for n, v in values.items() if n not in self.known} if self.known else values


def value_of(terms: Terms, values: Mapping[str, int]) -> int | None:
    """The value of a sum; None if a symbol has none."""
    constant, factors = terms
    if any(name not in values for name, _ in factors):
        return None
    return constant + sum(factor * values[name] for name, factor in factors)


def _solve_one(terms: Terms, extent: int, values: dict[str, int]) -> bool:
    """Whether an extent determines a natural number for its only unknown symbol, which is added."""
    constant, factors = terms
    unknown = [(name, factor) for name, factor in factors if name not in values]
    if len(unknown) != 1:
        return False
    ((name, factor),) = unknown
    known = constant + sum(f * values[other] for other, f in factors if other != name)
    value, rest = divmod(extent - known, factor)
    if rest or value < 0:
        return False
    values[name] = value
    return True


def to_data(shapes: LinearShapes) -> Any:
    """The shapes as JSON data."""
    items = value_inputs.to_data(list(shapes.items.items()))
    return [list(shapes.inputs.items()), shapes.assertions, dict(shapes.known), items]


def from_data(data: Any) -> LinearShapes:
    """The shapes in JSON data; raises ValueError, TypeError or KeyError for other data."""
    inputs, assertions, known, items = data
    read = [(sign, _terms(left), _terms(right)) for sign, left, right in assertions]
    if any(sign not in _COMPARISONS for sign, _, _ in read):
        raise ValueError("an unknown comparison")
    return LinearShapes(
        {str(name): tuple(map(_terms, extents)) for name, extents in inputs},
        read,
        {str(name): int(value) for name, value in known.items()},
        value_inputs.from_data(items),
    )


def _terms(data: Any) -> Terms:
    constant, factors = data
    return int(constant), tuple(_factors(factors))


def _factors(data: Any) -> Iterator[tuple[str, int]]:
    for name, factor in data:
        if not int(factor):
            raise ValueError("a factor of 0")
        yield str(name), int(factor)
