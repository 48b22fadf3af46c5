"""Evaluates the guards of a straight-line program of a file, with bounded time and memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nnefc.symbolic.straight_line import COMPARISONS, LIMIT, StraightLine
from nnefc.symbolic.sym_int_base import float_bits

_OPERATOR: Final[Any] = operator
"""Its stubs leave the types of some functions unknown."""
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": _OPERATOR.eq,
    "!=": _OPERATOR.ne,
    "<": _OPERATOR.lt,
    "<=": _OPERATOR.le,
    ">": _OPERATOR.gt,
    ">=": _OPERATOR.ge,
}
_COMPUTE: Final[Mapping[str, Callable[..., Any]]] = {
    "+": _OPERATOR.add,
    "-": _OPERATOR.sub,
    "*": _OPERATOR.mul,
    "//": _OPERATOR.floordiv,
    "%": _OPERATOR.mod,
    "/": _OPERATOR.truediv,
    "neg": _OPERATOR.neg,
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": round,
    "bits": float_bits,
    "bit_length": int.bit_length,
    "max": max,
    "min": min,
}
"""All operations of numbers but `<<`, whose result must be bounded before it is computed."""


def guards_hold(program: StraightLine, symbols: Sequence[int]) -> bool:
    """Whether the guards hold for these values of the symbols.

    Captured functions are not called; guards that depend on their results are taken to hold.  False
    for a program that computes an integer of more than 64 bits, or does not compute numbers.
    """
    known: dict[str, Any] = dict(zip(program.symbols, symbols, strict=True))
    try:
        for target, op, operands in program.steps:
            values: list[Any] = [
                known.get(each) if isinstance(each, str) else each for each in operands
            ]
            is_known = not any(value is None or isinstance(value, tuple) for value in values)
            if op in COMPARISONS:
                if is_known and not _COMPARE[op](*values):
                    return False
            elif is_known and (op in _COMPUTE or op == "<<"):
                known[target] = _computed(op, values)
    except (ArithmeticError, TypeError, ValueError):
        return False
    return True


def _computed(op: str, values: Sequence[Any]) -> Any:
    """The result of an operation; raises OverflowError if it has more than 64 bits."""
    result: Any
    if op == "<<":
        value, count = values
        if count >= LIMIT.bit_length():
            raise OverflowError
        result = value << count
    else:
        result = _COMPUTE[op](*values)
    if type(result) is int and not -LIMIT <= result < LIMIT:
        raise OverflowError
    return result
