"""Arrays that are computed from symbols, by function calls that a trace records.

    pixels, count = traced_call(offsets, (n, 8))   # a `TracedArray` and a SymInt, if n is a SymInt

The called function takes and returns plain arrays and numbers, so it also serves lowering with
plain integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from nnefc.symbolic.integers import SymInt, Trace
from nnefc.symbolic.straight_line import CALL, ITEM, Operand, text
from nnefc.symbolic.sym_int_base import Dim
from nnefc.symbolic.trace_recording import Named, Number

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

TupleFunction = Callable[..., tuple[Any, ...]]


class TracedArray(Named):
    """An array that is computed from symbols; `value` is the array for the hints."""

    __slots__ = ("trace",)

    value: Array

    def __init__(self, trace: Trace, value: Array, name: str) -> None:
        super().__init__(value, name)
        self.trace = trace

    @property
    def nbytes(self) -> int:
        return self.value.nbytes


def traced_call(function: TupleFunction, *arguments: Any) -> Any:
    """The results of a function; TracedArrays and SymInts if an argument depends on symbols.

    `function`: one of a module, which returns a tuple of arrays and integers, always of the same
    types, for plain arguments.  `arguments`: numbers, tuples and dataclasses may depend on
    symbols; other objects do not.
    """
    trace = trace_of(arguments)
    return function(*arguments) if trace is None else _traced(trace, function, arguments)


def _traced(trace: Trace, function: TupleFunction, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    operands = (trace.capture(function), *(_operand(trace, each) for each in arguments))
    key = text(CALL, operands)
    results = trace.calls.get(key)
    if results is None:
        call = trace.assign(CALL, *operands)
        hints = function(*hints_within(arguments))
        results = tuple(_result(trace, call, i, x) for i, x in enumerate(hints))
        trace.calls[key] = results
    return results


def _operand(trace: Trace, value: Any) -> Operand:
    """The operand for an argument."""
    if isinstance(value, SymInt):
        return value.name
    if isinstance(value, Number):
        return value if isinstance(value, bool | float) else int(value)
    if not trace_of(value):
        return trace.capture(value)
    constructor = "" if type(value) is tuple else trace.capture(type(value))
    return (constructor, *(_operand(trace, item) for item in _items(value)))


def _result(trace: Trace, call: str, index: int, value: Any) -> SymInt | TracedArray:
    if isinstance(value, Number):
        return trace.make(value, ITEM, call, index)
    return TracedArray(trace, value, trace.assign(ITEM, call, index))


def length(table: Array | TracedArray) -> Dim:
    """The number of rows, symbolic for a TracedArray."""
    if isinstance(table, TracedArray):
        return cast(Dim, table.trace.make(len(table.value), "len", table))
    return len(table)


def trace_of(value: Any) -> Trace | None:
    """The trace of the SymInts in a value, a tuple or a dataclass; None without SymInts."""
    if isinstance(value, SymInt):
        return value.trace
    return next(filter(None, map(trace_of, _items(value))), None)


def hints_within(value: Any) -> Any:
    """A value whose SymInts, also those in tuples and dataclasses, are replaced by their hints."""
    if trace_of(value) is None:
        return value
    if isinstance(value, SymInt):
        return value.value
    items = tuple(map(hints_within, _items(value)))
    return items if type(value) is tuple else type(value)(*items)


def _items(value: Any) -> Iterable[Any]:
    """The items of a tuple, or the fields of a dataclass."""
    if isinstance(value, tuple):
        return cast("tuple[Any, ...]", value)
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value) if field.init]
    return ()
