"""Write the body of a document in tract's dialect, statement by statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from nnefc.emit.convert.block_weights import is_block_data
from nnefc.emit.convert.extents import Extents, NoText
from nnefc.emit.convert.tract.literals import is_exact, is_written_in_place, number_of
from nnefc.frontends.nnef.refusals import Refusals
from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.passes.op_queries import is_constant
from nnefc.support.names import identifier, plain_label, unused_name
from nnefc.symbolic.integers import hint, is_symbolic
from nnefc.syntax.lexer import KEYWORDS
from nnefc.syntax.printer import print_literal

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNQUOTABLE = re.compile(r'[\x00-\x1f\x7f"]')
_RESERVED: Final = frozenset({*KEYWORDS, "true", "false", "inf", "nan"})
ARRAYS: Final = ("split", "unstack", "copy_n")
"""Operations whose result is an array of tensors."""
MAX_STORED_SPLAT: Final = 64
"""Tensors of equal items with more items are written as one number and a shape."""

REFUSED: Final = "flatten/operation"
"""The rule of what the dialect cannot say."""

TYPE_NAMES: Final = {
    DType.FLOAT16: "f16",
    DType.BFLOAT16: "bf16",
    DType.FLOAT32: "f32",
    DType.FLOAT64: "f64",
    DType.BOOL: "bool",
    **{DType(f"int{bits}"): f"i{bits}" for bits in (8, 16, 32, 64)},
    **{DType(f"uint{bits}"): f"u{bits}" for bits in (8, 16, 32, 64)},
}


class Unsupported(Exception):
    """The dialect cannot say an operation; the message says why."""


@dataclass
class Scope:
    """The statements of a graph or a fragment, and the names of its values."""

    names: dict[Value, str] = field(default_factory=dict[Value, str])
    taken: set[str] = field(default_factory=set[str])
    lines: list[str] = field(default_factory=list[str])
    stored: set[Value] = field(default_factory=set[Value])
    """The constants that statements have stored."""
    quotes: bool = True
    """Whether names may be quoted, so that any name stays."""

    def fresh(self, name: str) -> str:
        """`name` as an identifier, quoted if necessary, with a number if it is taken."""
        if self.quotes:
            plain = _UNQUOTABLE.sub("_", name)
        else:
            plain = identifier(name)
        if plain in _RESERVED:
            plain = f"t_{plain}"
        unused = unused_name(plain, self.taken)
        self.taken.add(unused)
        return unused


def quoted(name: str) -> str:
    """A name in the text of a document."""
    return name if _IDENTIFIER.fullmatch(name) else f'i"{name}"'


class TractWriter:
    """The statements and the tensors of a document."""

    def __init__(self, graph: Graph, extents: Extents, handlers: Mapping[str, Handler]) -> None:
        self.graph = graph
        self.extents = extents
        self.handlers = handlers
        self.tensors: dict[str, Any] = {}
        """The data of variables by label."""
        self.blocks: dict[str, str] = {}
        """The formats of those that are blocks."""
        self.fragments: list[str] = []
        self.registries = {"tract_core"}
        self.refused = Refusals()
        self.scope = Scope(taken=set(extents.symbols))
        self._labels = {variable.label.lower() for variable in graph.variables.values()}

    # -- texts

    def extent(self, number: Any) -> str:
        """The text of a number; raises Unsupported."""
        try:
            return self.extents.text(number)
        except NoText as reason:
            raise Unsupported(str(reason)) from None

    def literal(self, value: Any, *, within: bool = False) -> str:
        """The text of an attribute; an array in an array is a tuple.  Raises Unsupported."""
        match value:
            case bool() | str():
                return print_literal(value)
            case tuple() | list():
                items = list[Any](value)  # pyright: ignore[reportUnknownArgumentType]
                text = ", ".join([self.literal(item, within=True) for item in items])
                return f"({text})" if within else f"[{text}]"
            case _:
                return self.extent(value)

    def shape(self, value: Value) -> str:
        """The shape of a value as an array."""
        return self.literal(value.type.dims)

    # -- operands

    def operand(self, value: Value) -> str:
        """The name of an operand; constants are stored at first use."""
        scope = self.scope
        if is_constant(value) and value not in scope.stored:
            text = self._constant(value)
            name = scope.names.get(value) or scope.fresh(value.name or "constant")
            scope.names[value] = name
            scope.stored.add(value)
            scope.lines.append(f"{quoted(name)} = {text};")
        return quoted(scope.names[value])

    def in_place(self, op: Op, index: int) -> str:
        """An operand, as a literal where its type follows from another operand."""
        if is_written_in_place(op, index):
            return self.number(op.inputs[index])
        return self.operand(op.inputs[index])

    def number(self, value: Value) -> str:
        """The literal of a constant that is one number."""
        number = number_of(value)
        if value.type.dtype is DType.BOOL:
            return print_literal(bool(number))
        if value.type.dtype.is_float and not is_symbolic([number]):
            return print_literal(float(number))
        if value.type.dtype.is_float:
            return self.extent(number)
        return f"tract_core_cast({self.extent(number)}, to = '{TYPE_NAMES[value.type.dtype]}')"

    def _constant(self, value: Value) -> str:
        """The tensor of a constant, as an expression."""
        assert value.op is not None
        dtype, dims = value.type.dtype, value.type.dims
        items = value.op.attributes["value"]
        is_splat = np.size(items) == 1
        is_open = is_symbolic(np.asarray(items, object).reshape(-1)) or is_symbolic(dims)
        is_empty = not hint(value.type.volume)
        if is_empty or (is_splat and (is_open or self._is_large_number(value))):
            text = "0" if is_empty else self.number(value)
            if dtype.is_float or is_empty:
                text = f"tract_core_cast({text}, to = '{TYPE_NAMES[dtype]}')"
            return f"tract_core_broadcast({text}, shape = {self.literal(dims)})"
        if is_open:
            raise Unsupported("a constant whose items depend on symbols is not written")
        array = np.asarray(items, dtype.numpy)
        data = np.broadcast_to(array.reshape(() if is_splat else dims), dims)
        return self.stored(data, dtype, plain_label(value.name) if value.name else "constant")

    @staticmethod
    def _is_large_number(value: Value) -> bool:
        """Whether a constant has many equal items, with a literal of 32 bits."""
        is_large = hint(value.type.volume) > MAX_STORED_SPLAT
        exact = value.type.dtype is not DType.FLOAT64 and is_exact(value)
        return bool(is_large and exact)

    def stored(self, data: Any, dtype: DType, name: str = "constant") -> str:
        """A new variable with these data, as an expression."""
        label, number = name, 0
        while label.lower() in self._labels:
            number += 1
            label = f"{name}_{number}"
        self._labels.add(label.lower())
        return self.tensor(label, data, dtype)

    def tensor(self, label: str, data: Any, dtype: DType) -> str:
        """The variable `label` with these data, as an expression.

        Tensor files have no bfloat16, so such items are stored as the equal float32.
        """
        array = np.asarray(data)
        cast = dtype is DType.BFLOAT16
        items = array.astype(np.float32) if cast else array
        self.tensors[label] = np.ascontiguousarray(items).reshape(array.shape)
        text = f"variable<scalar>(label = '{label}', shape = {self.literal(array.shape)})"
        return f"tract_core_cast({text}, to = 'bf16')" if cast else text

    def assign(self, text: str, name: str = "t") -> str:
        """Assign an expression to a new name; returns the name."""
        name = quoted(self.scope.fresh(name))
        self.scope.lines.append(f"{name} = {text};")
        return name

    # -- statements

    def body(self, graph: Graph) -> None:
        """The statements of all operations of a graph.

        What cannot be said is counted in `refused`.
        """
        for op in graph.ops:
            if op.name == "constant" or is_block_data(op):
                continue
            try:
                text = self._expression(op)
            except Unsupported as reason:
                self.refused.add(REFUSED, str(reason), op)
                text = "refused()"
            self.define(op.outputs, text)

    def define(self, values: Sequence[Value], text: str) -> None:
        """Assign the results of an expression to values."""
        for value in values:
            if value not in self.scope.names:
                fallback = value.op.name if value.op else "t"
                self.scope.names[value] = self.scope.fresh(value.name or fallback)
        names = [quoted(self.scope.names[value]) for value in values]
        op = values[0].op
        if op is not None and op.name in ARRAYS:
            target = f"[{', '.join(names)}]"
        else:
            target = names[0] if len(names) == 1 else f"({', '.join(names)})"
        self.scope.lines.append(f"{target} = {text};")

    def _expression(self, op: Op) -> str:
        for value in op.outputs:
            if value.type.dtype not in TYPE_NAMES:
                raise Unsupported(f"'{op.name}' returns items of {value.type.dtype}")
        handler = self.handlers.get(op.name)
        if handler is None:
            raise Unsupported(f"'{op.name}' is not in the dialect of tract")
        return handler(self, op)

    def require_all(self) -> None:
        """Raise NnefError `flatten/operation` with everything that was refused, counted."""
        self.refused.require_none()


def external(writer: TractWriter, type_: TensorType) -> str:
    """An input of the graph, as an expression; raises Unsupported."""
    if type_.dtype not in TYPE_NAMES:
        raise Unsupported(f"an input has items of {type_.dtype}")
    shape = writer.literal(type_.dims)
    if type_.dtype is DType.FLOAT32:
        return f"external<scalar>(shape = {shape})"
    return f"tract_core_external(shape = {shape}, datum_type = '{TYPE_NAMES[type_.dtype]}')"


Handler = Callable[[TractWriter, Op], str]
"""Returns an operation as an expression; raises Unsupported."""
