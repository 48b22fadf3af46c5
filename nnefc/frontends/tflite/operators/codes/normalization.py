"""Normalisation of rows of int16 with LiteRT's bits, as layers of long short-term memory have it.

Means and standardised numbers have 10 fraction bits.  The inverse of the standard deviation is by
Newton's method in fixed point.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.frontends.tflite.fixed_point import int32, int64, quantize_multiplier
from nnefc.ir import DType

_FRACTION: Final = 10
_LEAST_SCALE: Final = 10_000
"""A row of equal numbers has the variance 1, or so many scales of the coefficients."""
_ITERATIONS: Final = 5
_ONE: Final = 1 << 28
"""1 with 3 integer bits."""
_THREE_HALVES: Final = 3 << 27
_SQRT_OF_HALF: Final = 1518500250
"""With 31 fraction bits."""


def normalized(
    make: OpBuilder, x: Operand, coefficients: Operand, bias: Operand, scale: float
) -> Operand:
    """(x - mean) / deviation * coefficients + bias of rows, int32 beyond the range of int16.

    x: int32 within int16, [rows, units]; `scale`: that of the coefficients, which are int16.
    """
    units = x.type.dims[1]
    wide = make.cast(x, DType.INT64)
    mean = _mean(make, wide, units)
    squares = make("sum_reduce", make("mul", wide, wide), axes=(1,))
    parts = make("mul", squares, int64((1 << 2 * _FRACTION) // units))
    center = make.cast(mean, DType.INT64)
    variance = make("sub", parts, make("mul", center, center))
    variance = make.cast(make("shift_right", variance, int64(2 * _FRACTION)), DType.INT32)
    guard = int32(max(1, int(np.float32(_LEAST_SCALE) * np.float32(scale))))
    variance = make("select", make("lt", variance, int32(1)), guard, variance)
    multiplier, right = _inverse_root(make, variance)
    centered = make("sub", make("shift_left", x, int32(_FRACTION)), mean)
    standard = make("rounding_shift", make("doubling_high_product", centered, multiplier), right)
    row = make.reshape(make.cast(coefficients, DType.INT32), (1, units))
    y = make("add", make("mul", standard, row), make.reshape(bias, (1, units)))
    y = make("rounding_shift", y, int32(_FRACTION))
    factor, shift = quantize_multiplier(float(np.float32(scale)))
    shift += 12
    if shift > 0:
        y = make("shift_left", y, int32(shift))
    y = make("doubling_high_product", y, int32(factor))
    return make("rounding_shift", y, int32(-shift)) if shift < 0 else y


def _mean(make: OpBuilder, x: Operand, units: int) -> Operand:
    """The means of rows with their fraction bits, rounded towards zero."""
    total = make("shift_left", make("sum_reduce", x, axes=(1,)), int64(_FRACTION))
    count = KnownTensor(np.array(units, np.float64), DType.FLOAT64)
    return make.cast(make("div", make.cast(total, DType.FLOAT64), count), DType.INT32)


def _inverse_root(make: OpBuilder, x: Operand) -> tuple[Operand, Operand]:
    """1 / sqrt(x) as multiplier / 2**31 / 2**right for int32 from 1 to 2**30."""
    is_large = make.cast(make("ge", x, int32(1 << 29)), DType.INT32)
    even: Any = make("shift_right", x, make("shift_left", is_large, int32(1)))
    pairs: Any = int32(0)
    for power in range(3, 28, 2):
        is_less = make.cast(make("lt", even, int32(1 << power)), DType.INT32)
        pairs = make("add", pairs, is_less)
    even = make("shift_left", even, make("shift_left", pairs, int32(1)))
    # from 1/4 to 1 with 3 integer bits
    half = make("rounding_shift", make("shift_right", even, int32(1)), int32(1))
    y: Any = int32(_ONE)
    for _ in range(_ITERATIONS):
        square = make("doubling_high_product", y, y)
        cube = make("shift_left", make("doubling_high_product", square, y), int32(6))
        more = make("doubling_high_product", y, int32(_THREE_HALVES))
        less = make("doubling_high_product", half, cube)
        y = make("shift_left", make("sub", more, less), int32(3))
    y = make("doubling_high_product", y, int32(_SQRT_OF_HALF))
    right = make("sub", make("add", is_large, int32(11)), pairs)
    y = make("shift_left", y, make("max", make("neg", right), int32(0)))
    is_one = make("le", x, int32(1))
    multiplier = make("select", is_one, int32((1 << 31) - 1), y)
    return multiplier, make("select", is_one, int32(0), make("max", right, int32(0)))
