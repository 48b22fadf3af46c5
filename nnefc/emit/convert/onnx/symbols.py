"""Numbers that depend on symbols, computed by nodes of ONNX from the shapes of inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol, cast

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
    """Nodes that compute numbers, each once.

    An integer is a tensor int64 [1], a real one float64 [1].
    """

    def __init__(self, writer: Nodes) -> None:
        self._writer = writer
        self._known: dict[Any, _Number] = {}
        """Tensors by the names of numbers in the trace, or by plain numbers."""

    def vector(self, numbers: Sequence[int]) -> str:
        """A list of integers as a tensor int64 [n]; raises Unsupported."""
        pieces: list[str] = []
        for varies, group in groupby(numbers, lambda number: is_symbolic([number])):
            if varies:
                pieces += [self._integer(cast(SymInt, number)) for number in group]
            else:
                pieces.append(self._writer.store(list(group), np.int64))
        return pieces[0] if len(pieces) == 1 else self._writer.one("Concat", *pieces, axis=0)

    def _integer(self, number: SymInt) -> str:
        if number.name not in self._known:
            program = self._writer.extents.program(number)
            symbols = set(program.symbols)
            for target, op, operands in program.steps:
                if target and target not in self._known:
                    self._known[target] = self._step(op, operands, symbols)
        found = self._operand(number.name, {number.name})
        if found.is_real:
            raise Unsupported("a real number in place of an integer is not converted to ONNX")
        return found.name

    def _step(self, op: str, operands: Sequence[Any], symbols: Collection[str]) -> _Number:
        """The result of an operation; raises Unsupported."""
        numbers = [self._operand(each, symbols) for each in operands]
        is_real = op == "/" or any(each.is_real for each in numbers)
        if op in _ROUNDED:
            kind, names = _ROUNDED[op], [each.name for each in numbers]
            rounded = self._writer.one(kind, *names) if is_real else names[0]
            return _Number(self._cast(rounded, "INT64") if is_real else rounded)
        known = _REALS if is_real else _INTEGERS
        if op not in known:
            raise Unsupported(f"numbers that depend on symbols by {op!r} are not converted to ONNX")
        names = [
            self._cast(each.name, "DOUBLE") if is_real and not each.is_real else each.name
            for each in numbers
        ]
        return _Number(known[op](self._writer, *names), is_real)

    def _cast(self, name: str, kind: str) -> str:
        return self._writer.one("Cast", name, to=getattr(self._types, kind))

    @property
    def _types(self) -> Any:
        return import_module("onnx").TensorProto

    def _operand(self, operand: Any, symbols: Collection[str]) -> _Number:
        is_real = isinstance(operand, float)
        key = ("real", operand) if is_real else operand
        if key not in self._known:
            if isinstance(operand, str):
                self._known[key] = _Number(self._symbol(operand, symbols))
            elif isinstance(operand, int | float):
                kind = np.float64 if is_real else np.int64
                self._known[key] = _Number(self._writer.store([operand], kind), is_real)
            else:
                message = "numbers that depend on symbols by a table are not converted to ONNX"
                raise Unsupported(message)
        return self._known[key]

    def _symbol(self, name: str, symbols: Collection[str]) -> str:
        """The extent of an input that is a symbol; raises Unsupported."""
        for value in self._writer.graph.inputs if name in symbols else ():
            for axis, extent in enumerate(value.type.dims):
                if isinstance(extent, SymInt) and extent.name == name:
                    source = self._writer.name(value)
                    return self._writer.one("Shape", source, start=axis, end=axis + 1)
        raise Unsupported("a symbol that is no extent of an input is not converted to ONNX")


class _Number(NamedTuple):
    """A tensor with one number."""

    name: str
    is_real: bool = False


def _quotient(w: Nodes, a: str, b: str) -> str:
    """a // b, rounded down: ONNX rounds towards zero."""
    return w.one("Div", w.one("Sub", a, w.one("Mod", a, b)), b)


def _real_quotient(w: Nodes, a: str, b: str) -> str:
    return w.one("Floor", w.one("Div", a, b))


def _node(kind: str) -> Callable[..., str]:
    def write(w: Nodes, *operands: str) -> str:
        return w.one(kind, *operands)

    return write


_ROUNDED: Final = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}
"""Operations that make a real number an integer; halves are rounded to even ones."""
_REALS: Final[dict[str, Callable[..., str]]] = {
    "+": _node("Add"),
    "-": _node("Sub"),
    "*": _node("Mul"),
    "/": _node("Div"),
    "//": _real_quotient,
    "neg": _node("Neg"),
    "abs": _node("Abs"),
    "max": _node("Max"),
    "min": _node("Min"),
}
"""What writes an operation of a trace on real numbers."""
_INTEGERS: Final[dict[str, Callable[..., str]]] = {
    **_REALS,
    "//": _quotient,
    "%": _node("Mod"),
}
"""The same for integers; `Mod` has the sign of the divisor, as in Python."""
