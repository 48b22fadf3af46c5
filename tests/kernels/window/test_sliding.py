"""Convolution, pooling and sampling against PyTorch, between guard pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, normal, run

SETTINGS = examples(0.6)
CONVOLVE: dict[int, Any] = {
    1: torch.nn.functional.conv1d,
    2: torch.nn.functional.conv2d,
    3: torch.nn.functional.conv3d,
}
REVERSE: dict[int, Any] = {
    1: torch.nn.functional.conv_transpose1d,
    2: torch.nn.functional.conv_transpose2d,
    3: torch.nn.functional.conv_transpose3d,
}
TOLERANCE = {"float32": 1e-4, "float64": 1e-10}


def _near(got: Array, want: Any) -> None:
    want = want.numpy() if isinstance(want, torch.Tensor) else want
    assert got.shape == want.shape
    tolerance = TOLERANCE[got.dtype.name]
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def _tensors(*arrays: Array) -> list[torch.Tensor]:
    return [torch.from_numpy(a) for a in arrays]  # pyright: ignore[reportUnknownMemberType]


@SETTINGS
@given(st.data())
def test_conv_matches_pytorch(data: st.DataObject) -> None:
    spatial = data.draw(st.integers(1, 3))
    several = st.tuples
    dims = [
        data.draw(
            several(
                st.integers(1, 9), st.integers(1, 4), st.integers(0, 3),
                st.integers(1, 3), st.integers(1, 2),
            )
        )
        for _ in range(spatial)
    ]  # fmt: skip
    extents, size, padding, stride, dilation = zip(*dims, strict=True)
    assume(all(x + 2 * p >= (f - 1) * d + 1 for x, f, p, _, d in dims))
    groups, inputs, outputs = (data.draw(st.sampled_from([1, 1, 2, 3, 9])) for _ in range(3))
    dtype = data.draw(st.sampled_from(["float32", "float32", "float64"]))
    x = normal(1, data.draw(st.integers(1, 3)), groups * inputs, *extents, dtype=dtype)
    w = normal(2, groups * outputs, inputs, *size, dtype=dtype)
    b = normal(3, 1, groups * outputs, dtype=dtype)
    got = run(
        "conv", x, w, b, padding=tuple((p, p) for p in padding), stride=stride,
        dilation=dilation, groups=groups, at_end=data.draw(st.booleans()),
    )  # fmt: skip
    xt, wt, bt = _tensors(x, w, b[0])
    _near(got, CONVOLVE[spatial](xt, wt, bt, stride, padding, dilation, groups))


@pytest.mark.parametrize("border", ["replicate", "reflect"])
def test_conv_with_borders_is_conv_of_the_padded(border: str) -> None:
    x, w, b = normal(1, 2, 3, 9, 7), normal(2, 20, 3, 3, 4), np.array(0.5, np.float32)
    padding = ((2, 1), (1, 3))
    got = run("conv", x, w, b, padding=padding, border=border)
    mode: Any = {"replicate": "edge", "reflect": "reflect"}[border]
    padded = np.pad(x, ((0, 0), (0, 0), *padding), mode)
    xt, wt = _tensors(padded, w)
    _near(got, torch.conv2d(xt, wt) + 0.5)


@pytest.mark.parametrize(
    ("channels", "outputs", "extent", "size", "groups"),
    [
        (130, 19, 15, 1, 1),  # more channels than a piece of the reduction holds
        (5, 33, 13, 12, 1),  # more taps than that
        (64, 70, 9, 3, 2),
        (3, 8, 61, 5, 1),
        (200, 37, 2, 2, 1),  # one pixel: dot products
        (24, 21, 4, 3, 3),  # four pixels
        (48, 48, 40, 3, 48),  # depthwise
        (16, 48, 25, 5, 16),  # depthwise with a multiplier
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_conv_over_many_tiles(
    channels: int, outputs: int, extent: int, size: int, groups: int, threads: int
) -> None:
    x = normal(1, 2, channels, extent, extent)
    w, b = normal(2, outputs, channels // groups, size, size), normal(3, 1, outputs)
    got = run("conv", x, w, b, padding=((0, 0), (0, 0)), groups=groups, threads=threads)
    xt, wt, bt = (t.double() for t in _tensors(x, w, b[0]))
    want = torch.conv2d(xt, wt, bt, groups=groups)
    assert np.abs(got - want.numpy()).max() <= 2e-6 * want.abs().max() * np.sqrt(channels)


@SETTINGS
@given(st.data())
def test_deconv_matches_pytorch(data: st.DataObject) -> None:
    spatial = data.draw(st.integers(1, 3))
    dims = [
        data.draw(
            st.tuples(
                st.integers(1, 5), st.integers(1, 4), st.integers(0, 2),
                st.integers(1, 3), st.integers(1, 2),
            )
        )
        for _ in range(spatial)
    ]  # fmt: skip
    extents, size, padding, stride, dilation = zip(*dims, strict=True)
    assume(all((x - 1) * s + (f - 1) * d + 1 > 2 * p for x, f, p, s, d in dims))
    groups, inputs, outputs = (data.draw(st.sampled_from([1, 1, 2, 5])) for _ in range(3))
    x = normal(1, 2, groups * inputs, *extents)
    w, b = normal(2, groups * inputs, outputs, *size), normal(3, 1, groups * outputs)
    got = run(
        "deconv", x, w, b, padding=tuple((p, p) for p in padding), stride=stride,
        dilation=dilation, groups=groups,
    )  # fmt: skip
    xt, wt, bt = _tensors(x, w, b[0])
    _near(got, REVERSE[spatial](xt, wt, bt, stride, padding, 0, groups, dilation))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("extent", "size", "stride", "padding"),
    [(70, 3, 2, 1), (33, 2, 2, 0), (9, 9, 1, 0), (30, 15, 4, 7), (600, 3, 1, 1)],
)
def test_pooling_matches_pytorch(
    extent: int, size: int, stride: int, padding: int, threads: int
) -> None:
    x = normal(1, 2, 3, 9, extent)
    (xt,) = _tensors(x)
    window: dict[str, Any] = {
        "size": (1, 1, 3, size),
        "stride": (1, 1, 2, stride),
        "padding": ((0, 0), (0, 0), (1, 1), (padding, padding)),
        "border": "ignore",
        "threads": threads,
    }
    size2, stride2, padding2 = (3, size), (2, stride), (1, padding)
    want, index = torch.nn.functional.max_pool2d_with_indices(xt, size2, stride2, padding2)
    _near(run("max_pool", x, **window), want)
    average = torch.nn.functional.avg_pool2d(xt, size2, stride2, padding2, count_include_pad=False)
    _near(run("box", x, normalize=True, **window), average)
    window["border"] = "constant"
    average = torch.nn.functional.avg_pool2d(xt, size2, stride2, padding2)
    _near(run("box", x, normalize=True, **window), average)
    window["border"] = "ignore"
    values, position = run("max_pool_with_index", x, **window)
    _near(values, want)
    # PyTorch's indices are relative to the plane, NNEF's to the window.
    height, width = want.shape[2:]
    row = position // size + np.arange(height)[:, None] * 2 - 1
    column = position % size + np.arange(width) * stride - padding
    assert (row * extent + column == index.numpy()).all()
    # Sampling returns the maxima, and desampling preserves their sum.
    window["border"] = "constant"
    np.testing.assert_array_equal(run("sample", x, position, **window), values)
    back = run("desample", values, position, output_shape=x.shape, **window)
    np.testing.assert_allclose(back.sum(), values.sum(dtype=np.float64), rtol=1e-4)


def test_sample_with_hostile_indices_reads_only_the_input() -> None:
    x = normal(1, 1, 1, 4, 4)
    index = np.full((1, 1, 2, 2), 2**31 - 1, np.int32)
    index[0, 0, 0] = -(2**31), 4
    window: dict[str, Any] = {"size": (1, 1, 2, 2), "stride": (1, 1, 2, 2)}
    assert (run("sample", x, index, **window) == 0).all()
    assert (run("desample", x[:, :, :2, :2], index, **window) == 0).all()


def test_maximum_of_nan_is_nan() -> None:
    x = np.array([[[1.0, np.nan, 0.0, -1.0, -np.inf, -np.inf]]], np.float32)
    window: dict[str, Any] = {
        "size": (1, 1, 2), "padding": ((0, 0),) * 3, "border": "ignore"
    }  # fmt: skip
    got = run("max_pool", x, **window)
    np.testing.assert_array_equal(got[0, 0], [np.nan, np.nan, 0.0, -1.0, -np.inf])
    index = run("argmax_pool", x, **window)
    np.testing.assert_array_equal(index[0, 0], [1, 0, 0, 0, 0])


def test_average_of_many_is_exact() -> None:
    """The average over the whole input is accurate."""
    x = normal(1, 1, 2, 300, 400) + np.float32(100)
    shape: dict[str, Any] = {"padding": ((0, 0),) * 4, "normalize": True}
    got = run("box", x, size=(1, 1, 300, 400), **shape)
    want = x.mean((2, 3), dtype=np.float64, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=1e-7)
    got = run("box", x, size=(1, 1, 299, 399), **shape)
    want = [
        x[:, :, i : i + 299, j : j + 399].mean((2, 3), dtype=np.float64)
        for i in (0, 1) for j in (0, 1)
    ]  # fmt: skip
    np.testing.assert_allclose(got, np.stack(want, -1).reshape(1, 2, 2, 2), rtol=1e-6)


@pytest.mark.parametrize("method", ["symmetric", "aligned"])
def test_upsampling_matches_pytorch(method: str) -> None:
    x = normal(1, 2, 3, 5, 37)
    (xt,) = _tensors(x)
    want = torch.nn.functional.interpolate(
        xt, scale_factor=(3, 2), mode="bilinear", align_corners=method == "aligned"
    )
    got = run("multilinear_upsample", x, factor=(3, 2), method=method, border="replicate")
    _near(got, want)
