"""The file format of packs: object code of many kernels for one row of the ISA table.

    offset  size
         0    16  `MAGIC`, with the number of the format
        16    16  the version of nnefc, padded with zeros
        32    32  digest of the index
        64     8  numbers of keys and of objects, little-endian like all numbers
        72  32 n  keys in ascending order
         .   4 n  for each key, the number of its object
         .  32 m  for each object: offset in the file, size, digest of its code
         .     .  object code, each distinct object once

The digests form a tree: opening a pack reads the index, and loading a kernel reads its object.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from typing import Final

from nnefc.support.digests import blake2b
from nnefc.support.package import VERSION

FORMAT: Final = 1
"""Increase it with every change of the format; the digits of `MAGIC` hold it."""
KEY_BYTES: Final = 32
SUFFIX: Final = ".pack"
_START: Final = b"nnefc pack "
MAGIC: Final = b"%s%04d\n" % (_START, FORMAT)
_VERSION_BYTES: Final = 16
_DIGEST_BYTES: Final = 32
_DIGEST: Final = len(MAGIC) + _VERSION_BYTES
_COUNTS: Final = _DIGEST + _DIGEST_BYTES
_KEYS: Final = _COUNTS + 8
_OBJECT_DIGEST_BYTES: Final = 16
_OBJECT: Final = struct.Struct(f"<QQ{_OBJECT_DIGEST_BYTES}s")


class UnusablePack(Exception):
    """A pack that is damaged or of another version; the text says which."""


def pack(codes: Mapping[bytes, bytes]) -> bytes:
    """The bytes of a pack with these objects by key, which depend on nothing else."""
    keys = sorted(codes)
    objects = {code: i for i, code in enumerate(dict.fromkeys(codes[key] for key in keys))}
    index = struct.pack("<II", len(keys), len(objects)) + b"".join(keys)
    index += b"".join(struct.pack("<I", objects[codes[key]]) for key in keys)
    offset = _COUNTS + len(index) + _OBJECT.size * len(objects)
    for code in objects:
        index += _OBJECT.pack(offset, len(code), _digest(code, _OBJECT_DIGEST_BYTES))
        offset += len(code)
    version = VERSION.encode().ljust(_VERSION_BYTES, b"\0")
    return b"".join((MAGIC, version, _digest(index), index, *objects))


def _digest(data: bytes | memoryview, size: int = _DIGEST_BYTES) -> bytes:
    return blake2b(data, digest_size=size).digest()


class Pack:
    """The objects of a pack, from its bytes or a read-only mapping of its file."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        """Reads the index; raises UnusablePack."""
        self._data: Final = data
        start = data[:_KEYS]
        if len(start) < _KEYS or not start.startswith(_START):
            raise UnusablePack("it is truncated or no pack")
        if not start.startswith(MAGIC):
            raise UnusablePack("it has another format")
        version = start[len(MAGIC) : _DIGEST].rstrip(b"\0").decode(errors="replace")
        if version != VERSION:
            raise UnusablePack(f"it belongs to nnefc {version}, and this is {VERSION}")
        self.count, objects = struct.unpack_from("<II", start, _COUNTS)
        self._numbers: Final = _KEYS + KEY_BYTES * self.count
        self._table: Final = self._numbers + 4 * self.count
        end = self._table + _OBJECT.size * objects
        if end > len(data):
            raise UnusablePack("it is truncated")
        if _digest(data[_COUNTS:end]) != start[_DIGEST:_COUNTS]:
            raise UnusablePack("its index is damaged")
        last = self._object(objects - 1) if objects else (end, 0, b"")
        if last[0] + last[1] != len(data):
            raise UnusablePack("its size is wrong")

    def code(self, key: bytes) -> bytes | None:
        """The object code with a key of `KEY_BYTES`, None if there is none; raises UnusablePack."""
        number = self._find(key)
        if number is None:
            return None
        offset, size, digest = self._object(number)
        code = self._data[offset : offset + size]
        if _digest(code, _OBJECT_DIGEST_BYTES) != digest:
            raise UnusablePack("the code of a kernel is damaged")
        return code

    def __contains__(self, key: bytes) -> bool:
        return self._find(key) is not None

    def _find(self, key: bytes) -> int | None:
        """The number of the object with a key, by bisection."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            here = self._data[_KEYS + KEY_BYTES * middle : _KEYS + KEY_BYTES * (middle + 1)]
            if here == key:
                return struct.unpack_from("<I", self._data, self._numbers + 4 * middle)[0]
            low, high = (middle + 1, high) if here < key else (low, middle)
        return None

    def _object(self, number: int) -> tuple[int, int, bytes]:
        """(offset, size, digest) of an object."""
        return _OBJECT.unpack_from(self._data, self._table + _OBJECT.size * number)
