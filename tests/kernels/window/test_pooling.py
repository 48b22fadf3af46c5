"""Pooling of blocked tensors against formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nnefc.kernels.window.pooling_pieces import WINDOWS
from tests.helpers.examples import examples
from tests.helpers.kernels.blocked_op import BlockedGraph, halo
from tests.helpers.kernels.one_op import Array, normal

SETTINGS = examples(0.2)
KINDS = ("max ignore", "max constant", "sum", "average ignore", "average constant")


def _windows(
    x: Array,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...],
) -> Array:
    """[N, C, *outputs, taps] in float64; NaN on the border."""
    rank = len(size)
    w = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *padding), constant_values=np.nan)
    for axis in range(rank):
        extent = w.shape[2 + axis]
        outputs = (extent - (size[axis] - 1) * dilation[axis] - 1) // stride[axis] + 1
        starts = range(0, outputs * stride[axis], stride[axis])
        taps = range(0, size[axis] * dilation[axis], dilation[axis])
        i = np.add.outer(np.array(starts, np.int64), np.array(taps, np.int64))
        # the taps go to the end
        w = np.moveaxis(np.take(w, i, 2 + axis), 3 + axis, -1)
    return w.reshape(*w.shape[: 2 + rank], -1)


def _reference(kind: str, w: Array) -> Array:
    """The reduction over the last dimension."""
    volume, inside = w.shape[-1], ~np.isnan(w)
    match kind:
        case "max ignore":
            return np.where(inside, w, -np.inf).max(-1)
        case "max constant":
            return np.where(inside, w, 0).max(-1)
        case "average ignore":
            return np.where(inside, w, 0).sum(-1) / np.maximum(inside.sum(-1), 1)
        case "average constant":
            return np.where(inside, w, 0).sum(-1) / volume
        case _:
            return np.where(inside, w, 0).sum(-1)


def _check(
    kind: str, x: Array, size: tuple[int, ...], stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...], dilation: tuple[int, ...], *,
    block: int, around: tuple[int, int] = (0, 0), threads: int = 1,
) -> None:  # fmt: skip
    """`around`: the halos of input and output."""
    want = _reference(kind, _windows(x, size, stride, padding, dilation))
    # the reference has NaN outside the input
    met = _windows(np.isnan(x), size, stride, padding, dilation) == 1
    want = np.where(met.any(-1), np.nan, want)
    attributes: dict[str, Any] = {
        "size": (1, 1, *size),
        "stride": (1, 1, *stride),
        "padding": ((0, 0), (0, 0), *padding),
        "dilation": (1, 1, *dilation),
        "border": "constant" if kind in ("sum", "max constant", "average constant") else "ignore",
    }
    if not kind.startswith("max"):
        attributes["normalize"] = kind.startswith("average")
    name = "max_pool" if kind.startswith("max") else "box"
    g = BlockedGraph(block)
    source = g.input(x, halo(x.ndim, around[0]))
    (y,) = g.op(name, [source], want.shape, halo_=halo(x.ndim, around[1]), **attributes)
    (got,) = g.run(y, threads=threads)
    assert got.shape == want.shape
    if name == "max_pool":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@SETTINGS
@given(st.data())
def test_windows_match_the_formulas(data: st.DataObject) -> None:
    dims = data.draw(
        st.lists(
            st.tuples(
                st.integers(1, 12), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3),
                st.integers(0, 3), st.integers(1, 2),
            ),
            min_size=1, max_size=3,
        )
    )  # fmt: skip
    extents, size, stride, before, after, dilation = zip(*dims, strict=True)
    assume(all(x + p + q >= (f - 1) * d + 1 for x, f, _, p, q, d in dims))
    x = normal(1, data.draw(st.integers(1, 2)), data.draw(st.integers(1, 20)), *extents)
    around = data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    padding = tuple(zip(before, after, strict=True))
    kind = data.draw(st.sampled_from(KINDS))
    # windows outside the input would give infinities in padding channels
    want = _reference(kind, _windows(x, size, stride, padding, dilation))
    assume(bool(np.isfinite(want).all()))
    _check(kind, x, size, stride, padding, dilation, block=8, around=around)


@SETTINGS
@given(st.data())
def test_windows_of_tiles(data: st.DataObject) -> None:
    stride, taps = data.draw(st.sampled_from(WINDOWS))
    extents = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 40)))
    pad = data.draw(st.tuples(st.integers(0, taps // 2), st.integers(0, taps // 2)))
    assume(all(n + sum(pad) >= taps for n in extents))
    x = normal(1, 1, 9, *extents)
    kind = data.draw(st.sampled_from(KINDS))
    want = _reference(kind, _windows(x, (taps,) * 2, (stride,) * 2, (pad,) * 2, (1, 1)))
    assume(bool(np.isfinite(want).all()))
    _check(kind, x, (taps,) * 2, (stride,) * 2, (pad,) * 2, (1, 1), block=8)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("shape", "size", "stride", "pad", "kind"),
    [
        ((2, 40, 30, 112), 3, 2, 1, "max ignore"),
        ((1, 20, 35, 35), 3, 1, 1, "average ignore"),
        ((1, 17, 20, 20), 5, 1, 2, "max ignore"),
        ((1, 17, 14, 14), 2, 2, 0, "average constant"),
        ((1, 16, 20, 20), 13, 1, 6, "max ignore"),
        ((1, 16, 20, 20), 9, 1, 4, "average ignore"),
        ((1, 16, 33, 70), 31, 5, 15, "average ignore"),
        ((1, 33, 7, 7), 3, 1, 1, "max constant"),
        ((3, 5, 1, 1), 3, 1, 1, "average ignore"),
    ],
)
def test_maps_of_networks(
    shape: tuple[int, ...], size: int, stride: int, pad: int, kind: str, threads: int
) -> None:
    x = normal(1, *shape)
    _check(
        kind, x, (size,) * 2, (stride,) * 2, ((pad, pad),) * 2, (1, 1), block=16, threads=threads
    )


@pytest.mark.parametrize(("stride", "taps"), [*WINDOWS, (3, 4), (3, 2)])
def test_maximum_where_a_pixel_is_nan(stride: int, taps: int) -> None:
    x = normal(1, 1, 21, 3, 21)
    for column in range(21):
        x[0, column, 1, column] = np.nan
    pad = taps // 2 if taps > stride else 0
    _check("max ignore", x, (taps,) * 2, (stride,) * 2, ((pad, pad),) * 2, (1, 1), block=8)


@pytest.mark.parametrize("size", [3, 9])
def test_maximum_of_nan_is_nan(size: int) -> None:
    x = normal(1, 1, 4, 11, 11)
    x[0, 0, 5, 6] = np.nan
    x[0, 1] = -np.inf
    g = BlockedGraph(4)
    (y,) = g.op(
        "max_pool", [g.input(x)], (1, 4, 11, 11),
        size=(1, 1, size, size), stride=(1, 1, 1, 1), dilation=(1, 1, 1, 1), border="ignore",
        padding=((0, 0), (0, 0), *((size // 2, size // 2),) * 2),
    )  # fmt: skip
    (got,) = g.run(y)
    reach = size // 2
    hit = np.zeros((11, 11), bool)
    hit[max(5 - reach, 0) : 6 + reach, max(6 - reach, 0) : 7 + reach] = True
    np.testing.assert_array_equal(np.isnan(got[0, 0]), hit)
    assert (got[0, 1] == -np.inf).all() and not np.isnan(got[0, 2:]).any()


@pytest.mark.parametrize("spatial", [(1, 1), (7, 7), (5, 3, 6), (131,), (40, 37)])
@pytest.mark.parametrize("around", [0, 1])
def test_reductions_of_planes_match_numpy(spatial: tuple[int, ...], around: int) -> None:
    x = normal(1, 2, 21, *spatial) + np.float32(3)
    axes = tuple(range(2, x.ndim))
    shape = (2, 21, *(1,) * len(spatial))
    g = BlockedGraph(8)
    source = g.input(x, halo(x.ndim, around))
    options: dict[str, Any] = {"axes": axes, "halo_": halo(x.ndim)}
    results = [
        *g.op("sum_reduce", [source], shape, normalize=True, **options),
        *g.op("sum_reduce", [source], shape, normalize=False, **options),
        *g.op("max_reduce", [source], shape, **options),
        *g.op("min_reduce", [source], shape, **options),
    ]
    mean, total, most, least = g.run(*results)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(axes, keepdims=True), rtol=3e-7)
    np.testing.assert_allclose(total, wide.sum(axes, keepdims=True), rtol=3e-7)
    np.testing.assert_array_equal(most, x.max(axes, keepdims=True))
    np.testing.assert_array_equal(least, x.min(axes, keepdims=True))


def test_average_of_many_is_exact() -> None:
    x = normal(1, 1, 8, 300, 400) + np.float32(100)
    g = BlockedGraph(8)
    (y,) = g.op("sum_reduce", [g.input(x)], (1, 8, 1, 1), axes=(2, 3), normalize=True)
    (got,) = g.run(y)
    want = x.mean((2, 3), dtype=np.float64, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=1e-7)
