"""Histograms, observers and codes, compared with NumPy in float64 on the items themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nnefc import NnefError
from nnefc.driver.quantize.codes import Range, parameters_of, rounded, weight_codes
from nnefc.driver.quantize.histogram import BINS, Histogram
from nnefc.driver.quantize.observers import entropy, mean_square, min_max, observer_of, percentile
from nnefc.ir import DType

Array = np.ndarray[Any, Any]
DTYPES = (DType.UINT8, DType.INT8)

reals = st.floats(-(2.0**100), 2.0**100, width=32) | st.floats(-4, 4, width=32) | st.just(0.0)
tensors = arrays(np.float32, st.integers(1, 40), elements=reals)


def histogram_of(*tensors: Array) -> Histogram:
    histogram = Histogram("x")
    for tensor in tensors:
        histogram.add(tensor)
    return histogram


def squared_error(items: Array, range_: Range, dtype: DType) -> float:
    """By the formulas of codes, written out."""
    scale, zero, _ = parameters_of(range_, dtype)
    first, last = (0, 255) if dtype is DType.UINT8 else (-128, 127)
    codes = np.clip(np.round(items.astype(np.float64) / scale) + zero, first, last)
    return float(np.mean(((codes - zero) * scale - items) ** 2))


# -- histograms


@given(st.lists(tensors, min_size=1, max_size=4))
def test_counts_are_those_of_the_items(samples: list[Array]) -> None:
    histogram = histogram_of(*samples)
    items = np.concatenate(samples).astype(np.float64)
    assert (histogram.low, histogram.high, histogram.total) == (
        items.min(),
        items.max(),
        items.size,
    )
    width = histogram.width
    if width == 0:
        assert not items.any()
        assert histogram.counts[BINS // 2] == items.size
        return
    expected, _ = np.histogram(np.clip(items, histogram.edges[0], None), histogram.edges)
    np.testing.assert_array_equal(histogram.counts, expected)
    largest = np.abs(items).max()
    assert largest <= width * BINS / 2 <= 2 * largest, "the bins cover little more than the items"


@given(st.lists(tensors, min_size=2, max_size=4))
def test_the_order_of_samples_does_not_matter(samples: list[Array]) -> None:
    forward, backward = histogram_of(*samples), histogram_of(*samples[::-1])
    assert forward.width == backward.width
    np.testing.assert_array_equal(forward.counts, backward.counts)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_items_that_are_not_finite_are_refused(wrong: float) -> None:
    with pytest.raises(NnefError, match=r"'x' has -?(nan|inf) .*quantization/finite"):
        histogram_of(np.array([0.0, wrong], np.float32))


def test_an_empty_array_changes_nothing() -> None:
    assert histogram_of(np.zeros((0, 3), np.float32)).total == 0


# -- codes


@given(tensors, st.sampled_from(DTYPES))
def test_zero_is_a_code_and_the_range_is_covered(items: Array, dtype: DType) -> None:
    range_ = min_max(histogram_of(items), dtype)
    parameters = parameters_of(range_, dtype)
    first, last = (0, 255) if dtype is DType.UINT8 else (-128, 127)
    assert first <= parameters.zero_point <= last
    assert parameters.scale == np.float32(parameters.scale) > 0
    wide = items.astype(np.float64)
    assert rounded(np.zeros(1), parameters)[0] == 0
    error = np.abs(rounded(wide, parameters) - wide)
    assert error.max() <= parameters.scale * 0.5001


@given(arrays(np.float32, (3, 4, 2), elements=st.floats(-9, 9, width=32)))
def test_weights_have_a_symmetric_scale_per_channel(weights: Array) -> None:
    for axis in (0, 1, None):
        codes, scales = weight_codes(weights, axis)
        moved = weights[None] if axis is None else np.moveaxis(weights, axis, 0)
        expected = [np.abs(channel.astype(np.float64)).max() / 127 or 1.0 for channel in moved]
        kept = [weights.shape[i] if i == axis else 1 for i in range(3)]
        assert list(scales.shape) == ([] if axis is None else kept)
        np.testing.assert_allclose(
            scales.reshape(-1), np.maximum(expected, np.finfo(np.float32).tiny), rtol=1e-6
        )
        assert codes.dtype == np.int8
        assert codes.min(initial=0) >= -127
        assert np.abs(codes * scales.astype(np.float64) - weights).max() <= scales.max() * 0.5001


# -- observers


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["min-max", "percentile", "entropy", "mean-square"])
@pytest.mark.parametrize("item", [0.0, 3.5, -2.25, 1e-44, -3e38])
def test_constants_keep_their_value(name: str, item: float, dtype: DType) -> None:
    items = np.full(100, item, np.float32)
    range_ = observer_of(name, 99.0)(histogram_of(items), dtype)
    parameters = parameters_of(range_, dtype)
    error = abs(float(rounded(items.astype(np.float64), parameters)[0]) - float(items[0]))
    assert error <= max(abs(item) * 1e-6, 1e-38)


@given(tensors, st.sampled_from(DTYPES))
def test_observers_stay_within_the_items(items: Array, dtype: DType) -> None:
    histogram = histogram_of(items)
    low, high = min(histogram.low, 0.0), max(histogram.high, 0.0)
    for name in ("min-max", "percentile", "entropy", "mean-square"):
        range_ = observer_of(name, 90.0)(histogram, dtype)
        assert low <= range_.low <= range_.high <= high


@given(tensors, st.lists(st.floats(0.01, 100), min_size=2, max_size=5))
def test_percentiles_are_monotone_and_cover(items: Array, percents: list[float]) -> None:
    histogram = histogram_of(items)
    before = Range(np.inf, -np.inf)
    for percent in sorted(percents):
        range_ = percentile(percent)(histogram, DType.UINT8)
        assert range_.low <= before.low
        assert range_.high >= before.high
        inside = np.mean((items >= range_.low) & (items <= range_.high))
        assert inside >= percent / 100 - 1e-9
        before = range_
    assert percentile(100.0)(histogram, DType.UINT8) == (histogram.low, histogram.high)


def test_percentiles_leave_out_the_tails() -> None:
    items = np.random.default_rng(0).normal(size=100_000).astype(np.float32)
    range_ = percentile(99.0)(histogram_of(items), DType.INT8)
    np.testing.assert_allclose(range_, np.percentile(items, [0.5, 99.5]), atol=0.01)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
def test_mean_square_is_near_the_best_range(dtype: DType, positive: bool) -> None:
    items = np.random.default_rng(1).laplace(size=40_000).astype(np.float32)
    items = np.maximum(items, 0) if positive else items
    found = squared_error(items, mean_square(histogram_of(items), dtype), dtype)
    grid = np.linspace(0.1, 1, 60)
    ends = [(low, high) for low in grid for high in grid if not positive or low == 1]
    best = min(
        squared_error(items, Range(items.min() * low, items.max() * high), dtype)
        for low, high in ends[:: 1 if positive else 7]
    )
    assert found <= best * 1.02
    assert found < 0.98 * squared_error(items, Range(items.min(), items.max()), dtype)


def test_entropy_keeps_uniform_items_and_clips_rare_ones() -> None:
    random = np.random.default_rng(2)
    uniform = random.uniform(-1, 1, 200_000).astype(np.float32)
    range_ = entropy(histogram_of(uniform), DType.INT8)
    assert range_.high - range_.low > 1.9
    rare = np.append(random.normal(size=200_000), [40.0, -40.0]).astype(np.float32)
    range_ = entropy(histogram_of(rare), DType.INT8)
    assert 3 < range_.high < 20


@pytest.mark.parametrize("number", [3_000, 30_000, 200_000])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["all", "relu", "mostly 0"])
@pytest.mark.parametrize("distribution", ["normal", "laplace"])
def test_entropy_is_near_mean_square(
    distribution: str, kind: str, dtype: DType, number: int
) -> None:
    """Also with the zeros of a ReLU, which are one peak of the distribution."""
    random = np.random.default_rng(number)
    items = (random.normal if distribution == "normal" else random.laplace)(size=number)
    if kind != "all":
        items = np.maximum(items - (1.5 if kind == "mostly 0" else 0), 0)
    items = items.astype(np.float32)
    histogram = histogram_of(items)
    errors = [squared_error(items, f(histogram, dtype), dtype) for f in (entropy, mean_square)]
    assert errors[0] <= errors[1] * 10**0.3, "at most 3 dB"


@pytest.mark.parametrize("distribution", ["normal", "laplace"])
def test_entropy_clips_about_as_onnxruntime_does(distribution: str) -> None:
    """onnxruntime chooses a symmetric range by the same measure, with other bins."""
    calibrate: Any = pytest.importorskip("onnxruntime.quantization.calibrate")
    random = np.random.default_rng(7)
    items = (random.normal if distribution == "normal" else random.laplace)(size=100_000)
    items = items.astype(np.float32)
    most = float(np.abs(items).max())
    counts, edges = np.histogram(items, 768, range=(-most, most))
    collector = calibrate.HistogramCollector.__new__(calibrate.HistogramCollector)
    limits = collector.get_entropy_threshold((counts, edges, items.min(), items.max()), 255)
    theirs = Range(float(limits[0]), float(limits[1]))
    ours = entropy(histogram_of(items), DType.INT8)
    errors = [squared_error(items, range_, DType.INT8) for range_ in (ours, theirs)]
    assert abs(10 * np.log10(errors[0] / errors[1])) < 2
