"""Powers of two for weights of float16."""

from __future__ import annotations

import numpy as np
import pytest

from nnefc.ir import DType
from nnefc.kernels.vector.dot_halves import CHAIN, LARGEST_WEIGHT
from nnefc.lower.product.half_weights import weight_exponent


@pytest.mark.parametrize("size", [1e-45, 1e-30, 3e-6, 0.03, 1.0, 1e5, 1e36])
@pytest.mark.parametrize("sign", [-1, 1])
def test_weights_of_any_size_are_normal_and_sums_of_chains_finite(size: float, sign: int) -> None:
    weights = np.array([[size, size / 3], [0, -size / 2]], np.float32) * np.float32(sign)
    largest = np.abs(weights).max() * 2.0 ** weight_exponent(weights, DType.FLOAT16)
    assert largest < LARGEST_WEIGHT
    assert largest >= LARGEST_WEIGHT / 2 or size < 1e-40
    terms = np.full(2 * CHAIN, 65504.0) * float(np.float16(largest))
    assert np.isfinite(np.add.reduce(terms.astype(np.float16)))


def test_other_weights_stay_as_they_are() -> None:
    for weights in (np.zeros((2, 3), np.float32), np.array([[np.inf, 1]], np.float32)):
        assert weight_exponent(weights, DType.FLOAT16) == 0
    assert weight_exponent(np.full((2, 3), 1e5, np.float32), DType.BFLOAT16) == 0
    assert weight_exponent(np.zeros((0, 3), np.float32), DType.FLOAT16) == 0
