"""Up-sampling of blocked tensors against PyTorch and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.kernels.blocked_op import BlockedGraph, halo
from tests.helpers.kernels.one_op import Array, normal

SHAPES = [(2, 11, 5), (1, 21, 7, 7), (2, 3, 1, 4), (1, 16, 14, 33), (1, 9, 2, 3, 4)]


def _factor(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Factors that differ, and are 1 except in the last two dimensions."""
    return ((1,) * (len(shape) - 2) + (2, 3))[-(len(shape) - 2) :]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_nearest_upsampling_matches_numpy(shape: tuple[int, ...], threads: int) -> None:
    x, factor = normal(1, *shape), tuple(reversed(_factor(shape)))
    want = x
    for axis, f in enumerate(factor, 2):
        want = np.repeat(want, f, axis)
    cell = (1, 1, *factor)
    g = BlockedGraph(8)
    (y,) = g.op(
        "debox", [g.input(x, halo(x.ndim, 1))], want.shape, halo_=halo(x.ndim, 0, 1),
        size=cell, stride=cell, padding=((0, 0),) * x.ndim, dilation=(), border="constant",
        normalize=False, output_shape=(),
    )  # fmt: skip
    (got,) = g.run(y, threads=threads)
    np.testing.assert_array_equal(got, want)


def _linear(x: Array, method: str, factor: tuple[int, ...], *, threads: int = 1) -> Array:
    shape = (*x.shape[:2], *(n * f for n, f in zip(x.shape[2:], factor, strict=True)))
    g = BlockedGraph(8)
    (y,) = g.op(
        "multilinear_upsample", [g.input(x, halo(x.ndim, 1))], shape, halo_=halo(x.ndim, 0, 1),
        factor=factor, method=method, border="replicate",
    )  # fmt: skip
    (got,) = g.run(y, threads=threads)
    return got


MODES: dict[int, Any] = {3: "linear", 4: "bilinear", 5: "trilinear"}


@pytest.mark.parametrize("method", ["symmetric", "aligned"])
@pytest.mark.parametrize("shape", SHAPES)
def test_linear_matches_pytorch(shape: tuple[int, ...], method: str) -> None:
    x, factor = normal(1, *shape), _factor(shape)
    (xt,) = [torch.from_numpy(x).double()]  # pyright: ignore[reportUnknownMemberType]
    want = torch.nn.functional.interpolate(
        xt, scale_factor=factor, mode=MODES[x.ndim], align_corners=method == "aligned"
    )
    got = _linear(x, method, factor, threads=2)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-6)


def _between(x: Array, axis: int, factor: int) -> Array:
    """Output i is at i / factor, clamped to the last item."""
    at = np.arange(x.shape[axis] * factor, dtype=np.float64) / factor
    at = np.clip(at, 0, x.shape[axis] - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    weight = (at - low).reshape(-1, *(1,) * (x.ndim - axis - 1))
    return x.take(low, axis) * (1 - weight) + x.take(high, axis) * weight


def test_asymmetric_upsampling_matches_its_formula() -> None:
    x = normal(1, 1, 8, 3, 4)
    want = _between(_between(x, 2, 2), 3, 3)
    got = _linear(x, "asymmetric", (2, 3))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_pixels_without_weight_are_ignored() -> None:
    x = normal(1, 1, 8, 3, 3)
    x[0, 0, 1, 1] = np.inf
    got = _linear(x, "asymmetric", (2, 2))
    assert got[0, 0, 2, 2] == np.inf
    assert np.isfinite(got[0, 0, [0, 0, 4, 4], [0, 4, 0, 4]]).all()
    assert not np.isnan(got).any()
