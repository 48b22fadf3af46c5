"""Multiplication of int32 by real numbers in fixed point, as TFLite and gemmlowp compute it.

A real multiplier is (multiplier / 2**31) / 2**count with a multiplier of 2**30 to 2**31 - 1:
`rounding_shift(doubling_high_product(x, multiplier), count)`.  Both round, so a product may differ
by one from the real product rounded once (Jacob et al., Quantization and Training of Neural
Networks for Efficient Integer-Arithmetic-Only Inference, 2018, section 2.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnefc.ir import DType, TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.broadcast import aligned, broadcasting
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import ELEMENTWISE

_MOST = 2**31 - 1


def doubling_high_product(x: Array, y: Array) -> Array:
    """floor((x * y + 2**30) / 2**31), saturated: gemmlowp's SaturatingRoundingDoublingHighMul."""
    return np.minimum((x * y + 2**30) >> 31, _MOST)


def rounding_shift(x: Array, y: Array) -> Array:
    """x / 2**y, halves away from zero: gemmlowp's RoundingDivideByPOT; y is reduced to 0..31."""
    count = y & 31
    size = (np.abs(x) + ((1 << count) >> 1)) >> count
    return np.where(x < 0, -size, size)


def _int32(call: Call) -> TensorType:
    types = [call.dtype(name) for name in ("x", "y")]
    call.require(
        all(dtype is DType.INT32 for dtype in types),
        f"operands must be tensors of int32: x is a tensor of {types[0]}, y of {types[1]}",
    )
    return broadcasting("x", "y")(call)


def _sample(x: Any, y: Any) -> Sample:
    """Two operands as nested lists or numbers."""
    return Sample(
        inputs=(np.shape(x), np.shape(y)),
        values={0: x, 1: y},
        dtypes={0: DType.INT32, 1: DType.INT32},
    )


def _pair(
    name: str, reference: Callable[[Array, Array], Array], summary: str, samples: tuple[Sample, ...]
) -> OpSpec:
    """The entry of an operation of two tensors of int32."""
    return OpSpec(
        name=name,
        signature=f"fragment {name}( x: tensor<integer>, y: tensor<integer> ) "
        "-> ( z: tensor<integer> )",
        section="tract",
        summary=summary,
        infer=_int32,
        reference=aligned(reference),
        traits=ELEMENTWISE,
        elementwise=True,
        samples=samples,
    )


SPECS: tuple[OpSpec, ...] = (
    _pair(
        "doubling_high_product",
        doubling_high_product,
        "x times y / 2**31 in int32, rounded to nearest, halves up, and saturated.",
        (
            _sample(
                [0, 1, -1, 3, -3, 1000, -_MOST - 1, -_MOST - 1, _MOST],
                [5, 2**30, 2**30, 2**30, 2**30, 2**30 + 7, -_MOST - 1, _MOST, _MOST],
            ),
            _sample([[100_000, -99_999, 7], [5, -6, 12_345_678]], 2**30 + 12345),
            _sample([[5, -5], [123_456_789, -8]], [_MOST, 2**30]),
        ),
    ),
    _pair(
        "rounding_shift",
        rounding_shift,
        "x / 2**y in int32 with y from 0 to 31, rounded to nearest, halves away from zero.",
        (
            _sample([0, 1, -1, 3, -3, 6, -6, -_MOST - 1, _MOST], [0, 1, 1, 1, 1, 2, 2, 31, 31]),
            _sample([[100, -100, 7], [5, -6, -7]], 3),
            _sample([5, -5], [[0, 1], [2, 3]]),
        ),
    ),
)
