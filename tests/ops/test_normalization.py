"""Normalization operations against torch and against formulas written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nnefc.ops.core.arrays import Array
from nnefc.ops.tools.table import operations

torch: Any = pytest.importorskip("torch")
functional: Any = torch.nn.functional


def reference(name: str, *operands: Array, **attributes: Any) -> Array:
    found = operations()[name].reference
    assert found is not None
    return found(*operands, **attributes)


def data(*shape: int) -> Array:
    return np.random.default_rng(4).normal(size=shape)


def close(result: Array, expected: Any) -> None:
    np.testing.assert_allclose(result, np.asarray(expected), rtol=1e-9, atol=1e-12)


def test_local_response_over_channels_matches_pytorch() -> None:
    x = data(2, 7, 3, 4)
    expected = functional.local_response_norm(torch.tensor(x), 5, 0.5, 0.75, 2.0)
    attributes = {"size": (1, 5, 1, 1), "alpha": 0.5, "beta": 0.75, "bias": 2.0}
    close(reference("local_response_normalization", x, **attributes), expected)


def local_mean(x: Array, size: tuple[int, ...]) -> Array:
    """The mean of the window around every item; outside the tensor, items count as zeros."""
    mean = np.zeros(x.shape)
    for index in np.ndindex(*x.shape):
        for tap in np.ndindex(*size):
            at = tuple(i + j - (f - 1) // 2 for i, j, f in zip(index, tap, size, strict=True))
            if all(0 <= i < z for i, z in zip(at, x.shape, strict=True)):
                mean[index] += x[at] / math.prod(size)
    return mean


@pytest.mark.parametrize("size", [(1, 3, 1, 1), (1, 1, 3, 2), (2, 1, 1, 3)])
def test_local_normalizations_match_their_formulas(size: tuple[int, ...]) -> None:
    x = data(2, 3, 3, 4)
    centered = x - local_mean(x, size)
    close(reference("local_mean_normalization", x, size=size), centered)
    for bias, epsilon in ((0.25, 0.0), (0.0, 0.75)):
        attributes = {"size": size, "bias": bias, "epsilon": epsilon}
        expected = x / np.maximum(np.sqrt(local_mean(x * x, size)) + bias, epsilon)
        close(reference("local_variance_normalization", x, **attributes), expected)
        deviation = np.sqrt(local_mean(centered * centered, size)) + bias
        expected = centered / np.maximum(deviation, epsilon)
        close(reference("local_contrast_normalization", x, **attributes), expected)


@pytest.mark.parametrize("axes", [(0,), (1,), (2, 1), (0, 1, 2)])
def test_normalizations_by_norms_match_pytorch(axes: tuple[int, ...]) -> None:
    x = data(2, 4, 3)
    for name, p in (("l1_normalization", 1), ("l2_normalization", 2)):
        norm = torch.linalg.vector_norm(torch.tensor(x), p, dim=axes, keepdim=True).numpy()
        close(reference(name, x, axes=axes, bias=0.0, epsilon=0.0), x / norm)
        close(reference(name, x, axes=axes, bias=0.5, epsilon=0.0), x / (norm + 0.5))
        epsilon = float(np.median(norm)) + 0.5
        expected = x / np.maximum(norm + 0.25, epsilon)
        close(reference(name, x, axes=axes, bias=0.25, epsilon=epsilon), expected)
    many: Any = functional.normalize(torch.tensor(x), dim=1, eps=0.5)
    close(reference("l2_normalization", x, axes=(1,), bias=0.0, epsilon=0.5), many)


def test_batch_normalization_matches_pytorch() -> None:
    x, mean, variance, offset, scale = data(2, 3, 4, 5), *(data(5, 4, 3)[i, 0] for i in range(4))
    variance = variance**2
    operands = [torch.tensor(a) for a in (x, mean, variance, scale, offset)]
    expected = functional.batch_norm(*operands, eps=1e-3)
    channels = [a[None] for a in (mean, variance, offset, scale)]
    close(reference("batch_normalization", x, *channels, epsilon=1e-3), expected)
