"""Determinants and inverses of square matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import EmptyTensor, KnownTensor, Operand, OperatorError
from nnefc.frontends.onnx.broadcasting import constant
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.ir import DType, TensorType


@operator("Det", since=11)
def det(make: OpBuilder, X: Operand) -> Any:
    """The determinants [..] of matrices [.., n, n], by elimination with partial pivoting.

    16-bit floats are computed in float32.  The determinant of a matrix without items is 1.  Raises
    OperatorError for matrices that are not square.
    """
    outer, rows = _square("det", X)
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


@operator("Inverse", domain=MICROSOFT)
def inverse(make: OpBuilder, X: Operand) -> Any:
    """The inverses of matrices [.., n, n], by elimination with partial pivoting.

    16-bit floats are computed in float32.  Those of singular matrices have infinities or NaN.
    Raises OperatorError for matrices that are not square.
    """
    outer, rows = _square("inverse", X)
    batch = math.prod(outer)
    if batch == 0 or rows == 0:
        return X
    wide = accumulation_type(X.type.dtype)
    y = _inverted(make, make.reshape(make.cast(X, wide), (batch, rows, rows)))
    return make.cast(make.reshape(y, X.type.dims), X.type.dtype)


def _square(name: str, x: Operand) -> tuple[list[int], int]:
    """The leading extents of square matrices [.., n, n], and n; raises OperatorError."""
    *outer, rows, columns = of_rank_at_least(name, "X", x, 2)
    if rows != columns:
        message = f"X has shape {list(x.type.dims)}; the matrices must be square"
        raise OperatorError(f"argument/{name}", message)
    return outer, rows


@dataclass(frozen=True, slots=True)
class _Pivots:
    """The pivots of matrices x [batch, n, n] in one column, the largest in rows that are free."""

    column: Operand
    """[batch, n]: the items of the column."""
    row: Operand
    """[batch, 1]: the index of the row."""
    mask: Operand
    """[batch, n]: whether a row is that of the pivot."""
    value: Operand
    """[batch, 1]."""

    def row_of(self, make: OpBuilder, x: Operand) -> Operand:
        """The rows of the pivots of matrices, [batch, 1, n]."""
        batch, rows, _ = x.type.dims
        chosen = make("select", make.reshape(self.mask, (batch, rows, 1)), x, constant(x, 0))
        return make("sum_reduce", chosen, axes=(1,))


def _pivots(make: OpBuilder, x: Operand, is_free: Operand, step: Operand) -> _Pivots:
    """`is_free`: [batch, n]; `step`: the column."""
    batch, rows, _ = x.type.dims
    column = make.reshape(make("gather", x, make.reshape(step, (1,)), axis=2), (batch, rows))
    sizes = make("select", is_free, make("abs", column), constant(x, -1))
    row = make.cast(make.reshape(make("argmax_reduce", sizes, axes=(1,)), (batch, 1)), DType.INT64)
    mask = make("eq", make.reshape(make.iota(rows), (1, rows)), row)
    value = make("sum_reduce", make("select", mask, column, constant(x, 0)), axes=(1,))
    return _Pivots(column, row, mask, value)


def _inverted(make: OpBuilder, matrices: Operand) -> Operand:
    """The inverses of matrices [batch, n, n].

    Each turn makes a column of the matrices that of the identity, but for the order of the rows,
    and does the same to the identity.
    """
    batch, rows, _ = matrices.type.dims
    wide = matrices.type.dtype
    steps = make.reshape(make.iota(rows), (rows, 1, 1))
    eye = KnownTensor(np.eye(rows, dtype=wide.numpy)[None], wide)
    unused = make.repeated(
        make.cast(make.reshape(constant(matrices, 1), (1, 1)), wide), (batch, rows)
    )

    def turn(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        del whole
        x, y, free = before
        pivots = _pivots(within, x, within("gt", free, constant(x, 0)), slices[0])
        of_row = within.reshape(pivots.mask, (batch, rows, 1))
        column = within.reshape(pivots.column, (batch, rows, 1))
        value = within.reshape(pivots.value, (batch, 1, 1))
        after: list[Operand] = []
        for each in (x, y):
            row = within("div", pivots.row_of(within, each), value)
            rest = within("sub", each, within("mul", column, row))
            after.append(within("select", of_row, row, rest))
        free = within("select", pivots.mask, constant(x, 0), free)
        mask = within.cast(pivots.mask, wide)
        return [*after, free], [within.reshape(mask, (1, batch, rows))]

    states = [make.value(x) for x in (matrices, make.repeated(eye, (batch, rows, rows)), unused)]
    (_, y, _), (order,) = loop(make, rows, states, [make.value(steps)], [], turn)
    # row i of the inverse is that of the pivot of column i
    return make("gather_elements", y, _rows_of(make, order, rows), axis=1)


def _rows_of(make: OpBuilder, masks: Operand, width: int) -> Operand:
    """The rows [batch, n, width] that masks [n, batch, rows] choose."""
    count, batch, _ = masks.type.dims
    index = make("argmax_reduce", masks, axes=(2,))
    index = make.transpose(make.reshape(index, (count, batch, 1)), (1, 0, 2))
    return make.repeated(make.cast(index, DType.INT64), (batch, count, width))


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
        is_free = within("gt", free, zero)
        pivots = _pivots(within, x, is_free, slices[0])
        value = pivots.value
        row = pivots.row_of(within, x)
        divisor = within("select", within("eq", value, zero), one, value)
        factors = within("select", pivots.mask, zero, within("div", pivots.column, divisor))
        factors = within("select", is_free, factors, zero)
        x = within("sub", x, within("mul", within.reshape(factors, (batch, rows, 1)), row))
        before_pivot = within("lt", index, pivots.row)
        passed = within("select", within("and", before_pivot, is_free), constant(x, -1), one)
        sign = within("product_reduce", passed, axes=(1,))
        factor = within("mul", value, sign)
        product = within("mul", product, within.reshape(factor, (batch,)))
        free = within("select", pivots.mask, zero, free)
        return [x, free, product], []

    states = [make.value(matrices), make.value(unused), ones]
    (_, _, product), _ = loop(make, rows, states, [make.value(steps)], [], turn)
    return product
