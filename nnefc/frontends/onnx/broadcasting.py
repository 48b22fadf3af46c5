"""Operands of element-wise operators: one item type, aligned as the version of ONNX has it.

Since version 7 operands broadcast as in NumPy, aligned at the last dimension.  Before, the second
operand was aligned at dimension `axis` of the first, if the attribute `broadcast` was set.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators import boolean_arithmetic
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.ir import DType
from nnefc.symbolic.integers import statically_equal


def aligned(make: OpBuilder, *operands: Operand) -> list[Operand]:
    """Operands of one rank: leading extents of 1 are added."""
    rank = max(x.type.rank for x in operands)
    return [make.aligned_right(x, rank) if x.type.rank else x for x in operands]


def aligned_at(make: OpBuilder, x: Operand, y: Operand, axis: int | None) -> Operand:
    """`y` with the rank of `x`, its first dimension at `axis` of `x`; by default at the end.

    Raises OperatorError for an axis at which `y` does not fit.
    """
    rank, dims = x.type.rank, y.type.dims
    start = rank - len(dims) if axis is None else axis + rank * (axis < 0)
    while start + len(dims) > rank and dims and statically_equal(dims[-1], 1):
        dims = dims[:-1]
    if not 0 <= start <= rank - len(dims):
        message = f"shape {list(dims)} does not fit into {list(x.type.dims)} at axis {axis}"
        raise OperatorError("onnx/shape", message)
    return make.reshape(y, (1,) * start + dims + (1,) * (rank - start - len(dims)))


def binary(make: OpBuilder, name: str, x: Operand, y: Operand) -> Any:
    """Operation `name` of two operands that broadcast as in NumPy; also for booleans."""
    if x.type.dtype is DType.BOOL:
        result = boolean_arithmetic.binary(make, name, *aligned(make, x, y))
        if result is not None:
            return result
    return make(name, *aligned(make, x, y))


def constant(x: Operand, number: float) -> KnownTensor:
    """A number with the item type of `x`."""
    dtype = x.type.dtype
    with np.errstate(all="ignore"):
        return KnownTensor(np.array(number).astype(dtype.numpy), dtype)


def widened(make: OpBuilder, x: Operand) -> Operand:
    """`x` in the item type for formulas of several operations: 16-bit floats become float32.

    Intermediate results would otherwise be rounded to 16 bits; integers become float64.
    """
    dtype = x.type.dtype
    if dtype.is_half:
        return make.cast(x, DType.FLOAT32)
    return x if dtype.is_float else make.cast(x, DType.FLOAT64)
