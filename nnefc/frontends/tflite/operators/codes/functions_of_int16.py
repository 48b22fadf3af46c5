"""Functions of codes of 16 bits, with the tables and roundings of LiteRT's reference kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.indices import gather
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import (
    int32,
    int64,
    quantize_multiplier,
    scale_of,
    zero_of,
)
from nnefc.frontends.tflite.operands import known_array
from nnefc.frontends.tflite.operators.activations import last_axis
from nnefc.frontends.tflite.registry import CODES_16, Node, operator
from nnefc.frontends.tflite.tables_of_int16 import looked_up
from nnefc.ir import DType

_LOWEST: Final = -(1 << 15)
_HIGHEST: Final = (1 << 15) - 1
_RANGE: Final = _HIGHEST - _LOWEST
_FRACTION: Final = 15
"""Fraction bits of results of `LOGISTIC`, `TANH` and `SOFTMAX`."""
_EVERY: Final = np.arange(_LOWEST, _HIGHEST + 1, dtype=np.int64)
"""All codes."""


def _source(node: Node) -> Tensor:
    source = node.inputs[0]
    assert source is not None
    return source


# -- sigmoid and tanh


def _check_unit(node: Node) -> None:
    """Require a result in units of 2**-15, and zero points of 0."""
    source, output = _source(node), node.output
    if scale_of(output) != 2.0**-_FRACTION or zero_of(source) or zero_of(output):
        message = f"codes of 16 bits need the scale 2**-{_FRACTION} and zero points of 0"
        raise OperatorError("tflite/quantization", message)


def _arguments(scale: float, powers: tuple[int, ...]) -> Array:
    """Three times all codes in units of 2**-12, by a multiplier of 15 bits.

    `powers`: shifts of scales that are powers of two, which have the multiplier 3.
    """
    fraction, exponent = math.frexp(scale)
    left = 12 + exponent - 1
    if fraction == 0.5 and left in powers:
        return _EVERY * 3 << left
    multiplier, shift = scale * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2.0, shift + 1
    half = 1 << shift >> 1
    # int32 wraps around
    products = (_EVERY * int(multiplier) + half).astype(np.int32).astype(np.int64)
    return products >> shift


def _interpolated(size: Array, bits: int) -> Array:
    """sigmoid(i / 24) in units of 2**-16 between whole i = size >> bits, with `bits` more bits.

    The samples have half of the error that interpolation has between them; the last one is the
    largest number below 1.
    """
    at = np.minimum(size >> bits, 255)
    exact = 1 / (1 + np.exp(-np.arange(515) / 48))
    ends, middles = exact[::2], exact[1::2]
    error = middles - (ends[:-1] + ends[1:]) / 2
    table = np.floor(65536 * (ends[:-1] + error / 2) + 0.5).astype(np.int64)
    table[255:] = 65535
    return (table[at] << bits) + (size & (1 << bits) - 1) * (table[at + 1] - table[at])


@operator("LOGISTIC", types=CODES_16)
def logistic(make: OpBuilder, input: Operand, node: Node) -> Any:
    _check_unit(node)
    x = _arguments(scale_of(_source(node)), (0,))
    size = np.abs(x)
    above = np.where(size >> 9 >= 255, 0x7FFF << 10, _interpolated(size, 9))
    one, half = 1 << 25, 1 << 9
    results = np.where(x >= 0, above + half, one - above + half - 1) >> 10
    return looked_up(make, known_array(results, DType.INT16), make.cast(input, DType.INT32))


@operator("TANH", types=CODES_16)
def tanh(make: OpBuilder, input: Operand, node: Node) -> Any:
    """tanh(x) = 2 sigmoid(2 x) - 1"""
    _check_unit(node)
    x = _arguments(scale_of(_source(node)), (0, 1))
    size = np.abs(x)
    above = np.where(size >> 8 >= 255, 0xFFFF << 8, _interpolated(size, 8)) - (1 << 23)
    results = (np.where(x >= 0, above, -above - 1) + (1 << 7)) >> 8
    return looked_up(make, known_array(results, DType.INT16), make.cast(input, DType.INT32))


# -- softmax


def _samples(function: Callable[[Array], Array], start: float, end: float) -> Array:
    """513 samples of a function in units of 2**-15, with half of the error between them."""
    step = (end - start) / 512
    at = start + np.arange(513) * step
    unit = (_RANGE + 1) / 2.0
    values, middles = function(at) * unit, function(at[:-1] + step / 2) * unit
    between = _rounded((values[1:] + _rounded(values[:-1])) / 2) - _rounded(middles)
    samples = _rounded(values)
    samples[:-1] -= _rounded(between / 2)
    return np.clip(samples, _LOWEST, _HIGHEST).astype(np.int64)


def _rounded(x: Array) -> Array:
    """The nearest whole numbers, halves away from zero."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _between(samples: Array, at: Array) -> Array:
    """Interpolation at codes."""
    index = 256 + (at >> 7)
    slope = samples[index + 1] - samples[index]
    return samples[index] + ((slope * (at & 127) + 64) >> 7)


