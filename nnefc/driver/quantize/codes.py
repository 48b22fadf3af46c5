"""Scales, zero points and codes of reals."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from nnefc.ir import DType
from nnefc.ops.extended.quantized import code_limits

Array = np.ndarray[Any, Any]

LARGEST_WEIGHT: Final = 127
"""Codes of weights are -127 to 127, so that the negative of a code is a code."""
LARGEST_BIAS: Final = 1 << 30
"""Largest magnitude of codes of biases, which leaves half of int32 for the products."""
_LEAST_SCALE: Final = float(np.finfo(np.float32).tiny)
"""Smaller scales are rounded to few bits, or to 0."""


class Range(NamedTuple):
    """The reals that the codes of a tensor shall cover."""

    low: float
    high: float


class Parameters(NamedTuple):
    """real = (code - zero_point) scale, with codes of `dtype`."""

    scale: float
    """Positive, and exact in float32."""
    zero_point: int
    """The code of 0."""
    dtype: DType


def parameters_of(range_: Range, dtype: DType) -> Parameters:
    """The parameters with which 0 is a code, and every real of a range is at most half a scale away
    from the real of a code; a range without 0 is extended to it.

    Codes of 16 bits have the zero point 0, as in TensorFlow Lite: products of such codes with
    weights have one bit less, so that int32 holds deeper sums.
    """
    low, high = min(range_.low, 0.0), max(range_.high, 0.0)
    first, last = code_limits(dtype)
    if dtype is DType.INT16:
        high, first = max(high, -low), -last
        low = -high
    scale = float(np.float32(max((high - low) / (last - first), _LEAST_SCALE)))
    if low == high:
        scale = 1.0
    zero = first + int(np.rint(-low / scale))
    return Parameters(scale, min(max(zero, first), last), dtype)


def real_limits(parameters: Parameters) -> Range:
    """The reals of the first and the last code."""
    scale, zero, dtype = parameters
    first, last = code_limits(dtype)
    return Range((first - zero) * scale, (last - zero) * scale)


def rounded(items: Array, parameters: Parameters) -> Array:
    """The reals of the codes of reals, in float64: `dequantize` after `quantize`."""
    first, last = code_limits(parameters.dtype)
    codes = np.rint(items / parameters.scale) + parameters.zero_point
    return (np.clip(codes, first, last) - parameters.zero_point) * parameters.scale


def weight_codes(
    weights: Array, axis: int | None, least: Array | None = None
) -> tuple[Array, Array]:
    """Symmetric codes of weights, and their scales.

    Args:
        weights: Finite reals of any shape.
        axis: The axis whose indices have a scale each; None: one scale for all items.
        least: Smallest scales, which broadcast with `weights`.

    Returns:
        int8 codes of -127 to 127 in the shape of `weights`, and float32 scales that broadcast with
        them: the largest magnitude is at most 127 scales.  Weights that are all 0 have the scale 1
        or `least`.
    """
    magnitudes = np.abs(weights.astype(np.float64))
    if axis is None:
        largest = np.asarray(magnitudes.max(initial=0.0))
    else:
        others = tuple(i for i in range(weights.ndim) if i != axis)
        largest = magnitudes.max(axis=others, keepdims=True, initial=0.0)
    smallest = np.zeros(()) if least is None else least
    wanted = np.maximum(largest / LARGEST_WEIGHT, _LEAST_SCALE)
    scales = np.maximum(np.where(largest > 0, wanted, 1.0), smallest).astype(np.float32)
    codes = np.rint(weights.astype(np.float64) / scales)
    return np.clip(codes, -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int8), scales


def least_scales(bias: Array, scale: float, shape: tuple[int, ...], axis: int) -> Array:
    """The smallest scales of weights with which a bias has codes of at most `LARGEST_BIAS`.

    Args:
        bias: [channels], float64.
        scale: That of the activations.
        shape: That of the weights.
        axis: The axis of the weights whose indices are channels, or channels of each group.

    Returns:
        An array that broadcasts with the weights.
    """
    groups = np.abs(bias).reshape(-1, shape[axis])
    needed = groups.max(axis=0, initial=0.0) / (scale * LARGEST_BIAS)
    return needed.reshape([-1 if i == axis else 1 for i in range(len(shape))])


def bias_codes(bias: Array, weights: Array, scale: float) -> tuple[Array, Array]:
    """Codes of a bias in units of the products of codes.

    Args:
        bias: [channels], float64.
        weights: The scales of the channels of the weights, or of the channels of each group.
        scale: That of the activations.

    Returns:
        int32 codes and float32 scales, [channels].
    """
    one_group = (weights.astype(np.float64) * scale).reshape(-1)
    scales = np.tile(one_group, bias.size // one_group.size).astype(np.float32)
    return np.rint(bias / scales).astype(np.int32), scales
