"""Weights and arenas shared by the plans of one model."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from nnefc.formats.files import release_pages
from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.memory.arenas import ArenaPool
from nnefc.support.array_memory import owner, view_key

Array = np.ndarray[Any, Any]


class WeightPool:
    """Packed weights, computed once for all plans, and a pool of arenas.

    Packed forms of arrays registered with `keep` are cached; those of other arrays belong to the
    plan that asked for them.
    """

    def __init__(self, arena_bytes: int | None = None) -> None:
        """`arena_bytes`: see `ArenaPool`."""
        self.arenas = ArenaPool(arena_bytes)
        self._kept: dict[int, Array] = {}
        self._packed: dict[Hashable, Array] = {}

    def keep(self, array: Array) -> None:
        """Cache packed forms of this array, and keep it alive."""
        kept = owner(array)
        self._kept[id(kept)] = kept

    def packed(self, weight: PackedWeight) -> Array:
        """The items of a packed weight."""
        source = weight.source
        if id(owner(source)) not in self._kept:
            return weight.array()
        key = (*view_key(source), weight.packing, weight.parameters, weight.dtype)
        found = self._packed.get(key)
        if found is None:
            found = self._packed.setdefault(key, weight.array(release_pages))
        return found
