"""`BitCast`: the bits of items as items of another type of the same width.

The IR has bit casts of 32 and 64 bits. Bits of 16-bit floats are computed from those of float32,
which has all of their numbers.
"""

from __future__ import annotations

import re
from typing import Any

from onnx import TensorProto, helper

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.onnx.broadcasting import constant
from nnefc.frontends.onnx.narrow_bytes import bytes_of, from_bytes
from nnefc.frontends.onnx.narrow_types import NarrowTensor, is_narrow
from nnefc.frontends.onnx.operators.elementwise.casts import elem_type_of
from nnefc.frontends.onnx.registry import operator
from nnefc.frontends.onnx.tensors import StorageTensor, dtype_of, type_name
from nnefc.ir import DType

_INTEGER_OF = {DType.FLOAT32: DType.INT32, DType.FLOAT64: DType.INT64}
_SIZE, _INFINITY, _FRACTION = 0x7FFFFFFF, 0x7F800000, 23
"""float32: all bits but the sign, those of infinity, and the bits of the fraction."""
_LEAST_NORMAL = 0x38800000
"""The bits of 2^-14 in float32: the smallest normal number of float16."""
_REBIASED = (127 - 15) << _FRACTION
"""The difference of the exponents of one number in float32 and float16."""


@operator("BitCast", since=26)
def bit_cast(make: OpBuilder, input: Any, *, to: int) -> Any:
    """The bits of the items as another type of the same width; NaN of 16 bits become quiet."""
    given = elem_type_of(input)
    if _bits_of(given) != _bits_of(to):
        message = f"{type_name(given)} and {type_name(to)} have different widths"
        raise OperatorError("onnx/type", message)
    is_narrow_input = isinstance(input, StorageTensor | NarrowTensor)
    x = bytes_of(make, input) if is_narrow_input else operand(input)
    if is_narrow(to):
        return from_bytes(make, make.cast(x, DType.UINT8), to)
    after = dtype_of(to)
    if after is None:
        raise OperatorError("onnx/unsupported", f"items of type {type_name(to)}")
    if isinstance(x, KnownTensor):
        if not x.is_symbolic:
            return KnownTensor(x.array.view(after.numpy), after)
        x = make.value(x)
    return _of_integers(make, _as_integers(make, x), after)


def _bits_of(elem_type: int) -> int:
    """The width of an item type; raises OperatorError for one that does not exist."""
    if is_narrow(elem_type):
        return int(re.findall(r"\d+", type_name(elem_type))[0])
    if elem_type not in TensorProto.DataType.values() or elem_type == TensorProto.UNDEFINED:
        raise OperatorError("onnx/arguments", f"there is no item type {elem_type}")
    return helper.tensor_dtype_to_np_dtype(elem_type).itemsize * 8


def _as_integers(make: OpBuilder, x: Operand) -> Operand:
    """The bits of items as integers of the same width; those of logicals as uint8."""
    dtype = x.type.dtype
    if dtype in _INTEGER_OF:
        return make("bitcast", x, dtype=_INTEGER_OF[dtype])
    if dtype is DType.BOOL:
        return make.cast(x, DType.UINT8)
    if not dtype.is_half:
        return x
    whole: Operand = make("bitcast", make.cast(x, DType.FLOAT32), dtype=DType.INT32)
    upper = make("shift_right", whole, 16)
    if dtype is DType.BFLOAT16:
        return make.cast(upper, DType.INT16)
    size = make("bitand", whole, constant(whole, _SIZE))
    normal = make("shift_right", make("sub", size, constant(size, _REBIASED)), 13)
    # a multiple of 2^-24, which is its bits in float16
    real = make("abs", make.cast(x, DType.FLOAT32))
    subnormal = make.cast(make("mul", real, constant(real, 2.0**24)), DType.INT32)
    special = make("bitor", make("shift_right", size, 13), constant(size, 0x7C00))
    is_subnormal = make("lt", size, constant(size, _LEAST_NORMAL))
    is_finite = make("lt", size, constant(size, _INFINITY))
    finite = make("select", is_subnormal, subnormal, normal)
    rest = make("bitand", make("select", is_finite, finite, special), constant(size, 0x7FFF))
    sign = make("bitand", upper, constant(upper, 0x8000))
    return make.cast(make("bitor", sign, rest), DType.INT16)


def _of_integers(make: OpBuilder, bits: Operand, dtype: DType) -> Operand:
    """The items with the given bits, integers of the width of `dtype`."""
    if dtype in _INTEGER_OF:
        return make("bitcast", make.cast(bits, _INTEGER_OF[dtype]), dtype=dtype)
    if not dtype.is_half:
        return make.cast(bits, dtype)
    whole = make.cast(bits, DType.INT32)
    if dtype is DType.BFLOAT16:
        real = make("bitcast", make("shift_left", whole, 16), dtype=DType.FLOAT32)
        return make.cast(real, dtype)
    size = make("bitand", whole, constant(whole, 0x7FFF))
    moved = make("shift_left", size, 13)
    # exponent and fraction are in place; the product corrects the bias, of subnormal numbers too
    small = make("bitcast", moved, dtype=DType.FLOAT32)
    finite = make("mul", small, constant(small, 2.0**112))
    special = make("bitcast", make("bitor", moved, constant(moved, _INFINITY)), dtype=DType.FLOAT32)
    is_finite = make("lt", size, constant(size, 0x7C00))
    real = make("select", is_finite, finite, special)
    # the sign by its bit, since -0 and NaN have one, too
    sign = make("shift_left", make("bitand", whole, constant(whole, 0x8000)), 16)
    signed = make("bitor", make("bitcast", real, dtype=DType.INT32), sign)
    return make.cast(make("bitcast", signed, dtype=DType.FLOAT32), dtype)
