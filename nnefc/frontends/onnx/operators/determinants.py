"""Determinants of square matrices."""

from __future__ import annotations

import math
from typing import Any

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import EmptyTensor, Operand, OperatorError
from nnefc.frontends.onnx.broadcasting import constant
from nnefc.frontends.onnx.registry import operator
from nnefc.ir import DType, TensorType


@operator("Det", since=11)
def det(make: OpBuilder, X: Operand) -> Any:
    """The determinants [..] of matrices [.., n, n], by elimination with partial pivoting.

    16-bit floats are computed in float32.  The determinant of a matrix without items is 1.  Raises
    OperatorError for matrices that are not square.
    """
    *outer, rows, columns = of_rank_at_least("det", "X", X, 2)
    if rows != columns:
        message = f"X has shape {list(X.type.dims)}; the matrices must be square"
        raise OperatorError("argument/det", message)
    if not X.type.dtype.is_float:
        raise OperatorError("type/operand", f"det of {X.type.dtype}; floats are expected")
    batch = math.prod(outer)
    if batch == 0:
        return EmptyTensor(TensorType(X.type.dtype, tuple(outer)))
    wide = accumulation_type(X.type.dtype)
    one = make.cast(constant(X, 1), wide)
    product = make.repeated(make.reshape(one, (1,)), (batch,))
    if rows:
        matrices = make.reshape(make.cast(X, wide), (batch, rows, rows))
        product = _eliminated(make, matrices, make.value(product))
    return make.cast(make.reshape(product, tuple(outer)), X.type.dtype)


def _eliminated(make: OpBuilder, matrices: Operand, ones: Operand) -> Operand:
    """The determinants [batch] of matrices [batch, n, n].

    Each turn adds multiples of the row of the pivot to all rows, so that column `step` becomes 0.
    The row of the pivot becomes 0, too: later turns do not choose it.  The rows of the pivots are a
    permutation, whose sign is that of the number of inversions.
    """
    batch, rows, _ = matrices.type.dims
    wide = matrices.type.dtype
    steps = make.reshape(make.iota(rows), (rows, 1, 1))
    unused = make.repeated(make.cast(make.reshape(constant(ones, 1), (1, 1)), wide), (batch, rows))
    index = make.reshape(make.iota(rows), (1, rows))

    def turn(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        del whole
        x, free, product = before
        zero, one = constant(x, 0), constant(x, 1)
        step = within.reshape(slices[0], (1,))
        column = within.reshape(within("gather", x, step, axis=2), (batch, rows))
        is_free = within("gt", free, zero)
        sizes = within("select", is_free, within("abs", column), constant(x, -1))
        pivot = within.reshape(within("argmax_reduce", sizes, axes=(1,)), (batch, 1))
        is_pivot = within("eq", index, within.cast(pivot, DType.INT64))
        chosen = within("select", is_pivot, column, zero)
        value = within("sum_reduce", chosen, axes=(1,))
        of_row = within.reshape(is_pivot, (batch, rows, 1))
        row = within("sum_reduce", within("select", of_row, x, zero), axes=(1,))
        divisor = within("select", within("eq", value, zero), one, value)
        factors = within("select", is_pivot, zero, within("div", column, divisor))
        factors = within("select", is_free, factors, zero)
        x = within("sub", x, within("mul", within.reshape(factors, (batch, rows, 1)), row))
        before_pivot = within("lt", index, within.cast(pivot, DType.INT64))
        passed = within("select", within("and", before_pivot, is_free), constant(x, -1), one)
        sign = within("product_reduce", passed, axes=(1,))
        factor = within("mul", value, sign)
        product = within("mul", product, within.reshape(factor, (batch,)))
        free = within("select", is_pivot, zero, free)
        return [x, free, product], []

    states = [make.value(matrices), make.value(unused), ones]
    (_, _, product), _ = loop(make, rows, states, [make.value(steps)], [], turn)
    return product
