"""The straight-line program that a trace records.

A recording is a list of steps: assignments and guards, which are operations on variables and
numbers.  `Recording.program` keeps the steps that results and guards need, as data:
`nnefc.symbolic.straight_line` translates it into a Python function.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from nnefc.symbolic.straight_line import Function, Number, Operand, Step, StraightLine, text

__all__ = ["Function", "Named", "Number", "Recording", "operand"]


class Named:
    """A value that is computed from symbols: a variable of the recorded program."""

    __slots__ = ("name", "value")

    def __init__(self, value: Any, name: str) -> None:
        self.value = value
        """The hint: the value for the symbols' values during the trace."""
        self.name = name


class Recording:
    """Assignments and guards in the order in which they were recorded."""

    def __init__(self) -> None:
        self.symbols: list[str] = []
        """Parameters of the function, in order."""
        self._steps: list[Step] = []
        self._guards: set[str] = set()
        self.asked = 0
        """How often a guard was asked for, also for one that was recorded before."""
        self._decisions: set[str] = set()
        """The guards of what the model itself compares."""
        self._limits: set[str] = set()
        """The guards of bounds that operators limit to an extent."""
        self._marked: set[str] | None = None
        """The guards of these two kinds to which new ones belong."""
        self._captured: list[Any] = []
        """Functions, and arguments of them that do not depend on symbols."""
        self._captured_names: dict[Any, str] = {}

    @property
    def guards(self) -> list[str]:
        """The guards as text, in the order in which they were recorded."""
        return [text(step.op, step.operands) for step in self._steps if not step.target]

    def assign(self, op: str, *operands: Any, name: str = "") -> str:
        """Record an assignment; returns the variable, a new one without `name`."""
        name = name or f"a{len(self._steps)}"
        self._steps.append(Step(name, op, tuple(map(operand, operands))))
        return name

    def guard(self, op: str, *operands: Any) -> None:
        """Record a guard, which holds for the hints."""
        self.asked += 1
        step = Step("", op, tuple(map(operand, operands)))
        condition = text(step.op, step.operands)
        if self._marked is not None:
            self._marked.add(condition)
        if condition not in self._guards:
            self._guards.add(condition)
            self._steps.append(step)

    @contextmanager
    def deciding(self) -> Generator[None]:
        """Guards in the block are decisions of the model, such as the condition of a branch."""
        with self._marking(self._decisions):
            yield

    @contextmanager
    def limiting(self) -> Generator[None]:
        """Guards in the block limit bounds to an extent, as those of a slice."""
        with self._marking(self._limits):
            yield

    @contextmanager
    def _marking(self, guards: set[str]) -> Generator[None]:
        outer, self._marked = self._marked, guards
        try:
            yield
        finally:
            self._marked = outer

    def decisions(self) -> Function:
        """A function of the symbols that returns None where the model decides otherwise."""
        return self._function_of(self._decisions)

    def limits(self) -> Function:
        """A function of the symbols that returns None where other bounds are limited."""
        return self._function_of(self._limits)

    def _function_of(self, guards: set[str]) -> Function:
        kept = [
            step for step in self._steps if step.target or text(step.op, step.operands) in guards
        ]
        return self._program(kept, ()).function()

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

    def program(self, results: Sequence[Number | Named]) -> StraightLine:
        """The straight-line program of the symbols that computes `results`."""
        return self._program(self._steps, tuple(map(operand, results)))

    def _program(self, every: Sequence[Step], returned: tuple[Operand, ...]) -> StraightLine:
        """The program of the guards among some steps, and of the assignments that it needs."""
        needed = set(_names(returned))
        steps: list[Step] = []
        for step in reversed(every):
            if step.target and step.target not in needed:
                continue
            needed.update(_names(step.operands))
            steps.append(step)
        used = [f"g{i}" in needed for i in range(len(self._captured))]
        captured = [x if is_used else None for x, is_used in zip(self._captured, used, strict=True)]
        return StraightLine(
            tuple(self.symbols),
            tuple(captured) if any(used) else (),
            tuple(reversed(steps)),
            returned,
        )

    def function(self, results: Sequence[Number | Named]) -> Function:
        """The function of the symbols that computes `results`, variables or plain numbers."""
        return self.program(results).function()


def operand(value: Any) -> Operand:
    """An operand of a step: a name, a number, or a tuple of a constructor's name and operands."""
    if isinstance(value, Named):
        return value.name
    if isinstance(value, str | bool):
        return value
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(map(operand, items))
    return float(value) if isinstance(value, float) else int(value)


def _names(operands: Iterable[Operand]) -> Iterable[str]:
    """The names in some operands."""
    for each in operands:
        if isinstance(each, str):
            yield each
        elif isinstance(each, tuple):
            yield from _names(each)
