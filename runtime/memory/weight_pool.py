"""Weights and arenas shared by the plans of one model."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from nnefc.formats.files import release_pages
from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.memory.arena_pool import ArenaPool
from nnefc.support.array_memory import owner, view_key

Array = np.ndarray[Any, Any]


class WeightPool:
    """Packed weights, computed once for all plans, and a pool of arenas.

    Packings of arrays registered with `keep` are cached; packings of other arrays belong to the
    plan that requested them.
    """

    def __init__(self, arena_bytes: int | None = None) -> None:
        """`arena_bytes`: see `ArenaPool`."""
        self.arenas = ArenaPool(arena_bytes)
        self._owners: dict[int, Array] = {}
        self._packed: dict[Hashable, Array] = {}
        """Packed weights, and aligned copies of arrays."""

    def keep(self, array: Array) -> None:
        """Cache packings of this array, and keep it alive."""
        memory = owner(array)
        self._owners[id(memory)] = memory

    @property
    def nbytes(self) -> int:
        """Bytes of the packed weights and of copies."""
        return sum(array.nbytes for array in list(self._packed.values()))

    def items(self, constant: Array | PackedWeight) -> Array:
        """The items of a constant as kernels read them."""
        return (
            self.packed(constant) if isinstance(constant, PackedWeight) else self.aligned(constant)
        )

    def aligned(self, array: Array) -> Array:
        """A C-contiguous array, or a copy of it if it is not aligned."""
        if array.flags.aligned:
            return array
        if id(owner(array)) not in self._owners:
            return np.require(array, requirements=["A"])
        key = view_key(array)
        copied = self._packed.get(key)
        if copied is None:
            copied = self._packed.setdefault(key, np.require(array, requirements=["A"]))
            release_pages()
        return copied

    def packed(self, weight: PackedWeight) -> Array:
        """The items of a packed weight."""
        if id(owner(weight.source)) not in self._owners:
            return weight.array()
        key = _key(weight)
        array = self._packed.get(key)
        if array is None:
            array = self._packed.setdefault(key, weight.array(release_pages))
        return array

    def adopt(self, weight: PackedWeight, items: Array) -> None:
        """Use `items`, which are those of a packed weight, unless there are some already."""
        self.keep(weight.source)
        self._packed.setdefault(_key(weight), items)


def _key(weight: PackedWeight) -> Hashable:
    return (*view_key(weight.source), weight.packing, weight.parameters, weight.dtype)
