"""Ranges, filled tensors, diagonals and triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.counted_tensors import with_counts
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import check_shape, of_rank, of_rank_at_least
from nnefc.frontends.common.operators.computed_extents import computed_range, with_bounds
from nnefc.frontends.common.operators.counted_numbers import has_counts, rooms
from nnefc.frontends.common.operators.ranges import arithmetic_sequence
from nnefc.frontends.common.values import (
    KnownTensor,
    Operand,
    OperatorError,
    integers,
    operand,
)
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.frontends.onnx.tensors import dtype_of, type_name
from nnefc.ir import DType, Value


@operator("Range", since=11, until=26)
def range_11(make: OpBuilder, start: Operand, limit: Operand, delta: Operand) -> Any:
    """start, start + delta, ... before `limit`."""
    for name, bound in {"start": start, "limit": limit, "delta": delta}.items():
        if bound.type.volume != 1:
            message = f"{name} has shape {list(bound.type.dims)}; one item is expected"
            raise OperatorError("argument/range", message)
    bounds = (start, limit, delta)
    if any(isinstance(bound, Value) or has_counts(bound) for bound in bounds):
        return computed_range(make, *(make.value(x) if has_counts(x) else x for x in bounds))
    return arithmetic_sequence(make, start, limit, delta, start.type.dtype)


@operator("Range", domain=MICROSOFT)
def microsoft_range(
    make: OpBuilder, start: Operand, limit: Operand, delta: Operand | None = None
) -> Any:
    """The step is 1 by default."""
    one = KnownTensor(np.array(1, start.type.dtype.numpy), start.type.dtype)
    return range_11(make, start, limit, one if delta is None else delta)


@operator("Range", since=27)
def range_(
    make: OpBuilder, start: Operand, limit: Operand, delta: Operand, *, stash_type: int = 1
) -> Any:
    del stash_type  # the type in which numbers are computed, which are exact here
    return range_11(make, start, limit, delta)


@operator("ConstantOfShape", since=9)
def constant_of_shape(make: OpBuilder, input: Operand, *, value: Operand | None = None) -> Any:
    input = with_bounds(make, input)
    shape = integers(rooms(input))
    one = KnownTensor(np.zeros(1, np.float32), DType.FLOAT32) if value is None else value
    if one.type.volume != 1:
        message = f"value has shape {list(one.type.dims)}; one item is expected"
        raise OperatorError("argument/constant_of_shape", message)
    check_shape(make, "input", shape, one.type.dtype)
    return with_counts(make, make.repeated(make.reshape(one, (1,) * len(shape)), shape), input)


@operator("EyeLike", since=9)
def eye_like(make: OpBuilder, input: Operand, *, dtype: int | None = None, k: int = 0) -> Any:
    """1 on diagonal `k` of a matrix of the shape of the input, 0 elsewhere."""
    rows, columns = of_rank("eye_like", "input", input, 2)
    to = input.type.dtype if dtype is None else dtype_of(dtype)
    if to is None:
        raise OperatorError("onnx/unsupported", f"items of type {type_name(dtype or 0)}")
    column, diagonal = _column_and_diagonal(make, rows, columns, k)
    return make.cast(make("eq", column, diagonal), to)


@operator("Trilu", since=14)
@operator("Trilu", domain=MICROSOFT)
def trilu(make: OpBuilder, input: Operand, k: Operand | None = None, *, upper: bool = True) -> Any:
    """The upper or lower triangle of matrices from diagonal `k`, zeros elsewhere."""
    *_, rows, columns = of_rank_at_least("trilu", "input", input, 2)
    if k is not None and k.type.volume != 1:
        raise OperatorError("argument/trilu", f"k has shape {list(k.type.dims)}")
    first: Operand | int = 0 if k is None else make.cast(make.reshape(k, ()), DType.INT64)
    if isinstance(first, KnownTensor) and not first.is_symbolic:
        first = first.array.item()
    column, diagonal = _column_and_diagonal(make, rows, columns, first)
    mask = make("ge" if upper else "le", column, diagonal)
    mask = make.aligned_right(mask, input.type.rank)
    return make("select", mask, input, make.cast(operand(0), input.type.dtype))


def _column_and_diagonal(
    make: OpBuilder, rows: int, columns: int, k: Operand | int
) -> tuple[Operand, Operand]:
    """The number of each column [1, columns], and that of diagonal `k` in each row [rows, 1]."""
    column = make.reshape(make.iota(columns), (1, columns))
    if isinstance(k, int):
        k = min(max(k, -rows), columns)  # against overflow; the result is the same
        return column, make.reshape(make.iota(rows, k), (rows, 1))
    return column, make("add", make.reshape(make.iota(rows), (rows, 1)), k)
