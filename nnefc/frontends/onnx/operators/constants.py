"""Constants, identities, shapes and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, integer_array
from nnefc.frontends.onnx.registry import Floats, Integers, operator
from nnefc.ir import DType


@operator("Constant")
def constant(
    make: OpBuilder,
    *,
    value: Any = None,
    value_float: float | None = None,
    value_floats: Floats | None = None,
    value_int: int | None = None,
    value_ints: Integers | None = None,
) -> Any:
    if value is not None:
        return value
    if value_float is not None:
        return KnownTensor(np.array(value_float, np.float32), DType.FLOAT32)
    if value_floats is not None:
        return KnownTensor(np.array(value_floats, np.float32), DType.FLOAT32)
    if value_int is not None:
        return KnownTensor(np.array(value_int, np.int64), DType.INT64)
    if value_ints is not None:
        return KnownTensor(np.array(value_ints, np.int64), DType.INT64)
    raise OperatorError("onnx/arguments", "a constant has no value of numbers or booleans")


@operator("Identity")
def identity(make: OpBuilder, input: Any) -> Any:
    return input


@operator("Shape")
def shape(make: OpBuilder, data: Operand, *, start: int = 0, end: int | None = None) -> Any:
    dims = data.type.dims
    return KnownTensor(integer_array(list(dims[slice(start, end)])), DType.INT64)


@operator("Size")
def size(make: OpBuilder, data: Operand) -> Any:
    return KnownTensor(integer_array(data.type.volume), DType.INT64)
