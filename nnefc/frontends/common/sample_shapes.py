"""Sample shapes of inputs: small values of its symbols that the assertions allow.

Of inputs whose values decide shapes, sample values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, product
from typing import Final, NamedTuple

from nnefc.frontends.common import bind_symbols
from nnefc.frontends.common.extents import NoValue, assertion, extent_of
from nnefc.frontends.common.signature import Signature
from nnefc.support.errors import Diagnostic, NnefError, Place
from nnefc.support.value_inputs import ValueInput
from nnefc.syntax import ast

VALUES: Final = (4, 8, 2, 16, 3, 1, 6, 32, 12, 64, 5, 7, 128, 10, 0, 256, 1024)
"""Sample values of a symbol; combinations in which all symbols are equal come first."""
COMBINATIONS: Final = 20_000
"""Combinations of different values that are tried at most."""


def sample_shapes(
    signature: Signature, given: Mapping[str, int] | None = None
) -> Iterator[tuple[dict[str, tuple[int, ...]], dict[str, int]]]:
    """Shapes of the inputs that satisfy all assertions, with the values of the symbols.

    All extents are at least 1.  `given`: values that symbols must have.  Yields at least one pair;
    raises NnefError `input/symbol` if no combination satisfies the assertions.
    """
    free = [name for name in signature.free_symbols if name not in (given or {})]
    is_possible = False
    for tried in _combinations(free):
        values = {**tried, **(given or {})}
        shapes = shapes_for(signature, values)
        if shapes is None:
            continue
        try:
            bound = bind_symbols.bind(signature, shapes)
        except NnefError:
            continue
        is_possible = True
        yield shapes, {**values, **bound}
    if not is_possible:
        raise NnefError([_impossible(signature, free, given or {})])


@dataclass(frozen=True, slots=True)
class _Constraint:
    """A condition on the symbols: an assertion, or that an extent is at least 1.

    `satisfied_by`: a bit mask over the combinations that were tried; `why`: why the expression has
    no value, if no combination satisfies it.
    """

    text: str
    place: Place
    satisfied_by: int
    why: str = ""


def _impossible(signature: Signature, free: Sequence[str], given: Mapping[str, int]) -> Diagnostic:
    """The error if no combination satisfies all constraints; it lists a minimal contradiction."""
    tried = [{**values, **given} for values in _combinations(free)]
    constraints = [
        _constraint(f"{text} >= 1 of input '{each.name}'", each.place, extent, tried)
        for each in signature.inputs
        for text, extent in zip(each.written, each.extents, strict=True)
    ]
    for stated in signature.assertions:
        expression = assertion(stated.text)
        if expression is not None:
            constraints.append(_constraint(stated.text, stated.place, expression, tried))
    for one in list(constraints):
        others = [constraint for constraint in constraints if constraint is not one]
        if not _jointly_satisfiable(others, tried):
            constraints = others
    noun = "the symbol" if len(free) == 1 else "the symbols"
    message = f"no small values of {noun} {', '.join(free)} "
    if _jointly_satisfiable(constraints, tried):
        # no contradiction: binding a quotient such as S/2 gave another value than the one tried
        message += "make the shapes of all inputs possible"
        return Diagnostic("input/symbol", message, hint="give the shapes of the inputs")
    listed = " and ".join(
        f"{constraint.text} (line {constraint.place.line}{constraint.why and ': '}{constraint.why})"
        for constraint in constraints
    )
    return Diagnostic(
        "input/symbol",
        f"{message}satisfy {listed}",
        constraints[0].place,
        hint="correct one of them, or give the shapes of the inputs",
    )


def _constraint(
    text: str,
    place: Place,
    expression: ast.Expression,
    tried: Sequence[Mapping[str, int]],
) -> _Constraint:
    """The constraint that an expression is at least 1; a comparison that holds has the value 1."""
    satisfied_by, why = 0, ""
    for i, values in enumerate(tried):
        try:
            satisfied_by |= (extent_of(expression, values) >= 1) << i
        except NoValue as reason:
            why = str(reason)
    return _Constraint(text, place, satisfied_by, "" if satisfied_by else why)


def _jointly_satisfiable(constraints: Sequence[_Constraint], tried: Sequence[object]) -> bool:
    """Whether one of the combinations that were tried satisfies all constraints."""
    left = (1 << len(tried)) - 1
    for constraint in constraints:
        left &= constraint.satisfied_by
    return left != 0


def shapes_for(
    signature: Signature, values: Mapping[str, int]
) -> dict[str, tuple[int, ...]] | None:
    """Declared shapes of the inputs; None if an extent has no value or, computed, is below 1."""
    try:
        shapes = {
            each.name: tuple(extent_of(extent, values) for extent in each.extents)
            for each in signature.inputs
        }
    except NoValue:
        return None
    pairs = zip(signature.inputs, shapes.values(), strict=True)
    extents = chain.from_iterable(zip(each.extents, shape, strict=True) for each, shape in pairs)
    is_possible = all(n > 0 or isinstance(extent, ast.Literal_) for extent, n in extents)
    return shapes if is_possible else None


def _combinations(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Sample values of the symbols `names`."""
    for value in VALUES:
        yield dict.fromkeys(names, value)
    for values in islice(product(VALUES, repeat=len(names)), COMBINATIONS):
        yield dict(zip(names, values, strict=True))


