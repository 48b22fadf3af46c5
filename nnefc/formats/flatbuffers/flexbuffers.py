"""Read a FlexBuffer, which describes itself, as Python values, verifying each step.

Options of custom operators have this form.  Offsets only point backwards, so there are no cycles;
but values may be shared, so decoded items are limited relative to the size of the buffer.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from nnefc.formats.flatbuffers.reader import ITEMS_PER_BYTE, MAX_DEPTH, FlatBufferError

_SCALARS: Final = {
    "int": {1: "<b", 2: "<h", 4: "<i", 8: "<q"},
    "uint": {1: "<B", 2: "<H", 4: "<I", 8: "<Q"},
    "float": {2: "<e", 4: "<f", 8: "<d"},
}
_NULL, _KEY, _STRING, _MAP, _VECTOR, _BLOB, _BOOL = 0, 4, 5, 9, 10, 25, 26
_INLINE: Final = {1: "int", 2: "uint", 3: "float"}
_INDIRECT: Final = {6: "int", 7: "uint", 8: "float"}
_TYPED: Final = {11: 1, 12: 2, 13: 3, 14: _KEY, 15: _STRING, 36: _BOOL}
"""The types of the items of typed vectors."""
_FIXED: Final = {16 + i: (1 + i % 3, 2 + i // 3) for i in range(9)}
"""The types and numbers of the items of vectors without a length."""


def read_flexbuffer(data: bytes | memoryview) -> Any:
    """The value of a FlexBuffer: None, a number, text, bytes, a list, or a dictionary.

    Raises FlatBufferError.
    """
    return _Reader(memoryview(data)).root()


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._items = 0

    def root(self) -> Any:
        size = len(self._data)
        if size < 3:
            raise FlatBufferError(f"a FlexBuffer has at least 3 bytes, not {size}")
        width, packed = self._data[size - 1], self._data[size - 2]
        return self._value(size - 2 - width, width, packed, 1)

    def _number(self, at: int, width: int, kind: str) -> Any:
        """The scalar of `width` bytes at `at`."""
        form = _SCALARS[kind].get(width)
        if form is None:
            raise FlatBufferError(f"a number has {width} bytes")
        if not 0 <= at <= len(self._data) - width:
            raise FlatBufferError(f"a number lies at byte {at:,} of {len(self._data):,}")
        return struct.unpack_from(form, self._data, at)[0]

    def _take(self, count: int) -> None:
        """Count decoded items; raises FlatBufferError for more than the buffer can have."""
        self._items += count
        if self._items > ITEMS_PER_BYTE * len(self._data):
            raise FlatBufferError("its values are shared too often")

    def _value(self, at: int, width: int, packed: int, depth: int) -> Any:
        """The value whose slot of `width` bytes is at `at`."""
        kind, own = packed >> 2, 1 << (packed & 3)
        if depth > MAX_DEPTH:
            raise FlatBufferError(f"values are more than {MAX_DEPTH} deep")
        self._take(1)
        if kind == _NULL:
            return None
        if kind in _INLINE:
            return self._number(at, width, _INLINE[kind])
        if kind == _BOOL:
            return bool(self._number(at, width, "uint"))
        target = at - self._number(at, width, "uint")
        if target < 0:
            raise FlatBufferError(f"the offset at byte {at:,} leads to byte {target:,}")
        if kind in _INDIRECT:
            return self._number(target, own, _INDIRECT[kind])
        if kind == _KEY:
            return self._key(target)
        if kind in (_STRING, _BLOB):
            items = self._bytes(target, self._number(target - own, own, "uint"))
            return items if kind == _BLOB else items.decode("utf-8", "replace")
        if kind == _MAP:
            return self._map(target, own, depth)
        if kind == _VECTOR:
            return self._vector(target, own, depth)
        if kind in _TYPED:
            count = self._number(target - own, own, "uint")
            return self._typed(target, own, count, _TYPED[kind], depth)
        if kind in _FIXED:
            item, count = _FIXED[kind]
            return self._typed(target, own, count, item, depth)
        raise FlatBufferError(f"there is no type {kind} of a FlexBuffer")

    def _bytes(self, at: int, count: int) -> bytes:
        if not 0 <= at <= len(self._data) - count:
            raise FlatBufferError(f"{count:,} bytes at byte {at:,} of {len(self._data):,}")
        self._take(count)
        return bytes(self._data[at : at + count])

    def _key(self, at: int) -> str:
        """Text that ends with a zero byte."""
        rest = bytes(self._data[at : at + 1024])
        if b"\0" not in rest:
            raise FlatBufferError(f"the key at byte {at:,} has no end")
        key = rest.partition(b"\0")[0]
        self._take(len(key))
        return key.decode("utf-8", "replace")

    def _typed(self, at: int, width: int, count: int, kind: int, depth: int) -> list[Any]:
        self._bytes(at, count * width)
        packed = kind << 2
        return [self._value(at + i * width, width, packed, depth + 1) for i in range(count)]

    def _vector(self, at: int, width: int, depth: int) -> list[Any]:
        """Items, behind which their types are, a byte each."""
        count = self._number(at - width, width, "uint")
        types = self._bytes(at + count * width, count)
        return [self._value(at + i * width, width, types[i], depth + 1) for i in range(count)]

    def _map(self, at: int, width: int, depth: int) -> dict[str, Any]:
        """A vector; in front of it are the offset and the item size of the keys."""
        slot = at - 3 * width
        keys_at = slot - self._number(slot, width, "uint")
        keys_width = self._number(at - 2 * width, width, "uint")
        if keys_width not in (1, 2, 4, 8) or keys_at < 0:
            raise FlatBufferError(f"the keys of the map at byte {at:,} are wrong")
        values = self._vector(at, width, depth)
        count = self._number(keys_at - keys_width, keys_width, "uint")
        if count != len(values):
            raise FlatBufferError(f"a map has {count:,} keys for {len(values):,} values")
        keys = self._typed(keys_at, keys_width, count, _KEY, depth)
        return dict(zip(keys, values, strict=True))
