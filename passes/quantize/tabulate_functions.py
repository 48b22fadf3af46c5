"""Compute functions of codes by tables of their 256 codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from nnefc.ir import Graph, Op, TensorType, Value
from nnefc.ops.core.arrays import Array, widen
from nnefc.ops.core.known_items import known_items
from nnefc.ops.extended.quantized import code_limits
from nnefc.ops.internal.code_table import BYTES, NAME
from nnefc.ops.tools.table import operations
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.op_queries import is_elementwise, replace
from nnefc.symbolic.integers import statically_equal

MOST_STEPS: Final = 256
"""Most operations of a function."""


@dataclass(frozen=True)
class TabulateFunctions:
    """Replace element-wise functions of one tensor of codes, rounded to codes, by tables.

        %a: float32[4] = dequantize(%x, %s, %z)
        %b: float32[4] = sigmoid(%a)
        %y: uint8[4] = quantize(%b, %t, %0)

    becomes, but for operations that are dead now,

        %y: uint8[4] = code_table(%x) {table = [...]}

    Tables are computed by the reference, each step rounded to its type.  A function may round to
    codes in between, and its operand may come from a table, with which it is composed.  A function
    that clamps codes becomes a minimum and a maximum; the identity is removed.  Scales and zero
    points must be known numbers.
    """

    name: ClassVar[str] = "tabulate_functions"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        work = _Tables(graph, KnownValues(graph))
        return sum([work.tabulate(op) for op in list(graph.ops) if op.name == "quantize"]) > 0


@dataclass(eq=False, slots=True)
class _Tables:
    """The tables of a graph."""

    graph: Graph
    known: KnownValues
    sources: dict[Value, tuple[Value, Array]] = field(
        default_factory=dict[Value, tuple[Value, Array]]
    )
    """The operand and the codes of a value that is computed by a table."""

    def tabulate(self, op: Op) -> bool:
        """Replace a quantization by a table; returns whether it is a function of codes."""
        if op.output.type.dtype not in BYTES:
            return False
        function = _Function(op)
        leaves = function.leaves()
        if not leaves:
            return False
        found = {leaf: self.sources.get(leaf) for leaf in leaves}
        operands = {leaf if source is None else source[0] for leaf, source in found.items()}
        if len(operands) != 1:
            return False
        (operand,) = operands
        if operand in self.known:
            return False
        every = np.arange(256) + code_limits(operand.type.dtype)[0]
        with np.errstate(all="ignore"):
            codes = function.codes(
                {leaf: every if source is None else source[1] for leaf, source in found.items()}
            )
        if codes is None:
            return False
        result = self._computed(op, operand, codes)
        self.sources[result] = operand, codes
        result.name = result.name or op.output.name
        replace(self.graph, op, [result])
        return True

    def _computed(self, op: Op, operand: Value, codes: Array) -> Value:
        """The codes of the function, by operations inserted before `op`."""
        type_ = op.output.type
        every = np.arange(256) + code_limits(operand.type.dtype)[0]
        low, high = int(codes.min()), int(codes.max())
        if operand.type.dtype is not type_.dtype or (codes != np.clip(every, low, high)).any():
            table = tuple(int(code) for code in codes)
            made = Op(NAME, [operand], {"table": table}, [type_], (), op.location)
            return self.graph.insert(made, op).output
        value = operand
        for name, bound, none in (("max", low, every[0]), ("min", high, every[-1])):
            if bound != none:
                number = constant_op(np.array(bound), TensorType(type_.dtype, ()), op.location)
                operands = [value, self.graph.insert(number, op).output]
                value = self.graph.insert(Op(name, operands, {}, [type_]), op).output
        return value


class _Function:
    """The element-wise operations between dequantized tensors and a quantization."""

    def __init__(self, quantize: Op) -> None:
        self._quantize = quantize
        self._steps: dict[Op, None] = {}
        """In the order of execution."""

    def leaves(self) -> set[Value]:
        """The tensors of codes that it is a function of; none if it is no such function."""
        found: set[Value] = set()
        seen: set[Value] = set()
        waiting: list[tuple[Value, bool]] = [(v, False) for v in self._quantize.inputs]
        while waiting:
            value, computed = waiting.pop()
            op = value.op
            if computed:
                assert op is not None
                self._steps[op] = None
                continue
            if value in seen or _number(value) is not None:
                continue
            seen.add(value)
            if op is None or not self._is_step(op) or len(seen) > MOST_STEPS:
                return set()
            waiting.append((value, True))
            if op.name == "dequantize":
                found.add(op.inputs[0])
                waiting += [(v, False) for v in op.inputs[1:]]
            else:
                waiting += [(v, False) for v in op.inputs]
        return found

    def _is_step(self, op: Op) -> bool:
        """Whether an operation may compute a step: items of the shape of the result."""
        if op.name != "dequantize" and not is_elementwise(op):
            return False
        if op.name == "dequantize" and op.inputs[0].type.dtype not in BYTES:
            return False
        shape, wanted = op.output.type.shape, self._quantize.output.type.shape
        if shape is None or wanted is None or len(shape) != len(wanted):
            return False
        if op.name == "dequantize" and op.inputs[0].type.rank != len(wanted):
            return False
        return all(map(statically_equal, shape, wanted))

    def codes(self, leaves: dict[Value, Array]) -> Array | None:
        """The 256 codes of the function for those of its leaves; None if some are undefined."""
        values: dict[Value, Array] = dict(leaves)

        def item(value: Value) -> Array:
            number = _number(value)
            return values[value] if number is None else number

        for op in (*self._steps, self._quantize):
            spec = operations()[op.name]
            assert spec.reference is not None, op.name
            dtype = op.output.type.dtype
            operands: Sequence[Array] = [item(v) for v in op.inputs]
            extra = {"dtype": dtype} if spec.chooses_type else {}
            result = np.asarray(spec.reference(*operands, **op.attributes, **extra))
            if op is self._quantize and np.isnan(result).any():
                return None
            # Each step is rounded as in a run: a step function behind it must not see more digits.
            values[op.output] = widen(result.astype(dtype.numpy), dtype)
        return np.broadcast_to(values[self._quantize.output], (256,))


def _number(value: Value) -> Array | None:
    """A known number, as references take it; None for other values."""
    items = known_items(value)
    if items is None or items.size != 1 or value.type.volume != 1:
        return None
    return widen(items.reshape(()), value.type.dtype)
