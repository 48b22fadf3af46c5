"""Products of groups of rows with matrices, as mixtures of experts have them."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.torch.registry import operator
from nnefc.ir import DType


def _group_of_rows(make: OpBuilder, ends: Operand, rows: int) -> Operand:
    """The group [rows] of each row: the number of groups that end before it."""
    row = make.reshape(make.iota(rows), (rows, 1))
    last = make.reshape(make.cast(ends, row.type.dtype), (1, ends.type.volume))
    return make.reshape(
        make("sum_reduce", make.cast(make("ge", row, last), DType.INT64), axes=(1,)), (rows,)
    )


@operator("transformers.grouped_mm_fallback.default")
def grouped_product(make: OpBuilder, input: Operand, weight: Operand, offs: Operand) -> Any:
    """input [rows, n] times weight [groups, n, m]; group g has the rows offs[g - 1] to offs[g].

    Rows behind the last group are 0.  For few rows their matrices are gathered; otherwise all
    matrices are multiplied with all rows.
    """
    rows, width = input.type.dims
    groups, _, columns = weight.type.dims
    group = _group_of_rows(make, offs, rows)
    if rows <= groups:
        own = make("gather", weight, make("min", group, groups - 1), axis=0)
        y = make.reshape(
            make("matmul", make.reshape(input, (rows, 1, width)), own), (rows, columns)
        )
        known = make.reshape(make("lt", group, groups), (rows, 1))
        return make("select", known, make.reshape(y, (rows, columns)), 0.0)
    every = make("matmul", make.reshape(input, (1, rows, width)), weight)
    number = make.reshape(make.iota(groups), (groups, 1, 1))
    chosen = make("eq", make.reshape(group, (1, rows, 1)), make.cast(number, DType.INT64))
    y = make("sum_reduce", make("select", chosen, every, 0.0), axes=(0,))
    return make.reshape(y, (rows, columns))


@operator("aten._grouped_mm.default")
def grouped_mm(
    make: OpBuilder,
    self: Operand,
    mat2: Operand,
    offs: Operand | None = None,
    out_dtype: DType | None = None,
) -> Any:
    """The product of groups of rows; other groups than these raise OperatorError."""
    if offs is None or self.type.rank != 2 or mat2.type.rank != 3:
        message = f"groups of {self.type} and {mat2.type}"
        raise OperatorError("torch/unsupported", message)
    return grouped_product(make, self, mat2, offs)
