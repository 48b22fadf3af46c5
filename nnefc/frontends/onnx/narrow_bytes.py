"""Tensors of narrow types as bytes, one per item: inputs and results of graphs, and `BitCast`.

The byte of an item is that of `ml_dtypes`, whose arrays are viewed as uint8: the bits of the
item are the low bits, the others are 0.
"""

from __future__ import annotations

import numpy as np
from onnx import helper

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.frontends.onnx.broadcasting import constant
from nnefc.frontends.onnx.narrow_types import (
    FLOATS,
    INTEGER_BITS,
    NarrowTensor,
    integers_of_bits,
    scale_of,
    scale_of_power,
)
from nnefc.frontends.onnx.tensors import StorageTensor
from nnefc.ir import DType


def from_bytes(make: OpBuilder, x: Operand, elem_type: int) -> NarrowTensor | StorageTensor:
    """The tensor of a narrow type whose bytes are the items of x (uint8)."""
    if isinstance(x, KnownTensor) and not x.is_symbolic:
        return StorageTensor(x.array.view(helper.tensor_dtype_to_np_dtype(elem_type)), elem_type)
    if elem_type in INTEGER_BITS:
        return NarrowTensor(integers_of_bits(make, x, elem_type), elem_type, x)
    every = np.arange(256, dtype=np.uint8).view(helper.tensor_dtype_to_np_dtype(elem_type))
    values = KnownTensor(every.astype(np.float32), DType.FLOAT32)
    items = make("gather", values, make.cast(x, DType.INT32), axis=0)
    return NarrowTensor(items, elem_type, x)


def bytes_of(make: OpBuilder, x: NarrowTensor | StorageTensor) -> Operand:
    """The bytes of the items of a narrow type, as uint8."""
    if isinstance(x, StorageTensor):
        return KnownTensor(x.array.view(np.uint8), DType.UINT8)
    if x.stored is not None:
        return x.stored
    items, elem_type = x.items, x.elem_type
    if elem_type in INTEGER_BITS:
        whole, mask = make.cast(items, DType.UINT8), (1 << INTEGER_BITS[elem_type][0]) - 1
        return make("bitand", whole, constant(whole, mask))
    if elem_type not in FLOATS:
        return _bytes_of_powers(make, items)
    return _bytes_of_floats(make, items, elem_type)


def _bytes_of_powers(make: OpBuilder, x: Operand) -> Operand:
    """The biased exponents of powers of two."""
    wide = make.cast(x, DType.FLOAT64)
    _, exponent = scale_of_power(make, wide)
    code = make("select", make("is_nan", wide), constant(wide, 0xFF), exponent)
    return make.cast(code, DType.UINT8)


def _bytes_of_floats(make: OpBuilder, x: Operand, elem_type: int) -> Operand:
    """Sign, exponent and mantissa of numbers that the format has."""
    kind = FLOATS[elem_type]
    size = make("abs", x)
    unit, exponent = scale_of(make, size, kind)
    # a normal number has 2^digits units, and its exponent counts from 1
    code = make("add", make("div", size, unit), make("mul", exponent, 2.0**kind.digits))
    for name, number in (("is_inf", np.inf), ("is_nan", np.nan)):
        if kind.has_infinity or (name == "is_nan" and kind.has_nan):
            code = make("select", make(name, x), constant(x, _byte(number, elem_type)), code)
    is_negative = make("lt", x, constant(x, 0))
    if not _byte(-0.0, elem_type):  # no bits for -0, but those for NaN
        sign_bit = constant(x, _byte(-1.0, elem_type) - _byte(1.0, elem_type))
    else:
        sign_bit = constant(x, _byte(-0.0, elem_type))
        inverse = make("div", constant(x, 1), x)
        is_negative = make("or", is_negative, make("lt", inverse, constant(x, 0)))
    code = make("add", code, make("select", is_negative, sign_bit, constant(x, 0)))
    return make.cast(code, DType.UINT8)


def _byte(number: float, elem_type: int) -> int:
    """The byte of a number in a format."""
    narrow = np.array(number).astype(helper.tensor_dtype_to_np_dtype(elem_type))
    return int(narrow.view(np.uint8))
