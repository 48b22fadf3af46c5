"""Item types that the IR lacks, such as float8 and int4: their values in wider types.

Numbers are rounded to these types by exact arithmetic in float32 or float64, so that a model may
quantize to them and dequantize again.  Source: the operator `Cast` of ONNX, and the OCP formats
for 8-bit floating point and for microscaling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from onnx import TensorProto, helper

from nnefc.frontends.common.graph_variables import variable_value
from nnefc.frontends.common.op_builder import MAX_FOLDED_ITEMS, OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.onnx.broadcasting import constant
from nnefc.frontends.onnx.tensors import StorageTensor
from nnefc.ir import DType


@dataclass(frozen=True, slots=True, eq=False)
class NarrowTensor:
    """A tensor of a type that the IR lacks.

    `items`: its values, which their type (float32, int8, uint8) holds exactly; `elem_type`: a
    `TensorProto.DataType`; `stored`: the bytes of an input, which has NaN of several bit patterns.
    """

    items: Operand
    elem_type: int
    stored: Operand | None = None

    @property
    def wrong(self) -> OperatorError:
        """The error of operators that do not take it."""
        return StorageTensor(np.zeros(0), self.elem_type).wrong


@dataclass(frozen=True, slots=True)
class NarrowFloat:
    """A binary format for floating-point numbers.

    `digits`: after the point of the mantissa; `least`: the exponent of the smallest normal number;
    `most`: the largest number.
    """

    digits: int
    least: int
    most: float
    has_infinity: bool = False
    has_nan: bool = True


FLOATS: Final[Mapping[int, NarrowFloat]] = {
    TensorProto.FLOAT8E4M3FN: NarrowFloat(3, -6, 448.0),
    TensorProto.FLOAT8E4M3FNUZ: NarrowFloat(3, -7, 240.0),
    TensorProto.FLOAT8E5M2: NarrowFloat(2, -14, 57344.0, has_infinity=True),
    TensorProto.FLOAT8E5M2FNUZ: NarrowFloat(2, -15, 57344.0),
    TensorProto.FLOAT4E2M1: NarrowFloat(1, 0, 6.0, has_nan=False),
    TensorProto.FLOAT6E2M3: NarrowFloat(3, 0, 7.5, has_nan=False),
    TensorProto.FLOAT6E3M2: NarrowFloat(2, -2, 28.0, has_nan=False),
}
"""Formats that round to nearest, ties to even."""
INTEGER_BITS: Final[Mapping[int, tuple[int, DType]]] = {
    TensorProto.INT4: (4, DType.INT8),
    TensorProto.UINT4: (4, DType.UINT8),
    TensorProto.INT2: (2, DType.INT8),
    TensorProto.UINT2: (2, DType.UINT8),
}
"""Bits of an integer type, and the type that holds its values."""
_POWERS: Final = TensorProto.FLOAT8E8M0
_LOWEST_POWER: Final = -127
_HIGHEST_POWER: Final = 127


def is_narrow(elem_type: int) -> bool:
    """Whether the IR lacks an item type that numbers can be cast to."""
    return elem_type in FLOATS or elem_type in INTEGER_BITS or elem_type == _POWERS


def narrow_range(elem_type: int) -> tuple[int, int]:
    """The smallest and the largest item of a narrow integer type."""
    bits, wide = INTEGER_BITS[elem_type]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if wide.is_signed else (0, (1 << bits) - 1)


def values_of(make: OpBuilder, x: StorageTensor | NarrowTensor) -> Operand:
    """The values of a tensor in float32, int8 or uint8, exactly; many are a weight."""
    if isinstance(x, NarrowTensor):
        return x.items
    dtype = INTEGER_BITS[x.elem_type][1] if x.elem_type in INTEGER_BITS else DType.FLOAT32
    array = x.array.astype(dtype.numpy)
    if array.size <= MAX_FOLDED_ITEMS:
        return KnownTensor(array, dtype)
    evaluator = make.evaluator
    label = evaluator.free_name("values")
    return variable_value(make, evaluator.root, evaluator.names, label, array, dtype)


def stored(items: Operand, elem_type: int) -> StorageTensor | NarrowTensor:
    """A tensor of a narrow type from its values, known if they are."""
    if isinstance(items, KnownTensor):
        narrow = helper.tensor_dtype_to_np_dtype(elem_type)
        return StorageTensor(items.array.astype(narrow), elem_type)
    return NarrowTensor(items, elem_type)


def narrowed(
    make: OpBuilder, x: Operand, elem_type: int, *, saturate: bool = True, round_mode: str = "up"
) -> StorageTensor | NarrowTensor:
    """Numbers cast to a narrow type; `round_mode` matters for powers of two (float8e8m0)."""
    if elem_type in INTEGER_BITS:
        return stored(integers_of_bits(make, x, elem_type), elem_type)
    if x.type.dtype is not DType.FLOAT64:
        x = make.cast(x, DType.FLOAT32)
    if elem_type == _POWERS:
        items = _rounded_to_powers(make, x, saturate, round_mode)
    else:
        items = _rounded(make, x, FLOATS[elem_type], saturate)
    return stored(make.cast(items, DType.FLOAT32), elem_type)


def integers_of_bits(make: OpBuilder, x: Operand, elem_type: int) -> Operand:
    """The integers of a narrow type with the lowest bits of x; reals are truncated first."""
    bits, wide = INTEGER_BITS[elem_type]
    whole = make.cast(x, DType.INT64)
    low = make("bitand", whole, constant(whole, (1 << bits) - 1))
    if wide.is_signed:
        sign = constant(low, 1 << bits - 1)
        low = make("sub", make("bitxor", low, sign), sign)
    return make.cast(low, wide)


def _rounded(make: OpBuilder, x: Operand, kind: NarrowFloat, saturate: bool) -> Operand:
    """Numbers rounded to the nearest of a format, ties to even."""
    size = make("abs", x)
    step, _ = scale_of(make, size, kind)
    near = make("mul", make("round_even", make("div", x, step)), step)
    most = constant(x, kind.most)
    if saturate or not kind.has_nan:
        return make("clamp", near, constant(x, -kind.most), most)
    beyond = constant(x, np.inf if kind.has_infinity else np.nan)
    is_beyond = make("gt", make("abs", near), most)
    return make("select", is_beyond, make("mul", make("sign", x), beyond), near)


def scale_of(make: OpBuilder, size: Operand, kind: NarrowFloat) -> tuple[Operand, Operand]:
    """The distance of neighbours at absolute values `size`, and the exponents e - `kind.least`."""
    most = kind.least + 16 if kind.digits > 2 else 17
    return _scale(make, size, kind.least, most, kind.digits)


def scale_of_power(make: OpBuilder, size: Operand) -> tuple[Operand, Operand]:
    """The next power of two of float8e8m0 below float64 numbers, and its exponent, from 0."""
    return _scale(make, size, _LOWEST_POWER, _HIGHEST_POWER, 0)


def _scale(
    make: OpBuilder, size: Operand, least: int, most: int, digits: int
) -> tuple[Operand, Operand]:
    """2^(e - digits), with e from `least` to `most` for each number, and e - least.

    e is found bit by bit, by comparisons and multiplications with powers of two, which are exact.
    """
    rest = make("mul", make("max", size, constant(size, 2.0**least)), constant(size, 2.0**-least))
    unit: Operand = constant(size, 2.0 ** (least - digits))
    exponent: Operand = constant(size, 0)
    for bit in reversed(range((most - least).bit_length())):
        power = 1 << bit
        is_large = make("ge", rest, constant(size, 2.0**power))
        rest = make("select", is_large, make("mul", rest, constant(size, 2.0**-power)), rest)
        unit = make("select", is_large, make("mul", unit, constant(size, 2.0**power)), unit)
        exponent = make("select", is_large, make("add", exponent, power), exponent)
    return unit, exponent


def _rounded_to_powers(make: OpBuilder, x: Operand, saturate: bool, round_mode: str) -> Operand:
    """Numbers rounded to powers of two: the next one above or below, or the nearest."""
    if round_mode not in ("up", "down", "nearest"):
        message = f"round_mode is 'up', 'down' or 'nearest', not {round_mode!r}"
        raise OperatorError("onnx/arguments", message)
    wide = make("abs", make.cast(x, DType.FLOAT64))
    power, _ = _scale(make, wide, _LOWEST_POWER - 1, _HIGHEST_POWER + 1, 0)
    if round_mode != "down":
        factor = constant(wide, 1 if round_mode == "up" else 1.5)
        compare = "gt" if round_mode == "up" else "ge"
        above = make(compare, wide, make("mul", power, factor))
        power = make("select", above, make("mul", power, constant(wide, 2)), power)
    low, high = (constant(wide, 2.0**e) for e in (_LOWEST_POWER, _HIGHEST_POWER))
    nan = constant(wide, np.nan)
    if saturate:
        result = make("clamp", power, low, high)
    else:
        outside = make("or", make("lt", power, low), make("gt", power, high))
        result = make("select", outside, nan, power)
    return make("select", make("is_nan", wide), nan, result)
