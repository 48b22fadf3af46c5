"""How far results agree: the measures against their formulas, and their choice by the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.driver.quantize.agreement import Agreement, Measure, agreements_of
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.tools.build import build
from nnefc.support.errors import NnefError

RNG = np.random.default_rng(5)


def added(each: Agreement, *pairs: Any) -> Agreement:
    for expected, found in pairs:
        each.add(np.asarray(expected), np.asarray(found))
    return each


def test_first_classes_are_counted_over_all_samples() -> None:
    a, b = [[0.1, 0.7, 0.2]], [[0.5, 0.4, 0.1]]
    each = added(Agreement("top-1"), (a, a), (a, b), (b, b), (b, [[0.9, 0.0, 0.1]]))
    assert (each.loss, each.value) == (25.0, 0.75)


def test_classes_of_pixels_are_along_the_axis_of_the_softmax() -> None:
    a, b = RNG.random((2, 3, 4, 5)), RNG.random((2, 3, 4, 5))
    different = [
        np.argmax(a[n, :, i, j]) != np.argmax(b[n, :, i, j]) for n, i, j in np.ndindex(2, 4, 5)
    ]
    assert added(Agreement("top-1", 1), (a, b)).loss == pytest.approx(100 * np.mean(different))


def test_a_nan_is_no_class() -> None:
    assert added(Agreement("top-1"), ([[1.0, 2.0]], [[1.0, np.nan]])).loss == 100
    assert np.isnan(added(Agreement("cosine"), ([[1.0, 2.0]], [[1.0, np.nan]])).loss)


def test_the_cosine_is_the_mean_over_vectors() -> None:
    each = added(
        Agreement("cosine"),
        ([[[3.0, 4.0], [1.0, 0.0]]], [[[4.0, 3.0], [2.0, 0.0]]]),
        ([[[0.0, 0.0], [0.0, 1.0]]], [[[0.0, 0.0], [0.0, 0.0]]]),
    )
    assert each.value == pytest.approx((24 / 25 + 1 + 1 + 0) / 4)
    assert each.loss == pytest.approx(100 - 100 * each.value)


def test_errors_are_a_part_of_the_range_over_all_samples() -> None:
    pairs = [(RNG.normal(size=(1, 3, 4, 4)), RNG.normal(size=(1, 3, 4, 4))) for _ in range(3)]
    a, b = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    each = added(Agreement("psnr"), *pairs)
    mean = np.mean((a - b) ** 2)
    assert each.loss == pytest.approx(100 * np.sqrt(mean) / (a.max() - a.min()))
    assert each.value == pytest.approx(10 * np.log10((a.max() - a.min()) ** 2 / mean))
    assert added(Agreement("psnr"), (a, a)).value == np.inf
    assert added(Agreement("psnr"), ([1.0], [2.0])).loss == np.inf, "a result without a range"


def test_integers_are_compared_item_by_item() -> None:
    assert added(Agreement("top-1", None), ([1, 2, 3, 4], [1, 2, 4, 4])).loss == 25


def graph(shape: tuple[int, ...], dtype: DType = DType.FLOAT32, *ops: Any) -> Graph:
    made = Graph("net")
    value = made.add_input(TensorType(dtype, shape), "x")
    for name, attributes in ops:
        value = build(made, name, [value], attributes).output
    made.add_output(value, "y")
    return made


@pytest.mark.parametrize(
    ("shape", "ops", "expected"),
    [
        ((2, 10), [], ("top-1", -1)),
        ((1, 4, 8, 8), [("softmax", {"axes": [1]})], ("top-1", 1)),
        ((3, 5), [("softmax", {"axes": [1]}), ("unsqueeze", {"axes": [0]})], ("top-1", -1)),
        ((2, 10), [("l2_normalization", {"axes": [1]})], ("cosine", -1)),
        ((2, 7, 10), [], ("cosine", -1)),
        ((10,), [], ("cosine", -1)),
        ((1, 3, 8, 8), [], ("psnr", -1)),
        ((5, 1), [], ("psnr", -1)),
        ((), [], ("psnr", -1)),
    ],
)
def test_the_measure_follows_from_the_result(shape: Any, ops: Any, expected: Any) -> None:
    (each,) = agreements_of(graph(shape, DType.FLOAT32, *ops), None)
    assert (each.measure, each.axis) == expected
    (each,) = agreements_of(graph((3,), DType.INT64), "psnr")
    assert (each.measure, each.axis) == ("top-1", None)


@pytest.mark.parametrize(("measure", "what"), [("top-1", "classes"), ("cosine", "vectors")])
def test_results_without_the_measure_are_refused(measure: Measure, what: str) -> None:
    with pytest.raises(NnefError, match=rf"'y' of shape \[5,1\] has no {what}"):
        agreements_of(graph((5, 1)), measure)
