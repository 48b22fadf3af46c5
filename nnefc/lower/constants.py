"""The constants of a program: each array once, however many operations and stages read it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.program.program import Buffer, Program, Ref
from nnefc.support.array_memory import address, owner, view_key
from nnefc.symbolic.base import Untraceable
from nnefc.symbolic.traced_array import TracedArray

if TYPE_CHECKING:
    import numpy as np

    from nnefc.packing import Parameters, Release

    Array = np.ndarray[Any, Any]

Key = tuple[Hashable, ...]

COPIED: Final = 1 << 16
"""Bytes of an array that is copied out of memory of others, as that of a file: it would keep the
whole page there, which may be a large one that is full of weights that nothing reads any more."""


class ConstantPool:
    """Adds arrays to the constants of a program, without duplicates."""

    def __init__(self, program: Program, *, keep_sources: bool = False) -> None:
        """`keep_sources`: the program has `PackedWeight` constants instead of packed arrays."""
        self._keep_sources = keep_sources
        self._kept = program.constants
        self._places: dict[Key, Ref] = {}
        self._tables: dict[tuple[str, bytes] | str, Ref] = {}
        self._derived: dict[Key, Ref] = {}
        self._alive: list[Array] = []
        """Arrays whose addresses are keys, so that no other array gets the same address."""

    def place(self, array: Array) -> Ref:
        """Memory that holds `array`, kept by reference if it is C-contiguous and aligned, and no
        small piece of memory of others.

        Raises Untraceable if items depend on symbols: they are objects then.
        """
        import numpy as np

        if array.dtype.hasobject:
            raise Untraceable(f"{array.dtype} items are no data")
        memory = _memory(array)
        found = self._places.get(memory)
        if found is None:
            kept = np.require(array, requirements=["C", "A"])
            if not self._keep_sources and kept.nbytes <= COPIED and not owner(kept).flags.owndata:
                kept = kept.copy()
            found = Ref(Buffer("constant", kept.nbytes, len(self._kept)))
            self._kept.append(kept)
            self._places[memory] = self._places[_memory(kept)] = found
            self._alive.append(array)
        return found

    def table(self, array: Array | TracedArray) -> Ref:
        """`place` for tables that many operations have in common: equal ones are kept once."""
        is_computed = isinstance(array, TracedArray)
        key = array.name if is_computed else (array.dtype.name, array.tobytes())
        found = self._tables.get(key)
        if found is None:
            found = self._computed(array) if is_computed else self.place(array)
            self._tables[key] = found
        return found

    def _computed(self, table: TracedArray) -> Ref:
        """Memory for what depends on symbols: each plan has its own."""
        found = Ref(Buffer("constant", table.value.nbytes, len(self._kept)))
        self._kept.append(table)
        return found

    def derived(self, sources: Sequence[Array], how: Key, make: Callable[[], Array]) -> Ref:
        """Memory that holds `make()`, which depends on `sources` and `how` only; made once.

        `how` names what is made of the items of the sources, and all that it is made by.
        """
        key = (*map(view_key, sources), *how)
        found = self._derived.get(key)
        if found is None:
            found = self._remember(key, sources, self.place(make()))
        return found

    def packed(
        self,
        source: Array,
        packing: str,
        parameters: Parameters,
        dtype: np.dtype[Any],
        release: Release | None = None,
    ) -> Ref:
        """Memory that holds `source` as `nnefc.packing` arranges it, as items of `dtype`; the same
        is made once.
        """
        from nnefc.program.packed_weight import PackedWeight

        key = (*view_key(source), packing, parameters, dtype)
        found = self._derived.get(key)
        if found is None:
            converted = None if source.dtype == dtype else dtype
            derived = PackedWeight(source, packing, parameters, converted)
            found = Ref(Buffer("constant", derived.nbytes, len(self._kept)))
            self._kept.append(derived if self._keep_sources else derived.array(release))
            self._remember(key, [source], found)
        return found

    def _remember(self, key: Key, sources: Sequence[Array], place: Ref) -> Ref:
        """Find what was made of `sources` again, as long as they are there.

        They are not kept for that: what was made of them takes as much memory once more.
        """
        self._derived[key] = place
        for source in sources:
            weakref.finalize(owner(source), self._derived.pop, key, None).atexit = False
        return place


def _memory(array: Array) -> Key:
    """Names the bytes of an array: those in one piece are the same, whatever their shape."""
    return (address(array), array.nbytes) if array.flags.c_contiguous else view_key(array)
