"""Arrays that are computed of symbols, by functions that the function of a trace calls.

    pixels, count = computed(offsets, (n, 8))   # a `TracedArray` and an extent, if n is an extent

What such a function is given and gives are plain arrays and numbers, so it serves where nothing
depends on symbols as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from nnefc.symbolic.integers import Named, Number, SymInt, Trace, text_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Function = Callable[..., tuple[Any, ...]]


class TracedArray(Named):
    """An array that is computed of symbols."""

    __slots__ = ()

    value: Array

    @property
    def nbytes(self) -> int:
        return self.value.nbytes


def traced_call(function: Function, *arguments: Any) -> Any:
    """What a function gives for some arguments; where these depend on symbols, so does that.

    `function`: one of a module, which gives a tuple of arrays and integers, always of the
    same types, for plain arguments.  `arguments`: numbers, tuples and dataclasses may depend on
    symbols; what else there is does not.
    """
    trace = trace_of(arguments)
    return function(*arguments) if trace is None else _traced(trace, function, arguments)


def _traced(trace: Trace, function: Function, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    uses: list[SymInt] = []
    text = f"{trace.bind(function)}{_argument(trace, arguments, uses)}"
    found = trace.calls.get(text)
    if found is None:
        call = trace.assign(text, *uses)
        results = function(*hints_within(arguments))
        found = tuple(_result(trace, f"{call}[{i}]", call, x) for i, x in enumerate(results))
        trace.calls[text] = found
    return found


def _argument(trace: Trace, value: Any, uses: list[SymInt]) -> str:
    """An argument as it stands in the function."""
    if isinstance(value, SymInt):
        uses.append(value)
        return value.name
    if isinstance(value, Number):
        return repr(value) if isinstance(value, bool) else text_of(value)
    if not trace_of(value):
        return trace.bind(value)
    parts = "".join(f"{_argument(trace, item, uses)}, " for item in _parts(value))
    return f"({parts})" if type(value) is tuple else f"{trace.bind(type(value))}({parts})"


def _result(trace: Trace, text: str, call: str, value: Any) -> SymInt | TracedArray:
    if isinstance(value, Number):
        return trace.make(text, value, call)
    return TracedArray(trace, value, trace.assign(text, call))


def length(table: Array | TracedArray) -> int:
    """How many rows there are."""
    if isinstance(table, TracedArray):
        return cast(int, table.trace.make(f"len({table.name})", len(table.value), table))
    return len(table)


def trace_of(value: Any) -> Trace | None:
    """The trace that a value, or what is in it if it is a tuple or a dataclass, is of."""
    if isinstance(value, SymInt):
        return value.trace
    return next(filter(None, map(trace_of, _parts(value))), None)


def hints_within(value: Any) -> Any:
    """A value, as it is now; what is in it, too."""
    if trace_of(value) is None:
        return value
    if isinstance(value, SymInt):
        return value.value
    parts = tuple(map(hints_within, _parts(value)))
    return parts if type(value) is tuple else type(value)(*parts)


def _parts(value: Any) -> Iterable[Any]:
    """What is in a tuple, or a dataclass."""
    if isinstance(value, tuple):
        return cast("tuple[Any, ...]", value)
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value) if field.init]
    return ()
