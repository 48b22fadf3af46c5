"""Straight-line programs: functions of symbols as data.

    s0 -> v0 = s0 // 16;  guard s0 >= 32;  return v0, 4

A program is a list of steps, each one operation of a closed list.  It can be written as plain data
(`to_data`), read again with all checks (`from_data`), and translated into a Python function.
Variables are `s0, s1, ...` (the symbols), `v0, ...` and `a0, ...`; `g0, ...` are captured values:
functions, and arguments that do not depend on symbols.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Union, cast

from nnefc.symbolic.sym_int_base import float_bits

Number = int | float
Operand = Union[str, Number, "tuple[Operand, ...]"]
"""A name, a number or a truth value, or a tuple: the name of a constructor, empty for a tuple, and
its arguments."""
Function = Callable[..., "list[Any] | None"]
"""Takes the values of the symbols in order; returns the results.

It returns None where a guard fails or an integer has more than 64 bits.
"""

COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")
"""Operations of guards."""
ARITHMETIC: Final = ("+", "-", "*", "//", "%", "/", "<<")
UNARY: Final = ("neg", "abs", "ceil", "floor", "round", "bits", "bit_length", "len")
"""Operations of one operand; `bits`: of a number as a float64, `len`: rows of an array."""
EXTREMES: Final = ("max", "min")
"""Operations of at least two operands."""
CALL: Final = "call"
"""A captured function, and its arguments."""
ITEM: Final = "item"
"""The result of a call, and the number of its item."""

_GROWING: Final = ("+", "-", "*", "<<")
"""Operations whose results may have more bits than their operands."""
LIMIT: Final = 1 << 63
"""No extent or address has more bits; larger integers end an evaluation.

A program of a file may square an integer forty times, which would take hours.
"""

_NAME: Final = re.compile(r"[sva][0-9]{1,9}")
_CAPTURED: Final = re.compile(r"g[0-9]{1,9}")
_MAX_DEPTH: Final = 16
"""Nesting levels of tuples in operands."""


class Step(NamedTuple):
    """An assignment to `target`, or a guard where `target` is empty."""

    target: str
    op: str
    operands: tuple[Operand, ...]


class StraightLine(NamedTuple):
    """A function of symbols."""

    symbols: tuple[str, ...]
    """Parameters, in order."""
    captured: tuple[Any, ...]
    steps: tuple[Step, ...]
    results: tuple[Operand, ...]
    """Variables and numbers."""

    def function(self) -> Function:
        """The program as a Python function."""
        lines = [f"def function({', '.join(self.symbols)}):"]
        for target, op, operands in self.steps:
            value = text(op, operands)
            if op == "<<":  # the count is bounded before the operation
                lines.append(f"if {_operand_text(operands[1])} >= {LIMIT.bit_length()}: return")
            lines.append(f"{target} = {value}" if target else f"if not ({value}): return")
            if op in _GROWING:
                bounded = f"-{LIMIT} <= {target} < {LIMIT}"
                lines.append(f"if not {bounded} and type({target}) is int: return")
        lines.append(f"return [{', '.join(map(_operand_text, self.results))}]")
        namespace: dict[str, Any] = {
            "inf": math.inf,
            "nan": math.nan,
            "ceil": math.ceil,
            "floor": math.floor,
            "bits": float_bits,
            **{f"g{i}": value for i, value in enumerate(self.captured)},
        }
        exec("\n ".join(lines), namespace)
        return namespace["function"]

    def to_data(self) -> dict[str, Any]:
        """The program as JSON data, without the captured values."""
        return {"symbols": self.symbols, "steps": self.steps, "results": self.results}


def text(op: str, operands: Sequence[Operand]) -> str:
    """An operation as a Python expression."""
    written = [_operand_text(each) for each in operands]
    if op in ARITHMETIC or op in COMPARISONS:
        return f"{written[0]} {op} {written[1]}"
    match op:
        case "neg":
            return f"-{written[0]}"
        case "bit_length":
            return f"({written[0]}).bit_length()"
        case "item":
            return f"{written[0]}[{written[1]}]"
        case "call":
            return f"{written[0]}({', '.join(written[1:])})"
        case _:
            return f"{op}({', '.join(written)})"


def _operand_text(value: Operand) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        items = "".join(f"{_operand_text(item)}, " for item in value[1:])
        return f"{value[0]}({items})"
    return f"({value!r})" if value < 0 else repr(value)


def from_data(data: Any, captured: Sequence[Any]) -> StraightLine:
    """The program in JSON data; raises ValueError for anything that `to_data` does not write."""
    try:
        symbols, steps, results = data["symbols"], data["steps"], data["results"]
        _require(symbols == [f"s{i}" for i in range(len(symbols))], f"symbols {symbols}")
        known = set(symbols)
        read = [_step(each, known, len(captured)) for each in steps]
        returned = [_operand(each, known, 0, _MAX_DEPTH) for each in results]
        _require(not any(isinstance(each, tuple) for each in returned), "a tuple as a result")
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(f"no straight-line program: {error}") from None
    return StraightLine(tuple(symbols), tuple(captured), tuple(read), tuple(returned))


def _step(data: Any, known: set[str], captured: int) -> Step:
    """A step whose operands are `known` variables; adds its target to them."""
    target, op, operands = data
    read = tuple(_operand(each, known, captured, 0) for each in operands)
    simple = not any(isinstance(each, tuple) or _is_captured(each) for each in read)
    if op == CALL:
        fits = bool(read) and _is_captured(read[0])
    elif op == ITEM:
        fits = simple and len(read) == 2 and isinstance(read[0], str) and type(read[1]) is int
    elif op in EXTREMES:
        fits = simple and len(read) >= 2
    else:
        count = 1 if op in UNARY else 2 if op in (*ARITHMETIC, *COMPARISONS) else -1
        fits = simple and len(read) == count
    _require(fits, f"operation {op!r} of {operands}")
    is_guard = op in COMPARISONS
    is_new = isinstance(target, str) and _NAME.fullmatch(target) and target not in known
    _require((is_guard and target == "") or (not is_guard and bool(is_new)), f"target {target!r}")
    known.add(target)
    return Step(target, op, read)


def _operand(data: Any, known: set[str], captured: int, depth: int) -> Operand:
    if isinstance(data, str):
        is_captured = _is_captured(data) and int(data[1:]) < captured
        _require((data in known and data != "") or is_captured, f"name {data!r}")
        return data
    if isinstance(data, list):
        items = cast(list[Any], data)
        _require(depth < _MAX_DEPTH and bool(items), "nested tuples")
        head = "" if items[0] == "" else _operand(items[0], set(), captured, _MAX_DEPTH)
        _require(isinstance(head, str), f"constructor {head!r}")
        return (head, *(_operand(each, known, captured, depth + 1) for each in items[1:]))
    _require(type(data) in (bool, int, float), f"operand {data!r}")
    return data


def _is_captured(value: Any) -> bool:
    return isinstance(value, str) and _CAPTURED.fullmatch(value) is not None


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"no straight-line program: {what}")
