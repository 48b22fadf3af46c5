"""Chooses the form in which an artifact stores arrays, and stores each once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from nnefc.kernels.packing.inverse import restorable
from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.artifact.artifact_file import Piece
from nnefc.runtime.artifact.artifact_file_writer import Writer
from nnefc.runtime.artifact.build_static import Array, ArraySlice, CodeBuild, Constant, PackedArray
from nnefc.runtime.memory.caller_arrays import can_hold_addresses
from nnefc.support.item_types import numpy_type

_MAX_EXCESS_BYTES: Final = 1 << 20
"""Bytes by which all packings together may exceed the arrays, plus 1 / _EXCESS_SHARE of these."""
_EXCESS_SHARE: Final = 32
_MAX_TABLE_BYTES: Final = 1 << 14
"""Larger constants that are not derived from the graph are stored as weights, not in the head."""


def choose_packed(
    arrays: Sequence[Array], builds: Sequence[CodeBuild]
) -> dict[int, list[PackedArray]]:
    """The arrays to store as packings, by number; the array can be restored from its packings.

    Arrays whose packings have the least padding are chosen first, up to the limit.
    """
    packings: defaultdict[int, list[PackedArray]] = defaultdict(list)
    unpacked: set[int] = set()
    for constant in (c for build in builds for c in build.constants):
        if isinstance(constant, PackedArray):
            packings[constant.array].append(constant)
        elif isinstance(constant, ArraySlice):
            unpacked.add(constant.array)
    room = _MAX_EXCESS_BYTES + sum(array.nbytes for array in arrays) // _EXCESS_SHARE
    excesses: dict[int, int] = {}
    for number, group in packings.items():
        array = arrays[number]
        if number not in unpacked and restorable(array.size, [each.packed for each in group]):
            excesses[number] = sum(each.nbytes for each in group) - array.nbytes
    chosen: dict[int, list[PackedArray]] = {}
    for number, excess in sorted(excesses.items(), key=lambda pair: pair[1]):
        if excess > room:
            break
        room -= excess
        chosen[number] = packings[number]
    return chosen


class StoredArrays:
    """Stores arrays and their packings in a file, each once."""

    def __init__(
        self,
        writer: Writer,
        arrays: Sequence[Array],
        builds: Sequence[CodeBuild],
        *,
        packed: Callable[[PackedWeight], Array] = PackedWeight.array,
        only_constants: bool = False,
    ) -> None:
        """Arrays are stored as the packings of the first of `builds` where possible.

        `packed`: returns the items of a packed weight.  `only_constants`: all packings are stored,
        and no arrays but those that constants are slices of.
        """
        self._writer = writer
        self._arrays = arrays
        self._packed = packed
        self._only_constants = only_constants
        self._whole: dict[int, dict[str, Piece]] = {}
        self._pieces: dict[PackedArray, Piece] = {}
        self._packings: dict[int, list[PackedArray]] = {}
        if only_constants:
            return
        for number, packings in choose_packed(arrays, builds[:1]).items():
            self._packings[number] = packings
            for each in packings:
                self._store(each)

    def facts(self, names: Mapping[str, Array]) -> list[dict[str, Any]]:
        """The manifest's entries for all arrays, given by name, in order."""
        return [
            {"name": name, "dtype": array.dtype.name, "shape": array.shape, **self.location(i)}
            for i, (name, array) in enumerate(names.items())
        ]

    def _store(self, packing: PackedArray) -> None:
        """Store the items of a packing."""
        view, name, parameters, dtype = packing.packed
        source = view.of(self._arrays[packing.array])
        weight = PackedWeight(source, name, parameters, numpy_type(dtype) if dtype else None)
        self._pieces[packing] = self._writer.weights(self._packed(weight))

    def whole(self, number: int) -> dict[str, Piece]:
        """The location of an unpacked array, which is stored on the first request."""
        if number not in self._whole:
            self._whole[number] = self.put(self._arrays[number])
        return self._whole[number]

    def put(self, array: Array, head_bytes: int = 0) -> dict[str, Piece]:
        """Store an array, as weights if it has more than `head_bytes` and cannot hold addresses."""
        if not can_hold_addresses(array.dtype) and array.nbytes > head_bytes:
            return {"weights": self._writer.weights(array)}
        return {"head": self._writer.head(np.ascontiguousarray(array))}

    def location(self, number: int) -> dict[str, Any]:
        """The manifest's entry for the location of an array; empty if it is not stored."""
        if self._only_constants:
            return self._whole.get(number, {})
        packings = self._packings.get(number)
        if packings is None:
            return self.whole(number)
        return {"packed": [self.packing(each) for each in packings]}

    def packing(self, each: PackedArray) -> dict[str, Any]:
        """The manifest's entry for a packing; its location only if it is stored."""
        packed = each.packed
        entry = {
            "array": each.array,
            "view": packed.view,
            "packing": packed.packing,
            "parameters": packed.parameters,
            **({"dtype": packed.dtype} if packed.dtype else {}),
        }
        piece = self._pieces.get(each)
        return entry if piece is None else {**entry, "weights": piece}

    def constant(self, constant: Constant) -> dict[str, Any]:
        """The manifest's entry for a constant."""
        if isinstance(constant, PackedArray):
            if self._only_constants and constant not in self._pieces:
                self._store(constant)
            return self.packing(constant)
        if isinstance(constant, ArraySlice):
            ((kind, (offset, _)),) = self.whole(constant.array).items()
            return {kind: (offset + constant.offset, constant.nbytes)}
        return self.put(constant, _MAX_TABLE_BYTES)
