"""Partition of launches: bounds for all counts, costs and numbers of threads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nnefc.lower.partition import (
    MAX_LAUNCH_TILES,
    band_count,
    block_sizes,
    ceil_div,
    makespan,
    steps_per_unit,
    units_per_tile,
)
from tests.helpers.examples import examples

COUNTS = st.one_of(st.integers(1, 3000), st.integers(1, 1 << 40))
COSTS = st.floats(0, 1e9)
THREADS = st.integers(1, 64)


@given(count=COUNTS, cost=COSTS, threads=THREADS)
def test_tiles_are_neither_empty_nor_too_many(count: int, cost: float, threads: int) -> None:
    size = units_per_tile(count, cost, threads)
    assert 1 <= size <= count
    assert ceil_div(count, size) <= MAX_LAUNCH_TILES


@given(count=st.integers(2, 3000), threads=st.integers(2, 16))
def test_long_units_are_shared_evenly(count: int, threads: int) -> None:
    """No thread has much more than its share of expensive units."""
    cost = 1e6
    size = units_per_tile(count, cost, threads)
    most = ceil_div(ceil_div(count, size), threads) * size
    assert most <= 1.3 * ceil_div(count, threads) + 1


@given(threads=THREADS)
def test_negligible_work_is_one_tile(threads: int) -> None:
    assert units_per_tile(100, 0.1, threads) == 100


@given(count=COUNTS, cost=COSTS)
def test_units_have_steps(count: int, cost: float) -> None:
    assert 1 <= steps_per_unit(count, cost) <= count


@given(pixels=st.integers(1, 1 << 40), threads=THREADS)
def test_bands_are_large_enough(pixels: int, threads: int) -> None:
    bands = band_count(pixels, threads)
    assert bands == 1 or pixels / bands >= 64


@examples(0.5)
@given(count=st.integers(1, 3000))
def test_block_sizes_are_complete(count: int) -> None:
    assert list(block_sizes(count)) == sorted(
        {ceil_div(count, n) for n in range(1, count + 1)}, reverse=True
    )


def test_block_sizes_are_few() -> None:
    assert sum(1 for _ in block_sizes(1 << 24)) < 2 << 13


@given(count=st.integers(1, 500), cost=COSTS, threads=THREADS)
def test_makespan_is_at_least_the_shared_work(count: int, cost: float, threads: int) -> None:
    assert makespan(count, cost, threads) >= count * cost / max(threads, 2) * 0.999
