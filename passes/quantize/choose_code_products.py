"""Compute products of codes by integer kernels; others are expanded into floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.broadcast import align
from nnefc.ops.core.spec import Emit
from nnefc.ops.extended.integer_products import without_width
from nnefc.ops.internal.code_matmul import NAME, differences_fit
from nnefc.ops.tools.build import emitter
from nnefc.passes.analysis.integer_support import float_reason
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import replace

_MIDDLE = {DType.INT8: 0, DType.UINT8: 128}
"""Zero points with which all codes less the zero point fit into int8."""


@dataclass(frozen=True)
class ChooseCodeProducts:
    """Rename products of codes that a kernel computes.

        %y: int32[2,3] = integer_matmul(%x, %w, %x_zero, %w_zero) {...}

    becomes

        %y: int32[2,3] = code_matmul(%x, %w, %x_zero, %w_zero) {...}

    Zero points for which the kernel has no operand become further terms.  If those of columns of a
    known %w differ, and %w less %w_zero exceeds int8, they become the middle of the codes:

        %y = code_matmul(%x, %w, %x_zero, middle) + (middle - %w_zero) * rows
        rows = code_matmul(%x, ones, %x_zero, 0)

    If those of the rows of %x differ:

        %y = code_matmul(%x, %w, 0, %w_zero) - %x_zero * (sums of the columns of %w - %w_zero)
    """

    name: ClassVar[str] = "choose_code_products"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known = KnownValues(graph)
        changed = False
        for op in list(graph.ops):
            if op.name == "integer_matmul" and float_reason(op, known) is None:
                replace(graph, op, [_Product(graph, op, known).sums()])
                changed = True
        return changed


class _Product:
    """Inserts the operations that compute a product."""

    def __init__(self, graph: Graph, op: Op, known: KnownValues) -> None:
        self._graph, self._op = graph, op
        self._emit: Emit = emitter(graph, op, op.location)
        _, b, _, b_zero = op.inputs
        codes, zero = known.items(b), known.items(b_zero)
        self._codes = None if codes is None else np.broadcast_to(codes, b.type.dims)
        self._zero = zero

    def sums(self) -> Value:
        """The sums of products."""
        a, b, a_zero, b_zero = self._op.inputs
        if self._codes is None:
            return self._named(self._product(b, a_zero, b_zero))
        assert self._zero is not None, "`float_reason` excludes it"
        per_row = a_zero.type.volume != 1
        first = self._constant(np.zeros((), a.type.dtype.numpy)) if per_row else a_zero
        if self._zero.size == 1 or differences_fit(a.type.dtype, self._codes, self._zero):
            sums = self._product(b, first, b_zero)
        else:
            middle = np.array(_MIDDLE[b.type.dtype], b.type.dtype.numpy)
            factors = align(self._codes, int(middle) - self._zero.astype(np.int64))[1]
            columns = np.broadcast_to(factors, self._codes.shape).take([0], self._axis)
            rows = self._sums_of_rows(self._codes, first)
            sums = self._product(b, first, self._constant(middle))
            sums = self._emit("add", sums, self._emit("mul", rows, self._row(columns)))
        if per_row:
            codes, zero = align(self._codes.astype(np.int64), self._zero.astype(np.int64))
            columns = self._row((codes - zero).sum(self._axis, keepdims=True))
            zeros = self._emit("cast", a_zero, dtype=DType.INT32)
            sums = self._emit("sub", sums, self._emit("mul", zeros, columns))
        return self._named(sums)

    def _named(self, sums: Value) -> Value:
        sums.name = self._op.output.name
        return sums

    def _sums_of_rows(self, codes: Array, a_zero: Value) -> Value:
        """The sums of the rows of A less its zero point."""
        shape = (*(1,) * (codes.ndim - 2), codes.shape[self._axis], 1)
        ones, zero = np.ones(shape, np.int8), np.zeros((), np.int8)
        return self._product(self._constant(ones), a_zero, self._constant(zero), turned=False)

    def _product(self, b: Value, a_zero: Value, b_zero: Value, turned: bool | None = None) -> Value:
        """The product of A and b; `turned`: whether b is transposed, by default as B is."""
        op = self._op
        attributes = without_width(op)
        if turned is not None:
            attributes["transposeB"] = turned
        *outer, rows, _ = op.output.type.dims
        batch = outer if turned is None else op.inputs[0].type.dims[:-2]
        columns = b.type.dims[-2 if attributes["transposeB"] else -1]
        type_ = TensorType(DType.INT32, (*batch, rows, columns))
        made = Op(NAME, [op.inputs[0], b, a_zero, b_zero], attributes, [type_], (), op.location)
        return self._graph.insert(made, op).output

    def _constant(self, items: Array) -> Value:
        attributes: dict[str, Any] = {"shape": items.shape, "value": items}
        type_ = TensorType(DType(items.dtype.name), items.shape)
        return self._graph.insert(Op("constant", [], attributes, [type_]), self._op).output

    @property
    def _axis(self) -> int:
        """The dimension of B that is summed."""
        return -1 if self._op.attributes["transposeB"] else -2

    def _row(self, items: Array) -> Value:
        """A number for each column of the result, int32, from those of B, whose depth is 1."""
        rows = items.swapaxes(-1, -2) if self._axis == -1 else items
        return self._constant(rows.astype(np.int32))
