"""What several plans of one model share: packed weights, and memory between launches."""

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
    """Weights as kernels read them, made once for all plans, and arenas.

    What is made of arrays that are `kept` alive is kept, too; what a plan makes of others belongs
    to that plan.
    """

    def __init__(self, arena_bytes: int | None = None) -> None:
        """`arena_bytes`: see `ArenaPool`."""
        self.arenas = ArenaPool(arena_bytes)
        self._kept: dict[int, Array] = {}
        self._packed: dict[Hashable, Array] = {}

    def keep(self, array: Array) -> None:
        """Share what is made of this array."""
        kept = owner(array)
        self._kept[id(kept)] = kept

    def packed(self, derived: PackedWeight) -> Array:
        """The items of a constant that is made of another array."""
        source = derived.source
        if id(owner(source)) not in self._kept:
            return derived.array()
        key = (*view_key(source), derived.packing, derived.parameters, derived.dtype)
        found = self._packed.get(key)
        if found is None:
            found = self._packed.setdefault(key, derived.array(release_pages))
        return found
