"""The constants of a program, without duplicates across operations and stages."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.program.program import Buffer, Program, Ref
from nnefc.support.array_memory import address, owner, view_key
from nnefc.symbolic.sym_int_base import Untraceable
from nnefc.symbolic.traced_array import TracedArray

if TYPE_CHECKING:
    import numpy as np

    from nnefc.kernels.packing import Parameters, Release
    from nnefc.lower.background_packing import BackgroundPacking

    Array = np.ndarray[Any, Any]

Key = tuple[Hashable, ...]

MAX_COPIED_BYTES: Final = 1 << 16
"""Arrays up to this size are copied if they are views, for example of a mapped file.

A view would keep its whole page in memory, perhaps a large page full of unused weights."""


class ConstantPool:
    """Adds arrays to the constants of a program, without duplicates."""

    def __init__(
        self,
        program: Program,
        *,
        keep_sources: bool = False,
        packing: BackgroundPacking | None = None,
    ) -> None:
        """`keep_sources`: the program has `PackedWeight` constants instead of packed arrays, and
        arrays at any address.  `packing`: packs weights meanwhile.
        """
        self._packing = packing
        self._keep_sources = keep_sources
        self._constants = program.constants
        self._added: dict[Key, Ref] = {}
        self._tables: dict[tuple[str, bytes] | str, Ref] = {}
        self._derived: dict[Key, Ref] = {}
        self._alive: list[Array] = []
        """Arrays whose addresses are keys; alive, so that no other array gets the address."""

    def add(self, array: Array) -> Ref:
        """Memory that holds `array`; a copy only if it is not C-contiguous.

        Without `keep_sources` also if it is small, or not aligned.

        Raises Untraceable for an object array, whose items depend on symbols.
        """
        import numpy as np

        if array.dtype.hasobject:
            raise Untraceable(f"{array.dtype} items are no data")
        memory = _memory(array)
        ref = self._added.get(memory)
        if ref is None:
            stored = np.require(array, requirements=["C"] if self._keep_sources else ["C", "A"])
            small_view = stored.nbytes <= MAX_COPIED_BYTES and not owner(stored).flags.owndata
            if small_view and not self._keep_sources:
                stored = stored.copy()
            ref = Ref(Buffer("constant", stored.nbytes, len(self._constants)))
            self._constants.append(stored)
            self._added[memory] = self._added[_memory(stored)] = ref
            self._alive.append(array)
        return ref

    def table(self, array: Array | TracedArray) -> Ref:
        """`add` for tables that many operations share: tables of equal items are stored once."""
        traced = isinstance(array, TracedArray)
        key = array.name if traced else (array.dtype.name, array.tobytes())
        ref = self._tables.get(key)
        if ref is None:
            ref = self._traced(array) if traced else self.add(array)
            self._tables[key] = ref
        return ref

    def _traced(self, table: TracedArray) -> Ref:
        """Memory for a table that depends on symbols: each plan has its own."""
        ref = Ref(Buffer("constant", table.value.nbytes, len(self._constants)))
        self._constants.append(table)
        return ref

    def derived(self, sources: Sequence[Array], how: Key, make: Callable[[], Array]) -> Ref:
        """Memory that holds `make()`, which is called once for the same `sources` and `how`.

        `how` identifies the function and all of its parameters.
        """
        key = (*map(view_key, sources), *how)
        ref = self._derived.get(key)
        if ref is None:
            ref = self._record(key, sources, self.add(make()))
        return ref

    def packed(
        self,
        source: Array,
        packing: str,
        parameters: Parameters,
        dtype: np.dtype[Any],
        release: Release | None = None,
    ) -> Ref:
        """Memory that holds `source` packed by `kernels.packing` as items of `dtype`; equal
        packings are stored once.
        """
        from nnefc.program.packed_weight import PackedWeight

        key = (*view_key(source), packing, parameters, dtype)
        ref = self._derived.get(key)
        if ref is None:
            converted = None if source.dtype == dtype else dtype
            derived = PackedWeight(source, packing, parameters, converted)
            ref = Ref(Buffer("constant", derived.nbytes, len(self._constants)))
            if self._keep_sources:
                self._constants.append(derived)
            elif self._packing is None:
                self._constants.append(derived.array(release))
            else:
                self._constants.append(self._packing.array(derived, release))
            self._record(key, [source], ref)
        return ref

    def _record(self, key: Key, sources: Sequence[Array], ref: Ref) -> Ref:
        """Record a derived constant under `key` as long as its `sources` exist.

        The sources are not kept alive, since they take as much memory as the constant.
        """
        self._derived[key] = ref
        for source in sources:
            weakref.finalize(owner(source), self._derived.pop, key, None).atexit = False
        return ref


def _memory(array: Array) -> Key:
    """A key for the bytes of an array; the shape does not matter if it is C-contiguous."""
    return (address(array), array.nbytes) if array.flags.c_contiguous else view_key(array)
