"""Streams over archives, in memory or compressed with a limit on the unpacked size."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from typing import Any, BinaryIO

from nnefc.support.errors import NnefError, Place
from nnefc.support.limits import how_to_raise

PIECE = 1 << 20
"""Bytes per read."""

_LZMA_MEMORY = 256 << 20


class ViewStream:
    """A stream over an archive in memory."""

    def __init__(self, view: memoryview) -> None:
        self.position = 0
        self._view = view

    def read(self, size: int) -> bytes:
        content = bytes(self._view[self.position : self.position + size])
        self.position += len(content)
        return content

    def skip(self, size: int) -> int:
        passed = min(size, len(self._view) - self.position)
        self.position += passed
        return passed


class InflatedStream:
    """A stream over compressed data; NnefError `limit/archive` beyond `most` unpacked bytes."""

    def __init__(self, read: Callable[[int], bytes], archive: str, packed: int, most: int) -> None:
        self.position = 0
        self._read = read
        self._place = Place(archive)
        self._packed = packed
        self._most = most

    def check(self, end: int) -> None:
        """Raise NnefError `limit/archive` if `end` is beyond the limit."""
        if end > self._most:
            raise too_large(self._place, end, self._packed, self._most)

    def read(self, size: int) -> bytes:
        return bytes(self.take(size))

    def take(self, size: int) -> memoryview:
        """As `read`, without a second copy."""
        content = bytearray()
        self._pass(size, content.extend)
        return memoryview(content).toreadonly()

    def copy(self, size: int, write: Callable[[bytes], object]) -> None:
        """Pass the next `size` bytes to `write`, in pieces."""
        self._pass(size, write)

    def skip(self, size: int) -> int:
        return self._pass(size, None)

    def _pass(self, size: int, keep: Callable[[bytes], object] | None) -> int:
        passed = 0
        while passed < size:
            piece = self._read(min(size - passed, PIECE))
            if not piece:
                break
            passed += len(piece)
            self.position += len(piece)
            self.check(self.position)
            if keep is not None:
                keep(piece)
        return passed


class _Inflated(io.RawIOBase):
    """Unpacks concatenated bzip2 or xz streams in bounded memory."""

    def __init__(self, file: BinaryIO, make: Callable[[], Any]) -> None:
        self._file = file
        self._make = make
        self._inflater = make()
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = len(buffer)
        while size:
            if self._inflater.eof:
                rest = self._inflater.unused_data or self._file.read(PIECE)
                rest = rest.lstrip(b"\0")
                if not rest:
                    return 0
                self._inflater, self._rest = self._make(), rest
            data = b""
            if self._inflater.needs_input:
                data, self._rest = self._rest or self._file.read(PIECE), b""
                if not data:
                    raise EOFError("the compressed data ends too early")
            piece: bytes = self._inflater.decompress(data, size)
            if piece:
                buffer[: len(piece)] = piece
                return len(piece)
        return 0


def decompressor(file: BinaryIO, compression: str) -> io.BufferedIOBase:
    """A stream of the unpacked data; `compression`: "gzip", "bzip2" or "xz"."""
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file, mode="rb")
    if compression == "bzip2":
        return io.BufferedReader(_Inflated(file, bz2.BZ2Decompressor))
    return io.BufferedReader(
        _Inflated(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_LZMA_MEMORY))
    )


def read_pieces(read: Callable[[int], bytes], size: int) -> bytearray:
    """Up to `size` bytes, fewer only at the end; memory grows with the bytes read."""
    content = bytearray()
    while len(content) < size:
        piece = read(min(size - len(content), PIECE))
        if not piece:
            break
        content += piece
    return content


def too_large(place: Place, unpacked: int, packed: int, most: int) -> NnefError:
    """The error `limit/archive` of an archive; sizes in bytes."""
    return NnefError.of(
        "limit/archive",
        f"{packed} bytes unpack to {unpacked} or more; {most} are allowed",
        place,
        how_to_raise("archive_bytes", "archive_ratio", what="the archive"),
    )
