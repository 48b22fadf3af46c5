"""The file format of packs: object code of many kernels for one row of the ISA table.

    offset  size
         0    16  `MAGIC`, with the number of the format
        16    64  the version of nnefc, padded with zeros
        80    32  digest of the index
       112    20  numbers of keys, objects, pieces, references and chunks, little-endian
       132  32 n  keys in ascending order
         .   4 n  for each key, the number of its object
         .   8 m  for each object: its first reference, their number
         .   4 r  references: for each piece of each object, the number of the piece
         .  12 p  for each piece: the number of its chunk, offset in the chunk, size
         .  32 c  for each chunk: offset in the file, size, bytes in the file, digest of these bytes
         .     .  chunks

An object is stored in pieces, such as its functions, because kernels share most functions: the
register tile and the loops of a product are the same for every expression.  Each distinct piece is
stored once.  Pieces are sorted, so that equal starts are neighbours, and chunks of them are
compressed by zlib, which leaves less than a third: packs are most of the installed package.  The
digests form a tree: opening a pack reads the index, and loading a kernel reads its chunks.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from nnefc.support.digests import blake2b
from nnefc.support.package import VERSION

FORMAT: Final = 5
"""Increase it with every change of the format; the digits of `MAGIC` hold it."""
KEY_BYTES: Final = 32
SUFFIX: Final = ".pack"
_START: Final = b"nnefc pack "
MAGIC: Final = b"%s%04d\n" % (_START, FORMAT)
_VERSION_BYTES: Final = 64
_DIGEST_BYTES: Final = 32
_DIGEST: Final = len(MAGIC) + _VERSION_BYTES
_COUNTS: Final = _DIGEST + _DIGEST_BYTES
_KEYS: Final = _COUNTS + 20
_CHUNK_DIGEST_BYTES: Final = 16
_OBJECT: Final = struct.Struct("<II")
_PIECE: Final = struct.Struct("<III")
_CHUNK: Final = struct.Struct(f"<QII{_CHUNK_DIGEST_BYTES}s")
_CHUNK_BYTES: Final = 16384
"""The least size of a chunk but the last.  Smaller ones compress worse, and larger ones take longer
to read: 0.1 ms."""
_KEPT_CHUNKS: Final = 64
"""Decompressed chunks that are kept: the kernels of a model share many."""


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
    pieces = sorted({p for o in objects for p in o})
    numbers = {piece: i for i, piece in enumerate(pieces)}
    references = [numbers[piece] for code in objects for piece in code]
    places, chunks = _chunks(pieces)
    counts = (len(keys), len(objects), len(pieces), len(references), len(chunks))
    index = [struct.pack("<5I", *counts), *keys]
    index += [struct.pack("<I", objects[tuple(codes[key])]) for key in keys]
    first = 0
    for code in objects:
        index.append(_OBJECT.pack(first, len(code)))
        first += len(code)
    index.append(struct.pack(f"<{len(references)}I", *references))
    index += [_PIECE.pack(*place) for place in places]
    offset = _COUNTS + sum(map(len, index)) + _CHUNK.size * len(chunks)
    stored = [zlib.compress(chunk, 9) for chunk in chunks]
    for chunk, held in zip(chunks, stored, strict=True):
        index.append(_CHUNK.pack(offset, len(chunk), len(held), _digest(held, _CHUNK_DIGEST_BYTES)))
        offset += len(held)
    data = b"".join(index)
    header = (MAGIC, version.ljust(_VERSION_BYTES, b"\0"), _digest(data))
    return b"".join((*header, data, *stored))


def _chunks(pieces: Sequence[bytes]) -> tuple[list[tuple[int, int, int]], list[bytes]]:
    """For each piece the number of its chunk, offset and size; and the chunks."""
    places: list[tuple[int, int, int]] = []
    chunks = [bytearray()] if pieces else []
    for piece in pieces:
        if len(chunks[-1]) >= _CHUNK_BYTES:
            chunks.append(bytearray())
        places.append((len(chunks) - 1, len(chunks[-1]), len(piece)))
        chunks[-1] += piece
    return places, list(map(bytes, chunks))


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
        counts = struct.unpack_from("<5I", start, _COUNTS)
        self.count, objects, pieces, references, chunks = counts
        self._numbers: Final = _KEYS + KEY_BYTES * self.count
        self._objects: Final = self._numbers + 4 * self.count
        self._references: Final = self._objects + _OBJECT.size * objects
        self._pieces: Final = self._references + 4 * references
        self._chunks: Final = self._pieces + _PIECE.size * pieces
        end = self._chunks + _CHUNK.size * chunks
        if end > len(data):
            raise UnusablePack("it is truncated")
        if _digest(data[_COUNTS:end]) != start[_DIGEST:_COUNTS]:
            raise UnusablePack("its index is damaged")
        if chunks:
            offset, _, held, _ = self._place(chunks - 1)
            end = offset + held
        if end != len(data):
            raise UnusablePack("its size is wrong")
        self._chunk = lru_cache(_KEPT_CHUNKS)(self._decompressed)

    def code(self, key: bytes) -> bytes | None:
        """The object code with a key of `KEY_BYTES`, None if there is none; raises UnusablePack."""
        number = self._find(key)
        if number is None:
            return None
        first, count = _OBJECT.unpack_from(self._data, self._objects + _OBJECT.size * number)
        at = self._references + 4 * first
        return b"".join(map(self._piece, struct.unpack_from(f"<{count}I", self._data, at)))

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
        at = self._pieces + _PIECE.size * number
        chunk, offset, size = _PIECE.unpack_from(self._data, at)
        return self._chunk(chunk)[offset : offset + size]

    def _decompressed(self, number: int) -> bytes:
        """The pieces of a chunk."""
        offset, size, held, digest = self._place(number)
        data = self._data[offset : offset + held]
        if _digest(data, _CHUNK_DIGEST_BYTES) != digest:
            raise UnusablePack("the code of a kernel is damaged")
        return zlib.decompressobj().decompress(data, size)

    def _place(self, number: int) -> tuple[int, int, int, bytes]:
        """(offset in the file, size, bytes in the file, digest) of a chunk."""
        return _CHUNK.unpack_from(self._data, self._chunks + _CHUNK.size * number)
