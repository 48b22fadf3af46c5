"""Transposes, slices, joins and gathers against NumPy, between guard pages."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.lower import lower
from nnefc.lower.movement import strided
from tests.helpers.examples import examples
from tests.helpers.kernels import one_op
from tests.helpers.kernels.one_op import Array, run, run_all

SETTINGS = examples(0.6)
DTYPES = ["float32", "float64", "int16", "int32", "int64", "bool"]
SHAPES = st.lists(st.one_of(st.integers(1, 4), st.integers(1, 40)), min_size=1, max_size=4)


def _items(shape: tuple[int, ...], dtype: str) -> Array:
    count = np.arange(int(np.prod(shape)))
    return (count % 3 == 1 if dtype == "bool" else count).astype(dtype).reshape(shape)


def _drawn(data: st.DataObject, dtypes: list[str] = DTYPES) -> Array:
    return _items(tuple(data.draw(SHAPES)), data.draw(st.sampled_from(dtypes)))


@SETTINGS
@given(st.data())
def test_transpose_matches_numpy(data: st.DataObject) -> None:
    x = _drawn(data)
    axes = tuple(data.draw(st.permutations(range(x.ndim))))
    np.testing.assert_array_equal(run("transpose", x, axes=axes), x.transpose(axes))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_transposes_match_numpy(
    dtype: str, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if streams:  # stored past the caches: rows of the result start at cache lines
        monkeypatch.setattr(strided, "STREAM_BYTES", 0)
        monkeypatch.setattr(one_op, "lower", partial(lower, cache_bytes=0))
    for shape, axes in [
        ((300, 500), (1, 0)),
        ((2, 60, 70, 5), (0, 3, 1, 2)),
        ((2, 5, 60, 70), (0, 2, 3, 1)),
        ((20, 30, 64), (1, 0, 2)),
        ((9, 40, 50), (2, 1, 0)),
        ((192, 700), (1, 0)),
        ((2, 448, 27), (0, 2, 1)),
        # rows with equal offsets in a cache line, but not 0
        ((201, 64, 40), (2, 1, 0)),
        ((203, 16, 50), (2, 1, 0)),
        ((203, 8, 70), (2, 1, 0)),
    ]:
        x = _items(shape, dtype)
        got = run("transpose", x, axes=axes, threads=2)
        np.testing.assert_array_equal(got, x.transpose(axes))


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64"])
@pytest.mark.parametrize("planes", [1, 2, 3, 4, 5])
def test_interleaved_planes_are_separated_and_joined(planes: int, dtype: str) -> None:
    """Interleaved planes are, for example, the colours of an image."""
    for count in (1, 2, 15, 16, 17, 50, 640):
        pixels = np.arange(2 * count * planes).astype(dtype).reshape(2, count, planes)
        apart = np.ascontiguousarray(pixels.swapaxes(1, 2))
        np.testing.assert_array_equal(run("transpose", pixels, axes=(0, 2, 1)), apart)
        np.testing.assert_array_equal(run("transpose", apart, axes=(0, 2, 1)), pixels)


@SETTINGS
@given(st.data())
def test_split_and_concat_are_inverse(data: st.DataObject) -> None:
    x = _drawn(data)
    axis = data.draw(st.integers(0, x.ndim - 1))
    cut = data.draw(st.integers(1, x.shape[axis]))
    ratios = (cut, x.shape[axis] - cut) if cut < x.shape[axis] else (cut,)
    parts = run_all("split", x, axis=axis, ratios=ratios)
    for part, want in zip(parts, np.split(x, [cut], axis), strict=False):
        np.testing.assert_array_equal(part, want)
    np.testing.assert_array_equal(run("concat", *parts, axis=axis), x)


@SETTINGS
@given(st.data())
def test_stack_and_unstack_are_inverse(data: st.DataObject) -> None:
    x = _drawn(data)
    axis = data.draw(st.integers(0, x.ndim - 1))
    parts = run_all("unstack", x, axis=axis)
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(part, x.take(i, axis))
    np.testing.assert_array_equal(run("stack", *parts, axis=axis), x)


@SETTINGS
@given(st.data())
def test_slice_matches_numpy(data: st.DataObject) -> None:
    x = _drawn(data)
    axes = tuple(data.draw(st.permutations(range(x.ndim))))[: data.draw(st.integers(0, x.ndim))]
    begin: list[int] = []
    end: list[int] = []
    stride: list[int] = []
    where: list[Any] = [slice(None)] * x.ndim
    for axis in axes:
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, x.shape[axis])] * 2)))
        last = max(last, first + 1)
        first = min(first, x.shape[axis] - 1)
        last = min(last, x.shape[axis])
        step = data.draw(st.sampled_from([1, 2, 3, -1, -2]))
        if step < 0 and first > 0:  # a negative step; the end is exclusive
            first, last = last - 1, first - 1
        elif step < 0:
            step = 1
        begin.append(first)
        end.append(last)
        stride.append(step)
        where[axis] = slice(first, last, step) if last >= 0 else slice(first, None, step)
    if any(last == 0 and step < 0 for last, step in zip(end, stride, strict=True)):
        where = [slice(w.start, 0, w.step) if w.stop == 0 else w for w in where]
    attributes: dict[str, Any] = {
        "axes": axes,
        "begin": tuple(begin),
        "end": tuple(end),
        "stride": tuple(stride),
    }
    np.testing.assert_array_equal(run("slice", x, **attributes), x[tuple(where)])


@SETTINGS
@given(st.data())
def test_tile_matches_numpy(data: st.DataObject) -> None:
    x = _drawn(data)
    repeats = tuple(data.draw(st.integers(1, 3)) for _ in x.shape)
    np.testing.assert_array_equal(run("tile", x, repeats=repeats), np.tile(x, repeats))


@SETTINGS
@given(st.data())
def test_pad_matches_numpy(data: st.DataObject) -> None:
    x = _drawn(data, ["float32", "float64"])
    border, mode = data.draw(
        st.sampled_from(
            [("constant", "constant"), ("replicate", "edge"), ("reflect", "reflect"),
             ("reflect-even", "symmetric")]
        )
    )  # fmt: skip
    padding = tuple(data.draw(st.tuples(*[st.integers(0, 5)] * 2)) for _ in x.shape)
    got = run("pad", x, padding=padding, border=border, value=0.5)
    keywords: dict[str, Any] = {"constant_values": 0.5} if mode == "constant" else {}
    np.testing.assert_array_equal(got, np.pad(x, padding, mode, **keywords))  # type: ignore[call-overload]


@SETTINGS
@given(st.data())
def test_gather_matches_numpy(data: st.DataObject) -> None:
    x = _drawn(data)
    axis = data.draw(st.integers(0, x.ndim - 1))
    extent = x.shape[axis]
    index = st.one_of(st.integers(-extent, extent - 1), st.sampled_from([2**31 - 1, -(2**31)]))
    items = data.draw(st.lists(index, min_size=1, max_size=9))
    indices = np.array(items, data.draw(st.sampled_from(["int32", "int64"])))
    wrapped = np.where(indices < 0, indices + extent, indices)
    want = x.take(np.clip(wrapped, 0, extent - 1), axis)
    got = run("gather", x, indices, axis=axis, check_indices=False)
    np.testing.assert_array_equal(got, want)
