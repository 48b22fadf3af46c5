"""Up and down-sampling against PyTorch, and against the deconvolutions of the specification."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from nnefc.ops.core.arrays import Array
from nnefc.ops.tools.table import operations

torch: Any = pytest.importorskip("torch")
interpolate: Any = torch.nn.functional.interpolate

FACTORS = [(3,), (2, 2), (1, 4), (3, 2), (2, 1, 3)]
MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def reference(name: str, *operands: Array, **attributes: Any) -> Array:
    found = operations()[name].reference
    assert found is not None
    return found(*operands, **attributes)


def data(factor: tuple[int, ...], multiple: int = 1) -> Array:
    extents = [multiple * f * n for f, n in zip(factor, (2, 3, 1), strict=False)]
    return np.random.default_rng(1).normal(size=(2, 3, *extents))


@pytest.mark.parametrize("factor", FACTORS)
def test_nearest_upsampling_matches_pytorch(factor: tuple[int, ...]) -> None:
    x = data(factor)
    expected = interpolate(torch.tensor(x), scale_factor=factor, mode="nearest")
    np.testing.assert_array_equal(reference("nearest_upsample", x, factor=factor), expected.numpy())


@pytest.mark.parametrize("factor", FACTORS)
def test_downsampling_matches_pytorch(factor: tuple[int, ...]) -> None:
    x = data(factor, 2)
    size = [extent // f for extent, f in zip(x.shape[2:], factor, strict=True)]
    nearest = interpolate(torch.tensor(x), size=size, mode="nearest")
    area = interpolate(torch.tensor(x), size=size, mode="area")
    result = reference("nearest_downsample", x, factor=factor)
    np.testing.assert_array_equal(result, nearest.numpy())
    result = reference("area_downsample", x, factor=factor)
    np.testing.assert_allclose(result, area.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(("method", "aligned"), [("symmetric", False), ("aligned", True)])
def test_multilinear_matches_torch(factor: tuple[int, ...], method: str, aligned: bool) -> None:
    x = data(factor)
    mode = MODES[len(factor)]
    size = [extent * f for extent, f in zip(x.shape[2:], factor, strict=True)]
    expected = interpolate(torch.tensor(x), size=size, mode=mode, align_corners=aligned)
    result = reference("multilinear_upsample", x, factor=factor, method=method, border="replicate")
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-9, atol=1e-12)


def triangle(f: int, method: str) -> tuple[list[float], int]:
    """(weights, leading padding) of the deconvolution that interpolates by a factor."""
    if method == "asymmetric":
        return [1 - abs(i) / f for i in range(-f + 1, f)], f - 1
    length = 2 * f if f % 2 == 0 else 2 * f - 1
    centre = (length - 1) / 2
    return [1 - abs(i - centre) / f for i in range(length)], f // 2


@pytest.mark.parametrize(
    ("method", "border", "factor"),
    list(
        itertools.product(
            ("symmetric", "asymmetric"),
            ("constant", "replicate", "reflect", "reflect-even"),
            ((2, 2), (3, 2), (1, 4), (5, 3)),
        )
    ),
)
def test_multilinear_is_a_deconvolution(method: str, border: str, factor: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).normal(size=(2, 1, 3, 4))
    (rows, above), (columns, left) = (triangle(f, method) for f in factor)
    filter = np.outer(rows, columns)[None, None]
    shape = (2, 1, 3 * factor[0], 4 * factor[1])
    below = 2 * factor[0] + len(rows) - above - shape[2]
    right = 3 * factor[1] + len(columns) - left - shape[3]
    expected = reference(
        "deconv",
        x,
        filter,
        np.zeros(()),
        border=border,
        padding=((above, below), (left, right)),
        stride=factor,
        dilation=(),
        output_shape=shape,
        groups=1,
    )
    result = reference("multilinear_upsample", x, factor=factor, method=method, border=border)
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)


def test_items_of_weight_zero_are_not_read() -> None:
    x = np.array([[[1.0, np.inf, 2.0]]])
    attributes = {"factor": (2,), "method": "asymmetric", "border": "replicate"}
    with np.errstate(invalid="ignore"):
        result = reference("multilinear_upsample", x, **attributes)
    assert result[0, 0, 0] == 1.0
    assert result[0, 0, 4] == 2.0