# -- values that decide shapes

Sample = tuple[dict[str, tuple[int, ...]], dict[str, int]]
"""Shapes by name, and values of symbols."""


class _Profile(NamedTuple):
    """Samples of all inputs: a number, a list, the length of lists of any length."""

    number: int
    item: Callable[[int, int], int]
    """Item i of a list of n items."""
    length: int


def _ones(i: int, n: int) -> int:
    return 1


def _open_shape(i: int, n: int) -> int:
    return -1 if i == n - 1 else 1


def _axes(i: int, n: int) -> int:
    return i


def _zeros(i: int, n: int) -> int:
    return 0


def _twos(i: int, n: int) -> int:
    return 2


_PROFILES: Final = (
    _Profile(1, _ones, 1),
    _Profile(-1, _open_shape, 2),
    _Profile(0, _axes, 2),
    _Profile(2, _zeros, 4),
    _Profile(3, _twos, 3),
)
_SHIFTS: Final = (0, -1, 1, 2, -2)
"""Distances between the profiles of an input and of the next one."""
VALUE_SAMPLES: Final = len(_PROFILES) * len(_SHIFTS)
"""Samples of values for one combination of shapes, at most."""
_CHOICES: Final = [(first, shift) for shift in _SHIFTS for first in range(len(_PROFILES))]
"""Profiles of the first input, with shifts."""
_WITH_ALL: Final = 3
"""Samples of shapes that are combined with all profiles; others only with the first one."""


def samples_of_values(
    inputs: Mapping[str, ValueInput], shapes: Iterator[Sample], given: Mapping[str, int]
) -> Iterator[Sample]:
    """Samples of shapes, combined with samples of the values of `inputs`.

    `given`: values that symbols must have.
    """
    if not inputs:
        yield from shapes
        return
    for number, (sample, values) in enumerate(shapes):
        for first, shift in _CHOICES if number < _WITH_ALL else _CHOICES[:1]:
            if shift and len(inputs) == 1:
                break
            keys = {
                name: _key(each, _PROFILES[(first + shift * i) % len(_PROFILES)], given)
                for i, (name, each) in enumerate(inputs.items())
            }
            items = {
                symbol: item
                for name, key in keys.items()
                for symbol, item in zip(inputs[name].symbols(len(key)), key, strict=True)
            }
            yield {**sample, **keys}, {**values, **items}


def _key(each: ValueInput, profile: _Profile, given: Mapping[str, int]) -> tuple[int, ...]:
    """The key of an input; items that its type does not have are 1."""
    if not each.rank:
        items = [profile.number]
    else:
        count = profile.length if each.length is None else each.length
        items = [profile.item(i, count) for i in range(count)]
    plain = each._replace(length=None)
    items = [item if not plain.fault([item]) else 1 for item in items]
    symbols = each.symbols(len(items))
    return tuple(given.get(s, x) for s, x in zip(symbols, each.key(items), strict=True))
