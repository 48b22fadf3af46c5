"""The file format of packs: object code of many kernels for one row of the ISA table.

    offset  size
         0    16  `MAGIC`, with the number of the format
        16    64  the version of nnefc, padded with zeros
        80    32  digest of the index
       112    16  numbers of keys, objects, pieces and references, little-endian like all numbers
       128  32 n  keys in ascending order
         .   4 n  for each key, the number of its object
         .  24 m  for each object: its first reference, their number, digest of its code
         .   4 r  references: for each piece of each object, the number of the piece
         .  16 p  for each piece: offset in the file, size, bytes in the file
         .     .  pieces, each distinct one once

An object is stored in pieces, such as its functions, because kernels share most functions: the
register tile and the loops of a product are the same for every expression.  Long pieces are
compressed by zlib, which halves them: packs are most of the installed package.  Short ones compress
better in the wheel, beside each other.  The digests form a tree: opening a pack reads the index,
and loading a kernel reads its pieces.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

from nnefc.support.digests import blake2b
from nnefc.support.package import VERSION

FORMAT: Final = 4
"""Increase it with every change of the format; the digits of `MAGIC` hold it."""
KEY_BYTES: Final = 32
SUFFIX: Final = ".pack"
_START: Final = b"nnefc pack "
MAGIC: Final = b"%s%04d\n" % (_START, FORMAT)
_VERSION_BYTES: Final = 64
_DIGEST_BYTES: Final = 32
_DIGEST: Final = len(MAGIC) + _VERSION_BYTES
_COUNTS: Final = _DIGEST + _DIGEST_BYTES
_KEYS: Final = _COUNTS + 16
_OBJECT_DIGEST_BYTES: Final = 16
_OBJECT: Final = struct.Struct(f"<II{_OBJECT_DIGEST_BYTES}s")
_PIECE: Final = struct.Struct("<QII")
_COMPRESSED_BYTES: Final = 2048
"""Least size of a piece that is compressed."""


class UnusablePack(Exception):
    """A pack that is damaged or of another version; the text says which."""


def pack(codes: Mapping[bytes, Sequence[bytes]]) -> bytes:
    """The bytes of a pack with these objects, given as pieces, by key.

    They depend on nothing else.  Raises ValueError if the version of nnefc is too long.
    """
    version = VERSION.encode()
    if len(version) > _VERSION_BYTES:
        raise ValueError(f"the version {VERSION} has more than {_VERSION_BYTES} bytes")
    keys = sorted(codes)
    objects = {code: i for i, code in enumerate(dict.fromkeys(tuple(codes[key]) for key in keys))}
    # sorted, because equal starts beside each other compress to half the bytes in a wheel
    pieces = {piece: i for i, piece in enumerate(sorted({p for o in objects for p in o}))}
    references = [pieces[piece] for code in objects for piece in code]
    counts = (len(keys), len(objects), len(pieces), len(references))
    index = [struct.pack("<4I", *counts), *keys]
    index += [struct.pack("<I", objects[tuple(codes[key])]) for key in keys]
    first = 0
    for code in objects:
        digest = _digest(b"".join(code), _OBJECT_DIGEST_BYTES)
        index.append(_OBJECT.pack(first, len(code), digest))
        first += len(code)
    index.append(struct.pack(f"<{len(references)}I", *references))
    offset = _COUNTS + sum(map(len, index)) + _PIECE.size * len(pieces)
    stored = list(map(_stored, pieces))
    for piece, held in zip(pieces, stored, strict=True):
        index.append(_PIECE.pack(offset, len(piece), len(held)))
        offset += len(held)
    data = b"".join(index)
    header = (MAGIC, version.ljust(_VERSION_BYTES, b"\0"), _digest(data))
    return b"".join((*header, data, *stored))


def _stored(piece: bytes) -> bytes:
    """The bytes of a piece in the file; of another size than the piece if they are compressed."""
    if len(piece) < _COMPRESSED_BYTES:
        return piece
    compressed = zlib.compress(piece, 9)
    return compressed if len(compressed) < len(piece) else piece


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
        counts = struct.unpack_from("<4I", start, _COUNTS)
        self.count, objects, pieces, references = counts
        self._numbers: Final = _KEYS + KEY_BYTES * self.count
        self._objects: Final = self._numbers + 4 * self.count
        self._references: Final = self._objects + _OBJECT.size * objects
        self._pieces: Final = self._references + 4 * references
        end = self._pieces + _PIECE.size * pieces
        if end > len(data):
            raise UnusablePack("it is truncated")
        if _digest(data[_COUNTS:end]) != start[_DIGEST:_COUNTS]:
            raise UnusablePack("its index is damaged")
        offset, _, held = self._place(pieces - 1) if pieces else (end, 0, 0)
        if offset + held != len(data):
            raise UnusablePack("its size is wrong")

    def code(self, key: bytes) -> bytes | None:
        """The object code with a key of `KEY_BYTES`, None if there is none; raises UnusablePack."""
        number = self._find(key)
        if number is None:
            return None
        first, count, digest = _OBJECT.unpack_from(
            self._data, self._objects + _OBJECT.size * number
        )
        at = self._references + 4 * first
        code = b"".join(map(self._piece, struct.unpack_from(f"<{count}I", self._data, at)))
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

    def _piece(self, number: int) -> bytes:
        offset, size, held = self._place(number)
        data = self._data[offset : offset + held]
        if held == size:
            return data
        try:
            return zlib.decompressobj().decompress(data, size)
        except zlib.error as error:
            raise UnusablePack("the code of a kernel is damaged") from error

    def _place(self, number: int) -> tuple[int, int, int]:
        """(offset, size, bytes in the file) of a piece."""
        return _PIECE.unpack_from(self._data, self._pieces + _PIECE.size * number)
