"""Functions of fixed-point numbers of 16 bits, as gemmlowp computes them, as tables.

A number with n integer bits is a code times 2**(n - 15).  Exponentials of negative numbers are a
polynomial on a quarter, times constants for the bits of the rest; quotients are by Newton's method.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.indices import gather
from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.frontends.tflite.fixed_point import int32

Array = np.ndarray[Any, Any]
_LOW, _HIGH = -32768, 32767
ONE: Final = _HIGH
"""The number 1 without integer bits."""
_FACTORS: Final = (
    *((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535)),
    *((3, 720401), (4, 242)),
)
"""exp(-2**i) with 31 fraction bits, by i."""


def _upper_half(number: int) -> int:
    """A constant of 32 bits with the upper 16 of them."""
    return _halved(np.array(number, np.int64), 16).item()


def _halved(x: Array, count: int) -> Array:
    """x / 2**count, halves away from zero."""
    if not count:
        return x
    mask = (1 << count) - 1
    rest, threshold = x & mask, (mask >> 1) + (x < 0)
    return (x >> count) + (rest > threshold)


def _times(x: Array | int, y: Array | int) -> Array:
    """The product of two fractions, halves away from zero."""
    product = np.asarray(x, np.int64) * np.asarray(y, np.int64)
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    quotient = np.sign(nudged) * (np.abs(nudged) >> 15)
    return np.minimum(quotient, _HIGH)


def _scaled(x: Array, bits: int) -> Array:
    """x 2**bits, saturated."""
    return np.clip(x << bits, _LOW, _HIGH) if bits > 0 else _halved(x, -bits)


def _wrapped(x: Array) -> Array:
    return ((x + 32768) & 0xFFFF) - 32768


def _exp_of_quarter(x: Array) -> Array:
    """exp of fractions from -1/4 to 0."""
    x = x + (1 << 12)
    square = _times(x, x)
    cube, fourth = _times(square, x), _times(square, square)
    third = _upper_half(715827883)
    rest = _halved(_wrapped(_times(_wrapped(_halved(fourth, 2) + cube), third) + square), 1)
    term = _upper_half(1895147668)
    return np.clip(term + _times(term, _wrapped(x + rest)), _LOW, _HIGH)


def _exp(x: Array, integer_bits: int) -> Array:
    """exp of negative numbers, as fractions."""
    fraction_bits = 15 - integer_bits
    quarter = 1 << (fraction_bits - 2) if fraction_bits >= 2 else 0
    within = (x & (quarter - 1)) - quarter
    y = _exp_of_quarter(_scaled(within, integer_bits))
    rest = within - x
    for exponent, factor in _FACTORS:
        place = fraction_bits + exponent
        if integer_bits > exponent:
            y = np.where(rest & (1 << place), _times(y, _upper_half(factor)), y)
    if integer_bits > 5:
        least = -(1 << (fraction_bits + 5))
        y = np.where(x < least, 0, y)
    return np.where(x == 0, ONE, y)


def _inverse(x: Array) -> Array:
    """2 / (1 + x) for fractions, with two integer bits."""
    total = x + ONE
    half = np.sign(total + 1) * (np.abs(total + np.where(total >= 0, 1, -1)) >> 1)
    y = _wrapped(_upper_half(1515870810) + _times(half, _upper_half(-1010580540)))
    for _ in range(3):
        error = _wrapped((1 << 13) - _times(half, y))
        y = _wrapped(y + _scaled(_times(y, error), 2))
    return y


@cache
def logistic_table() -> Array:
    """1 / (1 + exp(-x)) of all numbers with 3 integer bits, as fractions."""
    x = np.arange(_LOW, _HIGH + 1)
    negative = np.where(x > 0, _wrapped(-x), x)
    above = _scaled(_inverse(_exp(negative, 3)), 1)
    y = np.where(x > 0, above, ONE - above)
    return np.where(x == 0, 1 << 14, y).astype(np.int16)


@cache
def tanh_table(integer_bits: int) -> Array:
    """The hyperbolic tangent of all numbers with so many integer bits, as fractions."""
    x = np.arange(_LOW, _HIGH + 1)
    negative = np.where(x > 0, _wrapped(-x), x)
    exponential = _exp(negative, integer_bits + 1)
    y = _scaled(_wrapped(_inverse(exponential) - (1 << 13)), 2)
    return np.where(x == 0, 0, np.where(x < 0, -y, y)).astype(np.int16)


def looked_up(make: OpBuilder, table: KnownTensor, x: Operand) -> Operand:
    """Items of a table of all int16, for int32 in their range."""
    return gather(make, table, make("sub", x, int32(_LOW)), 0)
