"""Fixed-point arithmetic in Python integers, as in the sources of gemmlowp and TFLite."""

from __future__ import annotations

INT32 = (-(1 << 31), (1 << 31) - 1)


def _quotient(a: int, b: int) -> int:
    """a / b rounded towards zero, as in C; b is positive."""
    return a // b if a >= 0 else -(-a // b)


def _wrapped(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def saturating_rounding_doubling_high_mul(a: int, b: int) -> int:
    """`SaturatingRoundingDoublingHighMul` of gemmlowp/fixedpoint/fixedpoint.h."""
    overflow = a == b == INT32[0]
    product = a * b
    nudge = 1 << 30 if product >= 0 else 1 - (1 << 30)
    return INT32[1] if overflow else _quotient(product + nudge, 1 << 31)


def rounding_divide_by_pot(x: int, exponent: int) -> int:
    """`RoundingDivideByPOT` of gemmlowp/fixedpoint/fixedpoint.h."""
    mask = (1 << exponent) - 1
    remainder = x & mask
    threshold = (mask >> 1) + (1 if x < 0 else 0)
    return (x >> exponent) + (1 if remainder > threshold else 0)


def multiply_by_quantized_multiplier(x: int, multiplier: int, shift: int) -> int:
    """`MultiplyByQuantizedMultiplier` of TFLite's kernels/internal/common.h, with two roundings."""
    left, right = max(shift, 0), max(-shift, 0)
    shifted = _wrapped(x << left)
    high = saturating_rounding_doubling_high_mul(shifted, multiplier)
    return rounding_divide_by_pot(high, right)
