"""Operators and built-in functions on attribute values (chapter 3.3.3).

Integers have 64 bits and do not overflow.  Their division truncates, as in C and in the
reference parser: `-7 / 2` is `-3`.  Their power `^` is exact and must be an integer.  Scalars
are float64 and finite.  Functions raise `UndefinedResult` where a result would break a rule.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.nnef.types import (
    INTEGER,
    LOGICAL,
    SCALAR,
    STRING,
    Primitive,
)
from nnefc.ops.core.spec import UNKNOWN, Unknown, has_unknown
from nnefc.syntax.printer import print_literal

Values = tuple[Any, ...]

INTEGER_MIN: Final = -(1 << 63)
INTEGER_MAX: Final = (1 << 63) - 1

_SCALAR_LITERAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_INTEGER_LITERAL = re.compile(r"-?[0-9]{1,19}")


class UndefinedResult(Exception):
    """An expression has no value."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def _bounded(value: int, how: str) -> int:
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        raise UndefinedResult(f"{how} does not fit in 64 bits")
    return value


def _finite(value: float, how: str) -> float:
    if not math.isfinite(value):
        raise UndefinedResult(f"{how} is not finite")
    return value


# -- integers


def _integer(function: Callable[[int, int], int], symbol: str) -> Callable[[int, int], int]:
    def apply(x: int, y: int) -> int:
        return _bounded(function(x, y), f"{x} {symbol} {y}")

    return apply


def _integer_divide(x: int, y: int) -> int:
    if y == 0:
        raise UndefinedResult(f"{x} / 0: division by zero")
    quotient = abs(x) // abs(y)
    return _bounded(quotient if (x < 0) == (y < 0) else -quotient, f"{x} / {y}")


def _integer_power(x: int, y: int) -> int:
    if x in (1, -1):
        return 1 if x == 1 or y % 2 == 0 else -1
    if y < 0:
        raise UndefinedResult(f"{x} ^ {y} is not an integer", "use scalars, as in 2.0 ^ -1.0")
    if x == 0:
        return 1 if y == 0 else 0
    if y > 63:
        raise UndefinedResult(f"{x} ^ {y} does not fit in 64 bits")
    return _bounded(x**y, f"{x} ^ {y}")


# -- scalars


def _scalar(function: Callable[[float, float], float], symbol: str) -> Any:
    def apply(x: float, y: float) -> float:
        return _finite(function(x, y), f"{x} {symbol} {y}")

    return apply


def _scalar_divide(x: float, y: float) -> float:
    if y == 0.0:
        raise UndefinedResult(f"{x} / {y}: division by zero")
    return _finite(x / y, f"{x} / {y}")


def _scalar_power(x: float, y: float) -> float:
    try:
        return _finite(math.pow(x, y), f"{x} ^ {y}")
    except ValueError:
        raise UndefinedResult(f"{x} ^ {y} is not a real number") from None
    except OverflowError:
        raise UndefinedResult(f"{x} ^ {y} is too large") from None


ARITHMETIC: Final[Mapping[tuple[str, Primitive], Callable[[Any, Any], Any]]] = {
    ("+", INTEGER): _integer(operator.add, "+"),
    ("-", INTEGER): _integer(operator.sub, "-"),
    ("*", INTEGER): _integer(operator.mul, "*"),
    ("/", INTEGER): _integer_divide,
    ("^", INTEGER): _integer_power,
    ("+", SCALAR): _scalar(operator.add, "+"),
    ("-", SCALAR): _scalar(operator.sub, "-"),
    ("*", SCALAR): _scalar(operator.mul, "*"),
    ("/", SCALAR): _scalar_divide,
    ("^", SCALAR): _scalar_power,
}
"""Binary arithmetic by operator and type of both operands."""

ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Comparisons of integers or of scalars."""


def negate_integer(x: int) -> int:
    return _bounded(-x, f"-({x})")


# -- arrays and strings, which are Python tuples and strings


def concatenate(budget: Budget, x: Any, y: Any) -> Any:
    budget.take_items(len(x) + len(y))
    return x + y


def duplicate(budget: Budget, x: Any, times: int) -> Any:
    if times < 0:
        raise UndefinedResult(f"cannot be duplicated {times} times")
    budget.take_items(len(x) * times)
    return x * times


def item(x: Any, index: int) -> Any:
    if not 0 <= index < len(x):
        hint = "indexing starts from 0" if index < 0 else ""
        raise UndefinedResult(f"index {index} is outside an array of {len(x)} items", hint)
    return x[index]


def item_range(budget: Budget, x: Any, begin: int | None, end: int | None) -> Any:
    first = 0 if begin is None else begin
    last = len(x) if end is None else end
    if first >= last:
        return x[:0]
    if first < 0:
        raise UndefinedResult(f"range [{first}:{last}] begins below 0", "indexing starts from 0")
    if last > len(x):
        raise UndefinedResult(f"range [{first}:{last}] is outside an array of {len(x)} items")
    budget.take_items(last - first)
    return x[first:last]


def range_of(budget: Budget, x: Any) -> Values:
    # an integer object takes more memory than its slot in a tuple
    budget.take_items(4 * len(x))
    return tuple(range(len(x)))


def contains(budget: Budget, x: Any, array: Values) -> bool | Unknown:
    if has_unknown(x) or has_unknown(array):
        return UNKNOWN
    budget.take_steps(len(array) * _size(x))
    return x in array


def _equal(budget: Budget, x: Any, y: Any) -> bool:
    budget.take_steps(_size(x))
    return x == y


def _unequal(budget: Budget, x: Any, y: Any) -> bool:
    return not _equal(budget, x, y)


EQUALITY: Final[Mapping[str, Callable[[Budget, Any, Any], bool]]] = {
    "==": _equal,
    "!=": _unequal,
}


def _size(x: Any) -> int:
    """Approximate steps of a comparison with `x`."""
    if isinstance(x, str):
        return 1 + len(x) // 64
    return sum(map(_size, x)) if isinstance(x, tuple) else 1  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


# -- casts


def _to_integer(x: Any) -> int:
    if isinstance(x, str):
        if not _INTEGER_LITERAL.fullmatch(x):
            raise UndefinedResult(f"{print_literal(x)} is not an integer literal")
        return _bounded(int(x), x)
    if isinstance(x, float):
        return _bounded(math.floor(x), f"integer({x})")
    return int(x)


def _to_scalar(x: Any) -> float:
    if isinstance(x, str):
        if not _SCALAR_LITERAL.fullmatch(x):
            raise UndefinedResult(f"{print_literal(x)} is not a scalar literal")
        return _finite(float(x), x)
    return float(x)


def _to_string(x: Any) -> str:
    return x if isinstance(x, str) else print_literal(x)


CASTS: Final[Mapping[str, tuple[Primitive, Callable[[Any], Any]]]] = {
    "integer": (INTEGER, _to_integer),
    "scalar": (SCALAR, _to_scalar),
    "logical": (LOGICAL, bool),
    "string": (STRING, _to_string),
}
"""Result type and function of the casts, which take any primitive value."""
