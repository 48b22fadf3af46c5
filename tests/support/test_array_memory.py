"""Allocated memory is aligned: to cache lines, and to large pages where these are used."""

from __future__ import annotations

import pytest

from nnefc.support.alignment import ALIGNMENT
from nnefc.support.array_memory import address, aligned


@pytest.mark.parametrize(
    ("nbytes", "alignment"),
    [(1, ALIGNMENT), (4096, ALIGNMENT), ((4 << 20) - 1, ALIGNMENT), (4 << 20, 2 << 20)],
)
def test_memory_is_aligned(nbytes: int, alignment: int) -> None:
    arrays = [aligned(nbytes + i, "tests") for i in range(3)]
    for i, array in enumerate(arrays):
        assert array.size == nbytes + i
        assert address(array) % ALIGNMENT == 0
        assert array.flags.writeable
    assert address(arrays[0]) % alignment == 0
    array = arrays[0]
    array[0] = array[-1] = 7
