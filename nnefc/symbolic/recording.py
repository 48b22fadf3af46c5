"""The straight-line program that a trace records, and its translation into a Python function.

A recording is a list of steps: assignments, whose right sides are Python expressions, and guards,
which are conditions.  `Recording.function` keeps the assignments that the results and the guards
need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nnefc.symbolic.base import float_bits

Number = int | float
Function = Callable[..., "list[Any] | None"]
"""Takes the values of the symbols in order; returns the results, None where a guard fails."""


class Named:
    """A value that is computed from symbols: a variable of the recorded program."""

    __slots__ = ("name", "value")

    def __init__(self, value: Any, name: str) -> None:
        self.value = value
        """The hint: the value for the symbols' values during the trace."""
        self.name = name


@dataclass(frozen=True, slots=True)
class _Step:
    """An assignment to `target`, or a guard where `target` is empty; `uses` are its variables."""

    target: str
    text: str
    uses: tuple[str, ...]


class Recording:
    """Assignments and guards in the order in which they were recorded."""

    def __init__(self) -> None:
        self.symbols: list[str] = []
        """Parameters of the function, in order."""
        self._steps: list[_Step] = []
        self._guards: set[str] = set()
        self._captured: list[Any] = []
        """Functions, and arguments of them that do not depend on symbols."""
        self._captured_names: dict[Any, str] = {}

    @property
    def guards(self) -> list[str]:
        """The guards, in the order in which they were recorded."""
        return [step.text for step in self._steps if not step.target]

    def assign(self, text: str, *uses: Any, name: str = "") -> str:
        """Record an assignment; returns the variable, a new one without `name`."""
        name = name or f"a{len(self._steps)}"
        self._steps.append(_Step(name, text, _names(uses)))
        return name

    def guard(self, text: str, *uses: Any) -> None:
        """Record a guard, which holds for the hints."""
        if text not in self._guards:
            self._guards.add(text)
            self._steps.append(_Step("", text, _names(uses)))

    def capture(self, value: Any) -> str:
        """The name of a value that does not depend on symbols.

        Values that are equal and of equal types share a name.
        """
        key: Any = (type(value), value, repr(value))  # (1, 2) equals (1.0, 2): compare texts
        try:
            name = self._captured_names.get(key)
        except TypeError:  # not hashable
            key = (type(value), id(value))
            name = self._captured_names.get(key)
        if name is None:
            name = self._captured_names[key] = f"g{len(self._captured)}"
            self._captured.append(value)
        return name

    def function(self, results: Sequence[Number | Named]) -> Function:
        """The function of the symbols that computes `results`, variables or plain numbers."""
        needed = {x.name for x in results if isinstance(x, Named)}
        body: list[str] = []
        for step in reversed(self._steps):
            if step.target and step.target not in needed:
                continue
            needed.update(step.uses)
            assignment = f"{step.target} = {step.text}"
            body.append(assignment if step.target else f"if not ({step.text}): return None")
        body.reverse()
        returned = ", ".join(map(text_of, results))
        lines = [f"def function({', '.join(self.symbols)}):", *body, f"return [{returned}]"]
        namespace: dict[str, Any] = {
            "inf": math.inf,
            "nan": math.nan,
            "ceil": math.ceil,
            "floor": math.floor,
            "bits": float_bits,
            **{f"g{i}": value for i, value in enumerate(self._captured)},
        }
        exec("\n ".join(lines), namespace)
        return namespace["function"]


def _names(uses: Iterable[Any]) -> tuple[str, ...]:
    return tuple(x if isinstance(x, str) else x.name for x in uses if isinstance(x, str | Named))


def text_of(number: Any) -> str:
    """The expression for a number, symbolic or plain."""
    if isinstance(number, Named):
        return number.name
    plain = float(number) if isinstance(number, float) else int(number)
    return f"({plain!r})" if plain < 0 else repr(plain)
