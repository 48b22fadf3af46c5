"""Memory for weights: arrays of their own, in blocks."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.support import large_pages
from nnefc.support.alignment import ALIGNMENT
from nnefc.support.array_memory import owner
from nnefc.support.errors import NnefError
from tests.helpers.collection import collect_and_freeze


@given(st.lists(st.integers(0, 6 << 20), max_size=8))
def test_arrays_are_aligned_and_disjoint(sizes: list[int]) -> None:
    found = [large_pages.large_page_memory(size, "weights") for size in sizes]
    assert [array.size for array in found] == sizes
    spans = sorted((array.ctypes.data, array.size) for array in found if array.size)
    assert all(start % ALIGNMENT == 0 for start, _ in spans)
    assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(spans))


@pytest.mark.slow
def test_blocks_live_as_long_as_their_arrays() -> None:
    collect_and_freeze()
    first = large_pages.large_page_memory(3 << 20, "weights")
    block = weakref.ref(owner(first))
    second = large_pages.large_page_memory(16, "weights")
    assert owner(second) is owner(first)
    while owner(large_pages.large_page_memory(1 << 20, "weights")) is block():
        pass  # until it is full
    del first
    gc.collect()
    assert block() is not None
    del second
    gc.collect()
    assert block() is None


def test_threads_have_blocks_of_their_own() -> None:
    found: list[np.ndarray[Any, Any]] = []

    def take() -> None:
        found.append(owner(large_pages.large_page_memory(64, "weights")))

    take()
    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert found[0] is not found[1]


def test_out_of_memory_is_an_error() -> None:
    with pytest.raises(NnefError, match="no memory for weights"):
        large_pages.large_page_memory(1 << 60, "weights")
