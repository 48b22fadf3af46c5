"""Compute 16-bit floats in float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.core.traits import ItemTypes
from nnefc.ops.tools.table import traits_of


@dataclass(frozen=True)
class WidenHalves:
    """Compute float16 and bfloat16 arithmetic in float32.

        %t: float16[3,2] = transpose(%w) {axes = [1, 0]}
        %p: float16[4,2] = matmul(%x, %t) {...}
        %y: float16[4,2] = add(%p, %b)

    becomes

        %t: float16[3,2] = transpose(%w) {axes = [1, 0]}
        %0: float32[4,3] = cast(%x)
        %1: float32[3,2] = cast(%t)
        %p: float32[4,2] = matmul(%0, %1) {...}
        %2: float32[2] = cast(%b)
        %y: float32[4,2] = add(%p, %2)
        %3: float16[4,2] = cast(%y)

    Inputs, outputs, variables and states of loops keep their types.  In between, only a `cast`
    rounds to 16 bits.  Items that no arithmetic has computed are moved in 16 bits.
    """

    name: ClassVar[str] = "widen_halves"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        values = (*graph.inputs, *(v for op in graph.ops for v in (*op.inputs, *op.outputs)))
        if not any(map(_is_half, values)):
            return False
        return _Widening(graph).run()


def _is_half(value: Value) -> bool:
    return value.type.dtype.is_half


def _moves(op: Op) -> bool:
    """Whether `op` only moves items, without a reduction."""
    moves = traits_of(op).item_types is ItemTypes.MOVED
    return moves and op.attributes.get("reduction", "none") == "none"


class _Widening:
    """The rewrite of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._wide: dict[Value, Value] = {}
        """The float32 counterparts of 16-bit values."""
        self._computed: set[Value] = set()
        """16-bit values that are computed in float32 only; `_narrow` has conversions back."""
        self._narrow: dict[Value, Value] = {}
        self._replaced: list[Op] = []
        """Operations to erase at the end, which others replace."""
        self._changed = False

    def run(self) -> bool:
        graph = self._graph
        for op in graph.ops:
            if any(map(_is_half, (*op.inputs, *op.outputs))):
                self._operation(op)
        if not self._computed.isdisjoint(graph.outputs):
            graph.outputs = [self._stored(value, None) for value in graph.outputs]
        for op in reversed(self._replaced):
            graph.erase(op)
        return self._changed

    def _operation(self, op: Op) -> None:
        """Rewrite an operation with 16-bit operands or results."""
        computed = not self._computed.isdisjoint(op.inputs)
        from_other = op.name == "cast" and not _is_half(op.inputs[0])
        stored = traits_of(op).item_types is ItemTypes.STORED
        if stored or from_other or (_moves(op) and not computed):
            for index, value in enumerate(op.inputs):
                op.set_input(index, self._stored(value, op))
            return
        operands = [self._widened(v, op) if _is_half(v) else v for v in op.inputs]
        self._replaced.append(op)
        self._changed = True
        if op.name == "cast" and op.output.type.dtype is DType.FLOAT32:
            self._graph.replace_value(op.output, operands[0])
            return
        types = [v.type if op.name == "cast" else _widened_type(v.type) for v in op.outputs]
        names = [v.name for v in op.outputs]
        new = Op(op.name, operands, op.attributes, types, names, op.location)
        self._graph.insert(new, op)
        for old, value in zip(op.outputs, new.outputs, strict=True):
            if value.type == old.type:
                self._graph.replace_value(old, value)
            else:
                self._wide[old] = value
                self._computed.add(old)

    def _widened(self, value: Value, before: Op) -> Value:
        """`value` in float32."""
        wide = self._wide.get(value)
        if wide is None:
            wide = self._wide[value] = self._cast(value, DType.FLOAT32, before)
        return wide

    def _stored(self, value: Value, before: Op | None) -> Value:
        """`value` in its own type."""
        if value not in self._computed:
            return value
        narrow = self._narrow.get(value)
        if narrow is None:
            dtype = value.type.dtype
            narrow = self._narrow[value] = self._cast(self._wide[value], dtype, before)
        return narrow

    def _cast(self, value: Value, dtype: DType, before: Op | None) -> Value:
        self._changed = True
        return self._graph.insert(
            Op("cast", [value], {}, [value.type.with_dtype(dtype)]), before
        ).output


def _widened_type(type_: TensorType) -> TensorType:
    return type_.with_dtype(DType.FLOAT32) if type_.dtype.is_half else type_
