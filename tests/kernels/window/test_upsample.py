"""Up-sampling of blocked tensors against PyTorch and NumPy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ops.tools.table import operations
from tests.helpers.examples import examples
from tests.helpers.kernels.blocked_op import BlockedGraph, halo
from tests.helpers.kernels.one_op import Array, normal, run

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


def _linear(
    x: Array,
    method: str,
    factor: tuple[int, ...],
    *,
    border: str = "replicate",
    threads: int = 1,
) -> Array:
    shape = (*x.shape[:2], *(n * f for n, f in zip(x.shape[2:], factor, strict=True)))
    g = BlockedGraph(8)
    (y,) = g.op(
        "multilinear_upsample", [g.input(x, halo(x.ndim, 1))], shape, halo_=halo(x.ndim, 0, 1),
        factor=factor, method=method, border=border,
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


METHODS = ["symmetric", "asymmetric", "aligned"]
BORDERS = ["constant", "replicate", "reflect", "reflect-even"]


def _position(i: int, extent: int, factor: int, method: str) -> Fraction:
    """The position in the input of output i (4.3.4)."""
    match method:
        case "asymmetric":
            return Fraction(i, factor)
        case "aligned":
            return Fraction(i * (extent - 1), max(extent * factor - 1, 1))
        case _:
            return Fraction(2 * i + 1, 2 * factor) - Fraction(1, 2)


def _item(row: Array, i: int, border: str) -> Array:
    """Item i of a row, which the border mode continues."""
    last = len(row) - 1
    while not 0 <= i <= last:
        match border:
            case "constant":
                return np.zeros_like(row[0])
            case "replicate":
                i = min(max(i, 0), last)
            case "reflect":
                i = 0 if not last else abs(i) if i < 0 else 2 * last - i
            case _:
                i = -1 - i if i < 0 else 2 * last + 1 - i
    return row[i]


def _interpolated(x: Array, factor: tuple[int, ...], method: str, border: str) -> Array:
    """`multilinear_upsample` item by item; terms of weight 0 are left out."""
    for axis, f in enumerate(factor, 2):
        row = np.moveaxis(x, axis, 0)
        outputs: list[Array] = []
        for i in range(len(row) * f):
            at = _position(i, len(row), f, method)
            j = math.floor(at)
            u = float(at - j)
            low = _item(row, j, border)
            outputs.append(low if u == 0 else (1 - u) * low + u * _item(row, j + 1, border))
        x = np.moveaxis(np.stack(outputs), 0, axis)
    return x


@examples(0.5)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    factor=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    method=st.sampled_from(METHODS),
    border=st.sampled_from(BORDERS),
    channels=st.sampled_from([1, 8]),
    data=st.data(),
)
def test_an_infinite_pixel(
    shape: tuple[int, int],
    factor: tuple[int, int],
    method: str,
    border: str,
    channels: int,
    data: st.DataObject,
) -> None:
    """Compiled code, row-major or in blocks of channels, and the reference; no 0 times infinity."""
    x = normal(1, 1, channels, *shape)
    where = tuple(data.draw(st.integers(0, extent - 1)) for extent in shape)
    x[0, 0, *where] = data.draw(st.sampled_from([np.inf, -np.inf]))
    how = {"factor": factor, "method": method, "border": border}
    want = _interpolated(x.astype(np.float64), factor, method, border)
    assert not np.isnan(want).any()
    reference = operations()["multilinear_upsample"].reference
    assert reference is not None
    np.testing.assert_allclose(reference(x.astype(np.float64), **how), want, rtol=1e-12)
    got = run("multilinear_upsample", x, **how)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    if channels == 8 and border != "constant":  # blocks never read a zero border
        got = _linear(x, method, factor, border=border)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_pixels_without_weight_are_ignored() -> None:
    x = normal(1, 1, 8, 3, 3)
    x[0, 0, 1, 1] = np.inf
    got = _linear(x, "asymmetric", (2, 2))
    assert got[0, 0, 2, 2] == np.inf
    assert np.isfinite(got[0, 0, [0, 0, 4, 4], [0, 4, 0, 4]]).all()
    assert not np.isnan(got).any()
