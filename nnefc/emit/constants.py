"""Place the constants of an embedded model in its object file or in the file of weights."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import numpy as np

from nnefc.kernels.embedded.model_layout import HEADER_WORDS, MAGIC
from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.artifact.build_static import ArraySlice, Constant, PackedArray
from nnefc.runtime.memory.caller_arrays import can_hold_addresses
from nnefc.support.alignment import ALIGNMENT
from nnefc.support.digests import blake2b
from nnefc.support.item_types import numpy_type

Array = np.ndarray[Any, Any]
Place = tuple[int, int]
"""(1: in the file of weights, 0: in the data of the object; byte offset)."""

START: Final = 4096
"""Offset of the first weights in their file, at a page."""
_TABLE: Final = 1 << 14
"""Arrays with at most this number of bytes are in the object.

So are arrays of any size that kernels compute addresses with, because the file may be damaged.
"""
_HEADER: Final = struct.Struct("<16sQ32s")
assert _HEADER.size == 8 * HEADER_WORDS


class ObjectData:
    """The read-only data of the object under construction."""

    def __init__(self, room: int) -> None:
        """`room`: bytes to reserve at the beginning."""
        self.bytes = bytearray(room)

    def add(self, data: bytes, alignment: int = ALIGNMENT) -> int:
        """Append bytes; returns their offset."""
        self.bytes += bytes(-len(self.bytes) % alignment)
        at = len(self.bytes)
        self.bytes += data
        return at

    def words(self, words: Sequence[int]) -> int:
        """Append words of 64 bits; returns their offset."""
        return self.add(np.array(words, np.int64).tobytes())


class ConstantPlacer:
    """Stores each constant once, in the object or in the file of weights."""

    def __init__(self, file: BinaryIO, data: ObjectData, arrays: Sequence[Array]) -> None:
        """`file`: for the weights, open for writing; `arrays`: of the graph."""
        self._file = file
        self._data = data
        self._arrays = arrays
        self._size = START
        self._digest = blake2b(digest_size=32)
        self._known: dict[object, Place] = {}
        file.write(bytes(START))

    def place(self, constant: Constant) -> Place:
        """The place of a constant of a build, or of the initial value of a state."""
        key: object = id(constant) if isinstance(constant, np.ndarray) else constant
        if key not in self._known:
            self._known[key] = self._put(self._items(constant))
        return self._known[key]

    def _items(self, constant: Constant) -> Array:
        if isinstance(constant, PackedArray):
            packed = constant.packed
            source = packed.view.of(self._arrays[constant.array])
            dtype = numpy_type(packed.dtype) if packed.dtype else None
            return PackedWeight(source, packed.packing, packed.parameters, dtype).array()
        if isinstance(constant, ArraySlice):
            whole = self._arrays[constant.array]
            start = constant.offset // whole.itemsize
            return whole.reshape(-1)[start : start + constant.nbytes // whole.itemsize]
        return constant

    def _put(self, items: Array) -> Place:
        flat = np.ascontiguousarray(items).reshape(-1)
        if can_hold_addresses(flat.dtype) or flat.nbytes <= _TABLE:
            return 0, self._data.add(flat.tobytes())
        padding = bytes(-self._size % ALIGNMENT)
        at = self._size + len(padding)
        for piece in (padding, flat.view(np.uint8).data):
            self._file.write(piece)
            self._digest.update(piece)
        self._size = at + flat.nbytes
        return 1, at

    def finish(self) -> list[int]:
        """Write the header of the file; returns its words, zeros if no file is needed."""
        if self._size == START:
            return [0] * HEADER_WORDS
        header = _HEADER.pack(MAGIC, self._size, self._digest.digest())
        self._file.seek(0)
        self._file.write(header)
        return list(struct.unpack(f"<{HEADER_WORDS}q", header))
