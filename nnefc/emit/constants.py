"""Constants of an embedded model: in its object, or in the file of weights beside it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import numpy as np

from nnefc.kernels.embedded.state import HEADER_WORDS, MAGIC
from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.artifact.build import ArraySlice, Constant, PackedArray
from nnefc.runtime.memory.tensors import can_hold_addresses
from nnefc.support.digests import blake2b
from nnefc.support.hardware import ALIGNMENT
from nnefc.support.item_types import numpy_type

Array = np.ndarray[Any, Any]
Place = tuple[int, int]
"""(1 if it is in the file of weights, 0 if it is in the data of the object; byte offset)."""

START: Final = 4096
"""Where weights begin in their file: at a page."""
_TABLE: Final = 1 << 14
"""Bytes of an array of numbers that is in the object.  So are those of any size that kernels
compute addresses with: the file may be damaged."""
_HEADER: Final = struct.Struct("<16sQ32s")
assert _HEADER.size == 8 * HEADER_WORDS


class ObjectData:
    """Read-only data of the object, which grow."""

    def __init__(self, room: int) -> None:
        """`room`: bytes to leave free at the beginning."""
        self.bytes = bytearray(room)

    def add(self, data: bytes, alignment: int = ALIGNMENT) -> int:
        """Append; the offset."""
        self.bytes += bytes(-len(self.bytes) % alignment)
        at = len(self.bytes)
        self.bytes += data
        return at

    def words(self, words: Sequence[int]) -> int:
        """Append words; the offset."""
        return self.add(np.array(words, np.int64).tobytes())


class ConstantPlacer:
    """Puts constants where they belong, each once."""

    def __init__(self, file: BinaryIO, data: ObjectData, arrays: Sequence[Array]) -> None:
        """`file`: that of the weights, open for writing; `arrays`: those of the graph."""
        self._file = file
        self._data = data
        self._arrays = arrays
        self._size = START
        self._digest = blake2b(digest_size=32)
        self._known: dict[object, Place] = {}
        file.write(bytes(START))

    def place(self, constant: Constant) -> Place:
        """Where a constant of a build is, or the initial value of a state."""
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
        """Write the header of the file; its words.  No file is needed if the size there is 0."""
        if self._size == START:
            return [0] * HEADER_WORDS
        header = _HEADER.pack(MAGIC, self._size, self._digest.digest())
        self._file.seek(0)
        self._file.write(header)
        return list(struct.unpack(f"<{HEADER_WORDS}q", header))
