"""Differences of two arrays: finite items, NaN and infinities apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.cli.compare.deviation import Deviation
from tests.helpers.examples import examples

NAN, INF = float("nan"), float("inf")
ITEMS = st.sampled_from([NAN, INF, -INF, 0.0, 1.0, -2.5, 1e30, 1e308])
PAIRS = st.lists(st.tuples(ITEMS, ITEMS), max_size=12)


def deviation(actual: list[float], expected: list[float]) -> Deviation:
    return Deviation.of(np.array(actual), np.array(expected))


def test_errors_are_relative_to_the_largest_finite_item() -> None:
    found = deviation([1.5, INF, 8], [1, INF, 10])
    assert (found.absolute, found.error, found.inf_equal) == (2, 0.2, 1)
    assert found.agrees(0.2)
    assert not found.agrees(0.19)


@pytest.mark.parametrize(
    ("actual", "expected", "counts", "agrees"),
    [
        (NAN, NAN, (1, 0, 0, 0), True),
        (NAN, 1, (0, 1, 0, 0), False),
        (1, NAN, (0, 1, 0, 0), False),
        (NAN, INF, (0, 1, 0, 0), False),
        (-INF, -INF, (0, 0, 1, 0), True),
        (-INF, INF, (0, 0, 0, 1), False),
        (INF, 1e30, (0, 0, 0, 1), False),
        (1e30, -INF, (0, 0, 0, 1), False),
    ],
)
def test_items_that_are_not_finite_are_counted(
    actual: float, expected: float, counts: tuple[int, ...], agrees: bool
) -> None:
    found = deviation([3, actual], [3, expected])
    assert (
        found.nan_in_both,
        found.nan_in_one,
        found.inf_equal,
        found.inf_different,
    ) == counts
    assert (found.absolute, found.error) == (0, 0)
    assert found.agrees(1e30) is agrees


@examples(0.5)
@given(PAIRS)
def test_deviations_follow_their_definition(pairs: list[tuple[float, float]]) -> None:
    """An item-by-item definition in plain Python."""
    found = deviation([a for a, _ in pairs], [e for _, e in pairs])
    nan = [(a != a) + (e != e) for a, e in pairs]
    others = [pair for pair, n in zip(pairs, nan, strict=True) if not n]
    infinite = [(a, e) for a, e in others if INF in (abs(a), abs(e))]
    finite = [(a, e) for a, e in others if INF not in (abs(a), abs(e))]
    assert found.nan_in_both == nan.count(2)
    assert found.nan_in_one == nan.count(1)
    assert found.inf_equal == sum(a == e for a, e in infinite)
    assert found.inf_different == sum(a != e for a, e in infinite)
    assert found.absolute == max((abs(a - e) for a, e in finite), default=0)
    scale = max((abs(e) for _, e in pairs if abs(e) < INF), default=0)
    assert found.error == found.absolute / (scale or 1)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16"])
def test_items_of_any_type_are_compared(dtype: str) -> None:
    actual: np.ndarray[Any, Any] = np.array([0, 1], dtype)
    found = Deviation.of(actual, np.array([1, 1], bool if dtype == "bool" else np.float64))
    assert (found.absolute, found.error) == (1, 1)


@pytest.mark.parametrize("types", [("int64", "int64"), ("uint64", "int64"), ("int32", "uint8")])
def test_integers_are_compared_exactly(types: tuple[str, str]) -> None:
    large = 100 if "uint8" in types else (1 << 62) + 1
    found = Deviation.of(np.array([large, 3], types[0]), np.array([large - 1, 3], types[1]))
    assert (found.absolute, found.error) == (1, 1 / (large - 1))
    assert not found.agrees(0)
    assert Deviation.of(np.array([large], types[0]), np.array([large], types[1])).agrees(0)


def test_arrays_without_items_agree() -> None:
    assert Deviation.of(np.zeros((0, 3)), np.zeros((0, 3))).agrees(0)


def test_other_shapes_are_a_divergence() -> None:
    found = Deviation.of(np.zeros(3), np.zeros(4))
    assert found.error == INF
    assert not found.agrees(1e30)