def _exponentials(scale: float) -> Array:
    """exp of -d `scale` for d = 0 to 65,535, in units of 2**-15."""
    multiplier, shift = quantize_multiplier(scale / (10.0 / _RANGE))
    left, right = max(shift, 0), max(-shift, 0)
    d = (-np.arange(_RANGE + 1, dtype=np.int64) << left).astype(np.int32).astype(np.int64)
    high = (d * multiplier + (1 << 30)) >> 31
    scaled = -((-high + (1 << right >> 1)) >> right)
    return _between(_samples(np.exp, -10.0, 0.0), np.maximum(scaled + _HIGHEST, _LOWEST))


@operator("SOFTMAX", options="SoftmaxOptions", types=CODES_16)
def softmax(make: OpBuilder, input: Operand, *, beta: float, node: Node) -> Any:
    """Exponentials by a table; their sum is normalised to 1 <= s < 2, and 1 / s by a table, too."""
    _check_unit(node)
    axis = last_axis(input)
    depth = input.type.dims[axis]
    if depth > 1 << 16:
        raise OperatorError("tflite/unsupported", f"a softmax over {depth} codes of 16 bits")
    powers = _exponentials(scale_of(_source(node)) * beta)
    table = KnownTensor(powers.astype(np.int32), DType.INT32)
    x = make.cast(input, DType.INT32)
    exps = gather(make, table, make("sub", make("max_reduce", x, axes=(axis,)), x), 0)
    total = make("sum_reduce", exps, axes=(axis,))
    bits = _bits_above(make, total)
    sixteen = make("shift_left", make.cast(total, DType.INT64), int64(16))
    normal = make("shift_right", sixteen, make.cast(bits, DType.INT64))
    rounded = make("shift_right", make("add", normal, int64(1 << 13)), int64(14))
    # 1 <= s < 2 in units of 2**-16, of which the table has 1 / s
    inverses = _between(_samples(lambda v: 1 / (1 + v), 0.0, 1.0), _EVERY)
    place = make("min", make("sub", make.cast(rounded, DType.INT32), int32(1 << 16)), int32(_RANGE))
    inverse = gather(make, KnownTensor(inverses.astype(np.int32), DType.INT32), place, 0)
    product = make("mul", exps, inverse)
    half = make("shift_left", int32(1 << 13), bits)
    y = make("shift_right", make("add", product, half), make("add", bits, int32(14)))
    return make.cast(make("max", make("min", y, int32(_HIGHEST)), int32(0)), DType.INT16)


def _bits_above(make: OpBuilder, total: Operand) -> Operand:
    """How many bits a sum of at least 2**14 has more than 15."""
    bits: Any = int32(0)
    for power in range(15, 31):
        is_more = make("ge", total, int32(1 << power))
        bits = make("add", bits, make.cast(is_more, DType.INT32))
    return bits
