"""Weights that plans share: packed, or copied to an aligned address, once."""

from __future__ import annotations

import numpy as np
import pytest

from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.memory.weight_pool import WeightPool

MEMORY = np.arange(4 * 64 + 4).astype(np.uint8)
ALIGNED, UNALIGNED = MEMORY[:-4].view(np.float32), MEMORY[1:-3].view(np.float32)


def test_aligned_arrays_are_not_copied() -> None:
    assert WeightPool().items(ALIGNED) is ALIGNED


@pytest.mark.parametrize("kept", [False, True])
def test_copies_of_kept_arrays_are_shared(kept: bool) -> None:
    pool = WeightPool()
    if kept:
        pool.keep(MEMORY)
    copy = pool.items(UNALIGNED)
    assert copy.flags.aligned
    assert copy.tobytes() == UNALIGNED.tobytes()
    assert (pool.items(UNALIGNED[:]) is copy) == kept
    assert pool.nbytes == (copy.nbytes if kept else 0)
    assert pool.items(UNALIGNED.reshape(8, 8)).shape == (8, 8)


def test_packings_of_unaligned_arrays() -> None:
    pool = WeightPool()
    pool.keep(MEMORY)
    for array in (UNALIGNED, ALIGNED):
        weight = PackedWeight(array.reshape(2, 32), "panels", (1, 32))
        packed = pool.items(weight)
        assert pool.items(weight) is packed
        assert packed.tobytes() == array.tobytes()
