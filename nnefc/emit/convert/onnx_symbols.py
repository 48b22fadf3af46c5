"""Numbers that depend on symbols, computed by nodes of ONNX from the shapes of inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, Protocol, cast

import numpy as np

from nnefc.emit.convert.extents import Extents
from nnefc.ir import Graph, Value
from nnefc.symbolic.integers import SymInt, is_symbolic


class Unsupported(Exception):
    """An operation cannot be converted; the message says why."""


class Nodes(Protocol):
    """What appends nodes: an `OnnxWriter`."""

    graph: Graph
    extents: Extents

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str: ...
    def store(self, data: Any, dtype: Any = None) -> str: ...
    def name(self, value: Value) -> str: ...


class SymbolicNumbers:
    """Nodes that compute numbers, each once; a number is a tensor int64 [1]."""

    def __init__(self, writer: Nodes) -> None:
        self._writer = writer
        self._known: dict[Any, str] = {}
        """Tensors by the names of numbers in the trace, or by plain numbers."""

    def vector(self, numbers: Sequence[int]) -> str:
        """A list as a tensor int64 [n]; raises Unsupported."""
        pieces: list[str] = []
        for varies, group in groupby(numbers, lambda number: is_symbolic([number])):
            if varies:
                pieces += [self._number(cast(SymInt, number)) for number in group]
            else:
                pieces.append(self._writer.store(list(group), np.int64))
        return pieces[0] if len(pieces) == 1 else self._writer.one("Concat", *pieces, axis=0)

    def _number(self, number: SymInt) -> str:
        if number.name not in self._known:
            program = self._writer.extents.program(number)
            for symbol in program.symbols:
                self._known.setdefault(symbol, "")
            for target, op, operands in program.steps:
                if target and target not in self._known:
                    self._known[target] = self._step(op, operands)
        return self._operand(number.name)

    def _step(self, op: str, operands: Sequence[Any]) -> str:
        """The result of an operation; raises Unsupported."""
        if op not in _OPERATIONS:
            raise Unsupported(f"numbers that depend on symbols by {op!r} are not converted to ONNX")
        return _OPERATIONS[op](self._writer, *map(self._operand, operands))

    def _operand(self, operand: Any) -> str:
        if isinstance(operand, str):
            if not self._known.get(operand):
                self._known[operand] = self._symbol(operand)
            return self._known[operand]
        if not isinstance(operand, int):
            raise Unsupported("numbers that depend on symbols by reals are not converted to ONNX")
        if operand not in self._known:
            self._known[operand] = self._writer.store([operand], np.int64)
        return self._known[operand]

    def _symbol(self, name: str) -> str:
        """The extent of an input that is a symbol; raises Unsupported."""
        for value in self._writer.graph.inputs:
            for axis, extent in enumerate(value.type.dims):
                if isinstance(extent, SymInt) and extent.name == name:
                    source = self._writer.name(value)
                    return self._writer.one("Shape", source, start=axis, end=axis + 1)
        raise Unsupported("a symbol that is no extent of an input is not converted to ONNX")


def _quotient(w: Nodes, a: str, b: str) -> str:
    """a // b, rounded down: ONNX rounds towards zero."""
    return w.one("Div", w.one("Sub", a, w.one("Mod", a, b)), b)


def _node(kind: str) -> Callable[..., str]:
    def write(w: Nodes, *operands: str) -> str:
        return w.one(kind, *operands)

    return write


_OPERATIONS: Final[dict[str, Callable[..., str]]] = {
    "+": _node("Add"),
    "-": _node("Sub"),
    "*": _node("Mul"),
    "//": _quotient,
    "%": _node("Mod"),
    "neg": _node("Neg"),
    "abs": _node("Abs"),
    "max": _node("Max"),
    "min": _node("Min"),
}
"""What writes an operation of a trace; `Mod` has the sign of the divisor, as in Python."""
