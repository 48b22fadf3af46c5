"""Compute quantized results in units of their scale, without divisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.broadcast import aligned
from nnefc.ops.core.known_items import known_items
from nnefc.ops.core.spec import Emit
from nnefc.ops.internal import code_sums
from nnefc.ops.tools.build import emitter
from nnefc.passes.analysis.known_data import constant_op
from nnefc.passes.op_queries import only_user, replace

LARGEST, SMALLEST = 1e30, 1e-30
"""Factors between these are normal numbers of float32, and so are their quotients."""
LONGEST: Final = 64
"""Operations in a row that a division is moved before."""
HOMOGENEOUS: Final = ("relu", "min", "max", "add", "sub")
"""f(x / t, y / t) = f(x, y) / t for t > 0."""


@dataclass(frozen=True)
class RescaleCodes:
    """Divide by the scale of a result before sums, where that joins scales of operands.

        %a: float32[4] = dequantize(%x, %s, %0)
        %b: float32[4] = dequantize(%u, %t, %0)
        %c: float32[4] = add(%a, %b)
        %y: uint8[4] = quantize(%c, %r, %z)

    becomes, with factors that are computed in float64 and rounded once,

        %1: float32[4] = cast(%x)
        %2: float32[4] = mul(%1, %s_by_r)
        %3: float32[4] = cast(%u)
        %4: float32[4] = mul(%3, %t_by_r)
        %5: float32[4] = add(%2, %4)
        %y: uint8[4] = quantize(%5, %one, %z)

    Operands with equal scales are added first, which is exact.  Scales and zero points must be
    known.  Values with other users are computed as they are, and multiplied.
    """

    name: ClassVar[str] = "rescale_codes"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        for op in list(graph.ops):
            if op.name != "quantize" or op.inputs[0].type.dtype is not DType.FLOAT32:
                continue
            scale = _positive(op.inputs[1])
            if scale is not None and reads_codes(op.inputs[0]):
                _rescale(graph, op, scale)
                changed = True
        return changed


def reads_codes(value: Value, steps: int = LONGEST) -> bool:
    """Whether a value is computed from codes by at most so many operations that commute with
    factors.
    """
    op = value.op
    if op is None or not steps:
        return False
    if op.name in ("dequantize", code_sums.BOX, code_sums.SUM_REDUCE):
        return True
    if op.name == "cast":
        return op.inputs[0].type.dtype is DType.INT32
    if op.name in (*HOMOGENEOUS, "mul", "div", "select"):
        return any(_has_one_user(v) and reads_codes(v, steps - 1) for v in op.inputs)
    return False


def _rescale(graph: Graph, op: Op, scale: Array) -> None:
    emit = emitter(graph, op, op.location)
    units = _Rescaling(graph, op, emit).units(op.inputs[0], scale)
    made = constant_op(np.ones(()), TensorType(DType.FLOAT32, ()), op.location)
    unit, zero = graph.insert(made, op).output, op.inputs[2]
    types, names = [op.output.type], [op.output.name]
    new = Op("quantize", [units, unit, zero], op.attributes, types, names, op.location)
    replace(graph, op, [graph.insert(new, op).output])


@dataclass(frozen=True, slots=True)
class _Product:
    """A value times a positive factor, in float64."""

    value: Value
    factor: Array


@dataclass(frozen=True, slots=True)
class _Rescaling:
    """Inserts operations before a quantization."""

    graph: Graph
    before: Op
    emit: Emit

    def units(self, value: Value, scale: Array, steps: int = LONGEST) -> Value:
        """value / scale, divided before at most so many operations."""
        product = self._product(value)
        if product is not None:
            return self._times(product.value, _quotient(product.factor, scale))
        op = value.op
        items = known_items(value)
        if items is not None:
            return self._constant(_quotient(items.astype(np.float64), scale))
        commutes = op is not None and op.name in (*HOMOGENEOUS, "select")
        if op is not None and commutes and steps and _has_one_user(value):
            sums = self._equal_products(op) if op.name in HOMOGENEOUS else None
            if sums is not None:
                return self._times(sums.value, _quotient(sums.factor, scale))
            first = 1 if op.name == "select" else 0
            others = [self.units(v, scale, steps - 1) for v in op.inputs[first:]]
            return self.emit(op.name, *op.inputs[:first], *others)
        return self._times(value, _quotient(np.ones(()), scale))

    def _equal_products(self, op: Op) -> _Product | None:
        """A homogeneous function of products whose factors are equal; None of others."""
        products = [self._product(v) for v in op.inputs]
        found = [product for product in products if product is not None]
        if len(found) < len(products) or len(found) < 2:
            return None
        factor = found[0].factor
        if any(not np.array_equal(factor, each.factor) for each in found):
            return None
        return _Product(self.emit(op.name, *(each.value for each in found)), factor)

    def _product(self, value: Value, steps: int = LONGEST) -> _Product | None:
        """A dequantized tensor, or few products and quotients of such and of known numbers."""
        op = value.op
        if op is None or not steps:
            return None
        if op.name == "dequantize":
            scale = _positive(op.inputs[1])
            return None if scale is None else _Product(self._less_zero(op), scale)
        if op.name not in ("mul", "div") or not _has_one_user(value):
            return None
        for i, other in enumerate(op.inputs[::-1][: 2 if op.name == "mul" else 1]):
            factor = _positive(other)
            if factor is not None:
                inner = op.inputs[i]
                product = self._product(inner, steps - 1) or _Product(inner, np.ones(()))
                joined = _times if op.name == "mul" else _quotient
                return _Product(product.value, joined(product.factor, factor))
        if op.name == "div":
            return None
        left, right = (self._product(v, steps - 1) for v in op.inputs)
        if left is None or right is None:
            return None
        value = self.emit("mul", left.value, right.value)
        return _Product(value, _times(left.factor, right.factor))

    def _less_zero(self, op: Op) -> Value:
        """The codes less their zero point, in float32; they are subtracted as integers."""
        codes, _, zero = op.inputs
        items = known_items(zero)
        if items is None or items.any():
            whole = (self.emit("cast", value, dtype=DType.INT32) for value in (codes, zero))
            codes = self.emit("sub", *whole)
        return self.emit("cast", codes, dtype=DType.FLOAT32)

    def _times(self, value: Value, factor: Array) -> Value:
        """The product; with a factor beyond float32, all results but 0 are outside of the codes."""
        factor = np.minimum(factor, np.finfo(np.float32).max)
        return value if (factor == 1).all() else self.emit("mul", value, self._constant(factor))

    def _constant(self, items: Array) -> Value:
        made = constant_op(items, TensorType(DType.FLOAT32, items.shape), self.before.location)
        return self.graph.insert(made, self.before).output


def _positive(value: Value) -> Array | None:
    """The items of a known tensor of positive numbers of usual size, in float64."""
    items = known_items(value)
    if items is None or not items.size:
        return None
    items = items.astype(np.float64)
    return items if ((items > SMALLEST) & (items < LARGEST)).all() else None


_times: Final = aligned(np.multiply)
_quotient: Final = aligned(np.divide)


def _has_one_user(value: Value) -> bool:
    """Whether one operation uses a value, and it is no result of a graph."""
    graph = value.op.graph if value.op is not None else None
    return graph is not None and only_user(graph, value) is not None
