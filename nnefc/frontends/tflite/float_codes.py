"""Sums of codes in float32, where all results are those in fixed point.

LiteRT's reference kernels add codes in fixed point.  Both operands have at most 256 codes, so all
pairs can be compared with a rounded sum of reals, which passes join with the steps before it.
Products stay in fixed point: its two roundings differ from one in many of the pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.tflite.fixed_point import (
    code_bounds,
    code_type,
    quantize_multiplier,
    scale_of,
    zero_of,
)
from nnefc.ops.extended.quantized import code_limits

Array = np.ndarray[Any, Any]

LEFT_SHIFT: Final = 20
"""Bits by which operands of sums are shifted before they are scaled."""
_STEPS: Final = (0, 1, -1, 2, -2, 3, -3)
"""Neighbours of a factor that are tried, in units of its last place."""


def _codes(tensor: Tensor) -> Array:
    """All codes of a tensor less its zero point."""
    low, high = code_limits(code_type(tensor))
    return np.arange(low, high + 1, dtype=np.int64) - zero_of(tensor)


def _multiplied(x: Array, factor: float) -> Array:
    """`multiplied` of `nnefc.frontends.tflite.fixed_point`, of int64 that are numbers of int32."""
    multiplier, shift = quantize_multiplier(factor)
    high = ((x << max(shift, 0)) * multiplier + (1 << 30)) >> 31
    right = max(-shift, 0)
    # halves away from zero
    return np.sign(high) * ((np.abs(high) + (1 << right >> 1)) >> right)


def _neighbours(factor: float) -> list[np.float32]:
    middle = np.float32(factor)
    return [middle + np.float32(step) * np.spacing(middle) for step in _STEPS]


def bounds_of(output: Tensor, activation: int) -> tuple[int, int]:
    """The smallest and the largest code of a result, less its zero point."""
    low, high = code_bounds(output, activation)
    return low - zero_of(output), high - zero_of(output)


def _is_same(want: Array, formulas: Sequence[Array], bounds: tuple[int, int]) -> bool:
    return all(np.array_equal(np.clip(np.rint(each), *bounds), want) for each in formulas)


def sum_factors(
    x: Tensor, y: Tensor, output: Tensor, activation: int, sign: int
) -> tuple[float, float] | None:
    """Factors (a, b) so that round(x a + y b sign) is the sum; None if none were found.

    None for codes of more than 8 bits, too.

    They differ, because operands with equal factors would be added before they are multiplied.
    """
    if any(code_type(each).itemsize > 1 for each in (x, y, output)):
        return None
    first, second = (_codes(each) for each in (x, y))
    twice = 2.0 * max(scale_of(x), scale_of(y))
    left, right = (
        _multiplied(codes << LEFT_SHIFT, scale_of(each) / twice)
        for codes, each in ((first, x), (second, y))
    )
    sums = left[:, None] + sign * right
    scaled = _multiplied(sums, twice / ((1 << LEFT_SHIFT) * scale_of(output)))
    bounds = bounds_of(output, activation)
    want = np.clip(scaled, *bounds)

    def formula(a: np.float32, b: np.float32, kind: Callable[[Any], Any]) -> Array:
        return kind(first)[:, None] * kind(a) + sign * (kind(second) * kind(b))

    pairs = itertools.product(*(_neighbours(scale_of(each) / scale_of(output)) for each in (x, y)))
    for a, b in pairs:
        if a != b and _is_same(
            want, [formula(a, b, np.float32), formula(a, b, np.float64)], bounds
        ):
            return float(a), float(b)
    return None
