"""Constants, identities, shapes and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import SparseTensorProto

from nnefc.frontends.common.counted_tensors import counted_shape, counted_volume
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import (
    KnownTensor,
    Operand,
    OperatorError,
    StringTensor,
    integer_array,
)
from nnefc.frontends.onnx.node import Node
from nnefc.frontends.onnx.registry import Floats, Integers, Strings, operator
from nnefc.ir import DType


@operator("Constant")
def constant(
    make: OpBuilder,
    *,
    sparse_value: SparseTensorProto | None = None,
    value: Any = None,
    value_float: float | None = None,
    value_floats: Floats | None = None,
    value_int: int | None = None,
    value_ints: Integers | None = None,
    value_string: str | None = None,
    value_strings: Strings | None = None,
) -> Any:
    if sparse_value is not None:
        return make.evaluator.model.tensors.dense(sparse_value)
    if value_string is not None or value_strings is not None:
        items = value_string if value_strings is None else list(value_strings)
        return StringTensor(np.array(items, object))
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
    dims = counted_shape(make, data)
    return KnownTensor(integer_array(dims[slice(start, end)]), DType.INT64)


@operator("Size")
def size(make: OpBuilder, data: Operand) -> Any:
    return KnownTensor(integer_array(counted_volume(make, data)), DType.INT64)


# -- dropout, an identity at inference


@operator("Dropout", until=5)
def dropout_1(
    make: OpBuilder,
    data: Operand,
    *,
    is_test: int = 0,
    consumed_inputs: Any = None,
    ratio: float = 0.5,
    node: Node,
) -> Any:
    return _unchanged(make, data, data.type.dtype, node)


@operator("Dropout", since=6, until=6)
def dropout_6(
    make: OpBuilder, data: Operand, *, is_test: int = 0, ratio: float = 0.5, node: Node
) -> Any:
    return _unchanged(make, data, data.type.dtype, node)


@operator("Dropout", since=7, until=11)
def dropout_7(make: OpBuilder, data: Operand, *, ratio: float = 0.5, node: Node) -> Any:
    dtype = data.type.dtype if node.version < 10 else DType.BOOL
    return _unchanged(make, data, dtype, node)


@operator("Dropout", since=12)
def dropout(
    make: OpBuilder,
    data: Operand,
    ratio: Operand | None = None,
    training_mode: Operand | None = None,
    *,
    seed: int = 0,
    node: Node,
) -> Any:
    keeps_all = isinstance(ratio, KnownTensor) and not ratio.array.any()
    is_inference = training_mode is None or (
        isinstance(training_mode, KnownTensor) and not training_mode.array.any()
    )
    if not is_inference and not keeps_all:
        hint = "export the model for inference, with training_mode = false"
        message = "dropout of a model in training"
        raise OperatorError("onnx/unsupported", message, hint, [training_mode, ratio])
    return _unchanged(make, data, DType.BOOL, node)


def _unchanged(make: OpBuilder, x: Operand, mask: DType, node: Node) -> Any:
    """The input, and a mask of ones if it is wanted."""
    if not node.is_wanted(1):
        return x
    one = KnownTensor(np.ones((1,) * x.type.rank, mask.numpy), mask)
    return x, make.repeated(one, x.type.dims)
