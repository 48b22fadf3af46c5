"""Guards of exported programs: conditions on input shapes under which a program is valid.

    ((2 + L['x'].size()[0]) // 3) == 2     x has the extents [s0, 5]     s0 >= 4, s0 <= 6
    (L['x'].size()[0] % 2) == 0                                          s0 - 2 * (s0 / 2) == 0

PyTorch writes them as Python.  Here they are parsed, never evaluated, and become conditions in the
syntax of NNEF.  A guard on an expression that grows with its only symbol becomes bounds of it; what
bounds imply is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from nnefc.frontends.common.extents import NoValue, extent_of, extent_text, names_of
from nnefc.frontends.torch.program import Input, InputKind, Range
from nnefc.support.errors import NnefError
from nnefc.syntax import ast as nnef
from nnefc.syntax.parser import parse_expression

_MOST_GUARDS: Final = 2000
_MOST_CHARACTERS: Final = 4000
_MOST_EXTENT: Final = 1 << 40
"""The extents that bounds are looked for in."""
_SIGNS: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_OPERATORS: Final[Mapping[type[ast.operator], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
}


def conditions_of(
    guards: Iterable[str], inputs: Sequence[Input], ranges: Mapping[str, Range]
) -> tuple[str, ...]:
    """The guards as conditions on symbols; those of other values than extents are left out."""
    numbers = (InputKind.NUMBER, InputKind.VALUE)
    users = [each for each in inputs if each.kind is InputKind.USER or each.kind in numbers]
    extents = {each.name: each.extents for each in users}
    found: list[str] = []
    for guard, _ in zip(guards, range(_MOST_GUARDS)):
        try:
            parsed = ast.parse(guard[:_MOST_CHARACTERS].strip(), mode="eval").body
            found += [_text(each, extents, users) for each in _conjuncts(parsed)]
        except (_Other, SyntaxError, ValueError, RecursionError, MemoryError, IndexError, KeyError):
            continue
    return tuple(dict.fromkeys(_bounded(found, ranges)))


class _Other(Exception):
    """A guard is no condition on extents."""


def _conjuncts(guard: ast.expr) -> Iterator[ast.expr]:
    """The conditions of a guard that must all hold."""
    if isinstance(guard, ast.BoolOp) and isinstance(guard.op, ast.And):
        for each in guard.values:
            yield from _conjuncts(each)
        return
    yield guard


def _text(node: ast.expr, extents: Mapping[str, Sequence[str]], users: Sequence[Input]) -> str:
    """An expression in the syntax of NNEF; raises _Other."""

    def text(node: ast.expr) -> str:
        return _text(node, extents, users)

    match node:
        case ast.Constant(value=int(value)) if type(value) is int:
            return str(value) if value >= 0 else f"({value})"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"(-{text(operand)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"({text(operand)} == 0)"
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            a, b = text(left), text(right)
            return f"({a} - {b} * ({a} / {b}))"
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return f"({text(left)} {_OPERATORS[type(operator)]} {text(right)})"
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return f"({text(left)} {_SIGNS[type(operator)]} {text(right)})"
        case ast.BoolOp(op=ast.Or(), values=values):
            return f"({' + '.join(map(text, values))} >= 1)"
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=source, attr="size"), args=[]),
            slice=ast.Constant(value=int(axis)),
        ):
            return _operand(_extents(source, extents, users)[axis])
        case ast.Subscript():
            (number,) = _extents(node, extents, users)
            return _operand(number)
        case _:
            raise _Other


def _operand(extent: str) -> str:
    return extent if extent.isidentifier() or extent.isdecimal() else f"({extent})"


def _extents(
    source: ast.expr, extents: Mapping[str, Sequence[str]], users: Sequence[Input]
) -> Sequence[str]:
    """The extents of an input `L['x']`, `L['pair'][0]`, `L['flat_args'][2]`, or a number.

    Raises KeyError.
    """
    keys: list[str] = []
    while isinstance(source, ast.Subscript) and isinstance(source.slice, ast.Constant):
        keys.insert(0, str(source.slice.value))
        source = source.value
    if not isinstance(source, ast.Name) or source.id != "L":
        raise _Other
    if keys[0] == "flat_args" and len(keys) == 2:
        return users[int(keys[1])].extents
    return extents["_".join(keys)]


# -- bounds


def _bounded(conditions: Sequence[str], ranges: Mapping[str, Range]) -> Iterator[str]:
    """Bounds of single symbols, and the conditions that these do not imply."""
    least = {name: max(allowed.least, 0) for name, allowed in ranges.items()}
    rest: list[tuple[str, nnef.Expression]] = []
    for text in conditions:
        try:
            parsed = parse_expression(text)
            bounds = _bounds(parsed, least)
        except (NnefError, NoValue):
            continue
        if bounds is None:
            rest.append((text, parsed))
            continue
        name, low, high = bounds
        if low > least.get(name, 0):
            least[name] = low
            yield f"{name} >= {low}"
        if high is not None:
            yield f"{name} <= {high}"
    for text, parsed in rest:
        if not _is_implied(parsed, least):
            yield text


def _bounds(
    condition: nnef.Expression, least: Mapping[str, int]
) -> tuple[str, int, int | None] | None:
    """The symbol of a condition and the bounds that it means, from `least` on; None for others."""
    names = set(names_of([condition]))
    if len(names) != 1 or not isinstance(condition, nnef.Binary):
        return None
    (name,) = names
    if not _grows(condition.left) or not isinstance(condition.right, nnef.Literal_):
        return None
    limit, first = extent_of(condition.right, {}), least.get(name, 0)

    def value(n: int) -> int:
        return extent_of(condition.left, {name: n})

    match condition.operator:
        case ">" | ">=":
            low = _first(value, first, limit + (condition.operator == ">"))
            return None if low is None else (name, low, None)
        case "<" | "<=":
            end = _first(value, first, limit + (condition.operator == "<="))
            return None if end is None or end == first else (name, first, end - 1)
        case "==":
            low, end = (_first(value, first, each) for each in (limit, limit + 1))
            return None if low is None or end is None or low == end else (name, low, end - 1)
        case "!=" if value(first) >= limit:
            low = _first(value, first, limit + 1)
            return None if low is None else (name, low, None)
        case _:
            return None


def _first(value: Callable[[int], int], first: int, least: int) -> int | None:
    """The first number from `first` on of which a growing function is `least` or more."""
    low, high = first, _MOST_EXTENT
    if value(high) < least:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if value(middle) >= least else (middle + 1, high)
    return low


def _grows(node: nnef.Expression) -> bool:
    """Whether an expression never falls when its symbols grow."""
    match node:
        case nnef.Literal_() | nnef.Identifier():
            return True
        case nnef.Unary(operand=nnef.Literal_()):
            return True
        case nnef.Binary(operator="+"):
            return _grows(node.left) and _grows(node.right)
        case nnef.Binary(operator="-"):
            return _grows(node.left) and isinstance(node.right, nnef.Literal_)
        case nnef.Binary(operator="*" | "/", left=left, right=nnef.Literal_()):
            return _grows(left) and _number(node.right) > 0
        case nnef.Binary(operator="*", left=nnef.Literal_(), right=right):
            return _grows(right) and _number(node.left) > 0
        case _:
            return False


def _number(node: nnef.Expression) -> int:
    return extent_of(node, {})


def _is_implied(condition: nnef.Expression, least: Mapping[str, int]) -> bool:
    """Whether a comparison of growing expressions holds for all symbols from `least` on."""
    if not isinstance(condition, nnef.Binary):
        return False
    left, right, sign = condition.left, condition.right, condition.operator
    try:
        low = _least(left, least)
        if sign in (">", ">=", "!=") and isinstance(right, nnef.Literal_):
            limit = _number(right)
            return low > limit or (sign == ">=" and low == limit)
        if sign == "<" and isinstance(right, nnef.Binary) and right.operator == "*":
            sides = ((right.left, right.right), (right.right, right.left))
            return low >= 1 and any(_same(x, left) and _least(y, least) > 1 for x, y in sides)
    except NoValue:
        pass
    return False


def _least(node: nnef.Expression, least: Mapping[str, int]) -> int:
    """The value at the least symbols of an expression that grows with them; raises NoValue."""
    if isinstance(node, nnef.Binary) and node.operator == "*" and not _grows(node):
        factors = _least(node.left, least), _least(node.right, least)
        if min(factors) < 0:
            raise NoValue
        return factors[0] * factors[1]
    if not _grows(node):
        raise NoValue
    return extent_of(node, least)


def _same(x: nnef.Expression, y: nnef.Expression) -> bool:
    return extent_text(x) == extent_text(y)
