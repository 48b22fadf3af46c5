"""Conversions of the item type."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto, helper

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import (
    ComplexTensor,
    Operand,
    OperatorError,
    StringTensor,
    operand,
)
from nnefc.frontends.onnx.narrow_types import NarrowTensor, is_narrow, narrowed, values_of
from nnefc.frontends.onnx.registry import operator
from nnefc.frontends.onnx.tensors import StorageTensor, dtype_of, type_name


@operator("Cast", until=5)
def cast_1(make: OpBuilder, input: Any, *, to: str) -> Any:
    """`to`: the name of an item type, such as "FLOAT"."""
    if to not in TensorProto.DataType.keys():  # noqa: SIM118, it is no dictionary
        raise OperatorError("onnx/arguments", f"there is no item type {to!r}")
    return converted(make, input, TensorProto.DataType.Value(to))


@operator("Cast", since=6, until=18)
def cast_6(make: OpBuilder, input: Any, *, to: int) -> Any:
    return converted(make, input, to)


@operator("Cast", since=19, until=23)
def cast_19(make: OpBuilder, input: Any, *, saturate: bool = True, to: int) -> Any:
    return converted(make, input, to, saturate)


@operator("Cast", since=24)
def cast(
    make: OpBuilder, input: Any, *, round_mode: str = "up", saturate: bool = True, to: int
) -> Any:
    return converted(make, input, to, saturate, round_mode)


@operator("CastLike", since=15, until=18)
def cast_like_15(make: OpBuilder, input: Any, target_type: Any) -> Any:
    return converted(make, input, elem_type_of(target_type))


@operator("CastLike", since=19, until=23)
def cast_like_19(make: OpBuilder, input: Any, target_type: Any, *, saturate: bool = True) -> Any:
    return converted(make, input, elem_type_of(target_type), saturate)


@operator("CastLike", since=24)
def cast_like(
    make: OpBuilder,
    input: Any,
    target_type: Any,
    *,
    round_mode: str = "up",
    saturate: bool = True,
) -> Any:
    return converted(make, input, elem_type_of(target_type), saturate, round_mode)


def elem_type_of(x: Any) -> int:
    """The `TensorProto.DataType` of a tensor; raises OperatorError for other values."""
    if isinstance(x, StorageTensor | NarrowTensor):
        return x.elem_type
    if isinstance(x, StringTensor):
        return TensorProto.STRING
    if isinstance(x, ComplexTensor):
        raise x.wrong
    return helper.np_dtype_to_tensor_dtype(operand(x).type.dtype.numpy)


def converted(
    make: OpBuilder, x: Any, elem_type: int, saturate: bool = True, round_mode: str = "up"
) -> Any:
    """A tensor with items of type `elem_type`; raises OperatorError for strings."""
    if isinstance(x, StorageTensor | NarrowTensor):
        if x.elem_type == elem_type:
            return x
        items = values_of(make, x)
    else:
        items = _numbers(x, elem_type)
        if items is None:
            return x
    if is_narrow(elem_type):
        return narrowed(make, items, elem_type, saturate=saturate, round_mode=round_mode)
    dtype = dtype_of(elem_type)
    if dtype is None:
        raise _refused(type_name(elem_type))
    return make.cast(items, dtype)


def _numbers(x: Any, elem_type: int) -> Operand | None:
    """A tensor that can be cast; None for strings that stay strings."""
    if isinstance(x, StringTensor):
        if elem_type == TensorProto.STRING:
            return None
        raise _refused("STRING")
    if isinstance(x, ComplexTensor):
        raise _refused("COMPLEX")
    return operand(x)


def _refused(name: str) -> OperatorError:
    message = f"items of type {name} cannot be cast to or from numbers"
    return OperatorError("onnx/unsupported", message)
