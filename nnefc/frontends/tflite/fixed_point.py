"""Requantization in fixed point, with the roundings of LiteRT's reference kernels.

A real factor is a multiplier of 31 bits and a shift (`quantize_multiplier`).  A product with it is
rounded twice: the high half of the product, halves up, then the shift, halves away from zero
(Jacob et al., 2018, section 2.2; gemmlowp).  Fully connected layers round once.  Sums of codes of
16 bits are int64; their multipliers have 15 bits, or are float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.operators.activations import BOUNDS
from nnefc.frontends.tflite.tensors import dtype_of
from nnefc.ir import DType
from nnefc.symbolic.integers import SymInt, is_symbolic, largest
from nnefc.symbolic.sym_int_base import Dim

_FAR: Final = 1e9
"""Beyond all codes."""


def int32(number: object) -> KnownTensor:
    """Known items of int32, or a number that depends on symbols."""
    if isinstance(number, SymInt):
        return KnownTensor(np.array(number, object), DType.INT32)
    return KnownTensor(np.asarray(number).astype(np.int32), DType.INT32)


def int64(number: object) -> KnownTensor:
    """Known items of int64."""
    return KnownTensor(np.asarray(number).astype(np.int64), DType.INT64)


def real(number: float) -> KnownTensor:
    """A known item of float32."""
    return KnownTensor(np.array(number, np.float32), DType.FLOAT32)


def scale_of(tensor: Tensor) -> float:
    """The only scale of a tensor, a float32; raises OperatorError."""
    scales = scales_of(tensor)
    if len(scales) != 1:
        message = f"{tensor} has {len(scales)} scales; one is expected"
        raise OperatorError("tflite/quantization", message)
    return scales[0]


def scales_of(tensor: Tensor) -> tuple[float, ...]:
    """The scales of a tensor, which are greater than 0; raises OperatorError."""
    codes = tensor.quantization
    if codes is None or not codes.scale:
        raise OperatorError("tflite/quantization", f"{tensor} has no scale")
    if not all(scale > 0 for scale in codes.scale):
        raise OperatorError("tflite/quantization", f"a scale of {tensor} is 0")
    return codes.scale


def zero_of(tensor: Tensor) -> int:
    """The only zero point of a tensor; raises OperatorError for several, or one outside."""
    scales_of(tensor)
    codes = tensor.quantization
    assert codes is not None
    zero, limits = codes.zero_point[0], _limits(tensor)
    if any(each != zero for each in codes.zero_point):
        raise OperatorError("tflite/quantization", f"{tensor} has several zero points")
    if not limits.min <= zero <= limits.max:
        message = f"the zero point {zero} of {tensor} is not between {limits.min} and {limits.max}"
        raise OperatorError("tflite/quantization", message)
    return zero


def _limits(tensor: Tensor) -> np.iinfo[Any]:
    """The range of codes of a tensor; raises OperatorError for one that has no codes."""
    dtype = code_type(tensor)
    if not dtype.is_integer:
        raise OperatorError("tflite/quantization", f"{tensor} has items of {dtype}, not codes")
    return np.iinfo(dtype.numpy)


def zero_tensor(tensor: Tensor) -> KnownTensor:
    """The zero point of a tensor, with the type of its codes."""
    dtype = code_type(tensor)
    return KnownTensor(np.array(zero_of(tensor), dtype.numpy), dtype)


def code_type(tensor: Tensor) -> DType:
    """The item type that codes of a tensor have in the graph; raises OperatorError."""
    return DType.INT8 if tensor.type == "INT4" else dtype_of(tensor)


def same_scale(x: Tensor, y: Tensor) -> bool:
    """Whether codes of two tensors stand for the same reals."""
    return scale_of(x) == scale_of(y) and zero_of(x) == zero_of(y)


def require_same_scale(what: str, x: Tensor, y: Tensor) -> None:
    """Raise OperatorError for tensors with other parameters, which an operator only moves."""
    if not same_scale(x, y):
        message = f"{what}: {x} and {y} have other scales or zero points"
        raise OperatorError("tflite/quantization", message)


def require_factor(real: float) -> None:
    """Raise OperatorError unless codes can be scaled by a factor."""
    if not 0 <= real < 2.0**30:
        raise OperatorError("tflite/quantization", f"the factor {real} of a requantization")


def quantize_multiplier(real: float) -> tuple[int, int]:
    """A multiplier below 2**31 and a shift with real = multiplier / 2**31 * 2**shift, rounded."""
    require_factor(real)
    fraction, shift = math.frexp(real)
    multiplier = math.floor(fraction * 2.0**31 + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = multiplier // 2, shift + 1
    return (0, 0) if shift < -31 else (multiplier, shift)


def rescaled(
    make: OpBuilder, x: Operand, factors: Sequence[float], shape: Sequence[int] = ()
) -> Operand:
    """int32 times real factors; `shape`: how several of them broadcast with x."""
    return multiplied(make, x, [quantize_multiplier(each) for each in factors], shape)


def multiplied(
    make: OpBuilder, x: Operand, pairs: Sequence[tuple[int, int]], shape: Sequence[int] = ()
) -> Operand:
    """int32 times multipliers with shifts; see `rescaled`."""
    if len(set(pairs)) == 1:
        pairs, shape = pairs[:1], ()
    multipliers, shifts = np.array(pairs, np.int64).T
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    if left.any():
        x = make("shift_left", x, int32(left.reshape(shape)))
    x = make("doubling_high_product", x, int32(multipliers.reshape(shape)))
    return make("rounding_shift", x, int32(right.reshape(shape))) if right.any() else x


def multiplied_by(make: OpBuilder, x: Operand, multiplier: Dim, shift: Dim) -> Operand:
    """int32 times a multiplier with a shift, which may depend on symbols."""
    if not is_symbolic((multiplier, shift)):
        return multiplied(make, x, [(multiplier, shift)])
    x = make("shift_left", x, int32(largest((shift, 0))))
    x = make("doubling_high_product", x, int32(multiplier))
    return make("rounding_shift", x, int32(largest((-shift, 0))))


def rescaled_once(
    make: OpBuilder, x: Operand, factors: Sequence[float], shape: Sequence[int] = ()
) -> Operand:
    """`rescaled` with a single rounding, halves up, as `FULLY_CONNECTED` has it in LiteRT."""
    pairs = [quantize_multiplier(each) for each in factors]
    multipliers, shifts = np.array(pairs, np.int64).T
    counts = 31 - shifts
    wide = make("mul", make.cast(x, DType.INT64), int64(multipliers.reshape(shape)))
    half = int64((np.int64(1) << (counts - 1)).reshape(shape))
    rounded = make("shift_right", make("add", wide, half), int64(counts.reshape(shape)))
    return make.cast(rounded, DType.INT32)


def rescaled_int16(
    make: OpBuilder, x: Operand, factors: Sequence[float], shape: Sequence[int] = ()
) -> Operand:
    """`rescaled_by_int16` as int32."""
    return make.cast(rescaled_by_int16(make, x, factors, shape), DType.INT32)


def rescaled_by_int16(
    make: OpBuilder, x: Operand, factors: Sequence[float], shape: Sequence[int] = ()
) -> Operand:
    """int64 times real factors: multipliers of 15 bits, halves up; raises OperatorError."""
    pairs = [quantize_multiplier(each) for each in factors]
    multipliers, shifts = np.array(pairs, np.int64).T
    upper = np.minimum((multipliers + (1 << 15)) >> 16, 0x7FFF)
    counts = 15 - shifts
    if counts.min() < 1:
        message = f"the factor {max(factors)} of a requantization with 15 bits"
        raise OperatorError("tflite/quantization", message)
    wide = make("mul", x, int64(upper.reshape(shape)))
    half = int64((np.int64(1) << (counts - 1)).reshape(shape))
    return make("shift_right", make("add", wide, half), int64(counts.reshape(shape)))


def rescaled_by_reals(
    make: OpBuilder, x: Operand, factors: Sequence[float], shape: Sequence[int] = ()
) -> Operand:
    """int64 times factors in float64, halves away from zero, as int32."""
    numbers = KnownTensor(np.array(factors).reshape(shape), DType.FLOAT64)
    product = make("mul", make.cast(x, DType.FLOAT64), numbers)
    size = make("floor", make("add", make("abs", product), _float64(0.5)))
    limited = make("min", size, _float64(2.0**31 - 1))
    whole = make.cast(limited, DType.INT32)
    return make("select", make("lt", product, _float64(0)), make("neg", whole), whole)


def _float64(number: float) -> KnownTensor:
    return KnownTensor(np.array(number, np.float64), DType.FLOAT64)


def nearest(make: OpBuilder, x: Operand) -> Operand:
    """The nearest whole numbers, halves away from zero, as reals."""
    size = make("abs", x)
    below = make("floor", size)
    # the sum with 1/2 is rounded up to 1 for the largest number below 1/2
    is_far = make("ge", make("sub", size, below), 0.5)
    size = make("select", is_far, make("add", below, 1.0), below)
    return make("select", make("lt", x, 0.0), make("neg", size), size)


def centered(make: OpBuilder, x: Operand, tensor: Tensor) -> Operand:
    """Codes less their zero point, as int32."""
    wide, zero = make.cast(x, DType.INT32), zero_of(tensor)
    return make("sub", wide, int32(zero)) if zero else wide


def code_bounds(tensor: Tensor, activation: int) -> tuple[int, int]:
    """The smallest and largest code of a result with a fused activation; raises OperatorError."""
    if activation not in BOUNDS:
        message = f"fused activation {activation} of codes is not supported"
        raise OperatorError("tflite/unsupported", message)
    return codes_between(tensor, *BOUNDS[activation])


def codes_between(tensor: Tensor, low: float, high: float) -> tuple[int, int]:
    """The smallest and largest code of reals from `low` to `high`; raises OperatorError."""
    limits = _limits(tensor)
    scale, zero = np.float32(scale_of(tensor)), zero_of(tensor)
    with np.errstate(over="ignore"):
        reals = np.clip(np.array([low, high], np.float32) / scale, -_FAR, _FAR)
    ends = [
        default if math.isinf(end) else zero + rounded_away(float(real))
        for end, real, default in zip((low, high), reals, (limits.min, limits.max), strict=True)
    ]
    return max(ends[0], int(limits.min)), min(ends[1], int(limits.max))


def rounded_away(x: float) -> int:
    """The nearest whole number, halves away from zero."""
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


def limited(make: OpBuilder, x: Operand, tensor: Tensor, activation: int = 0) -> Any:
    """int32 within the bounds of codes, with their type."""
    low, high = code_bounds(tensor, activation)
    return make.cast(make("max", make("min", x, int32(high)), int32(low)), dtype_of(tensor))


def as_codes(make: OpBuilder, x: Operand, tensor: Tensor, activation: int = 0) -> Any:
    """Codes of int32 in units of their scale: the zero point is added, then they are limited."""
    zero = zero_of(tensor)
    moved = make("add", x, int32(zero)) if zero else x
    return limited(make, moved, tensor, activation)
