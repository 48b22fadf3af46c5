"""The files in an archive (tar, compressed tar, zip), read without extracting anything."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from nnefc.formats.encoding import Array
from nnefc.formats.files import check_size, map_file, printable, reason, size_of
from nnefc.formats.paths import (
    BESIDE,
    DOCUMENT,
    QUANTIZATION,
    TENSOR_SUFFIX,
    CaselessIndex,
    normal_path,
)
from nnefc.formats.spool import Spool
from nnefc.formats.tar import tar_members
from nnefc.formats.tensor_file import StoredTensor, decode_stored, decode_tensor
from nnefc.formats.watch import tell
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.limits import Limits, how_to_raise

_PIECE = 1 << 20
_SMALL = 64 << 20
"""Unpacked bytes that every archive may have, whatever the ratio."""

_LZMA_MEMORY = 256 << 20

_CORRUPT = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    struct.error,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    MemoryError,
)

Content = bytes | bytearray | memoryview


class ArchiveMembers:
    """The regular files of an archive, by normalised path.

    `load(path)` gives the content of a member that `paths` has.
    """

    def __init__(
        self,
        archive: str,
        sizes: dict[str, int],
        load: Callable[[str], Content],
        close: Callable[[], object],
    ) -> None:
        self.paths = list(sizes)
        self._archive = archive
        self._sizes = sizes
        self._load = load
        self._close = close
        self._index = CaselessIndex(sizes)

    def shown(self, path: str) -> str:
        """A member's name for messages."""
        return f"{self._archive}/{printable(path)}"

    def find(self, path: str) -> str | None:
        """The member with this path, or with one that differs only in case."""
        return self._index.find(path, self._archive)

    def read(self, path: str, limit: int) -> bytes:
        """The content of a member of at most `limit` bytes."""
        check_size(self._sizes[path], limit, self.shown(path))
        return bytes(self._load(path))

    def tensor(self, path: str, limits: Limits) -> Array:
        """The tensor in a member, a view where possible."""
        return decode_tensor(self._load(path), self.shown(path), limits=limits)

    def stored(self, path: str, limits: Limits) -> StoredTensor:
        """The same, in any format."""
        return decode_stored(self._load(path), self.shown(path), limits=limits)

    def content(self, path: str) -> Content:
        """The content of a member, a view where possible."""
        return self._load(path)

    def names_in(self, folder: str) -> Iterable[str]:
        """The members in a folder, "" or "top/", in order, without those below."""
        below = (path[len(folder) :] for path in self.paths if path.startswith(folder))
        return sorted(name for name in below if "/" not in name)

    def tensor_paths(self) -> Iterable[str]:
        """Every member that is a tensor file."""
        return (path for path in self.paths if path.lower().endswith(TENSOR_SUFFIX))

    def close(self) -> None:
        """Let go of the archive; arrays that were read stay valid."""
        self._close()


def open_tar(file: BinaryIO, archive: str, limits: Limits) -> ArchiveMembers:
    """The members of an uncompressed tar archive, mapped or read when asked for."""
    mapped = map_file(file)
    view = memoryview(mapped if mapped is not None else file.read())
    stream = _ViewStream(view)
    register = _Register(archive)
    places: dict[str, tuple[int, int]] = {}
    for member in tar_members(stream, archive, limits.archive_members, register.found):
        path = register.add(member.name)
        if path:
            places[path] = member.offset, member.size
    register.found.raise_errors()
    file.close()

    def load(path: str) -> Content:
        offset, size = places[path]
        return view[offset : offset + size]

    sizes = {path: size for path, (_, size) in places.items()}
    return ArchiveMembers(archive, sizes, load, places.clear)


def open_compressed_tar(
    file: BinaryIO, compression: str, archive: str, limits: Limits
) -> ArchiveMembers:
    """The members of a tar archive in gzip, bzip2 or xz, unpacked once.

    Much data is put into a file that is mapped, see `Spool`.  What NNEF does not define is passed
    over. Raises NnefError `limit/archive` when it unpacks to
    more than allowed.
    """
    packed = size_of(file)
    most = min(limits.archive_bytes, max(_SMALL, limits.archive_ratio * packed))
    inflated, name = _decompressor(file, compression), archive.rpartition("/")[-1]

    def read(size: int) -> bytes:
        tell(file.tell(), packed, name)
        try:
            return inflated.read(size)
        except _CORRUPT as error:
            raise _corrupt(Place(archive), error) from None

    stream = _InflatedStream(read, archive, packed, most)
    register = _Register(archive)
    contents: dict[str, Content] = {}
    spool = Spool()
    places: dict[str, tuple[int, int]] = {}
    sizes: dict[str, int] = {}
    for member in tar_members(stream, archive, limits.archive_members, register.found):
        path = register.add(member.name)
        if not path:
            continue
        stream.check(member.offset + member.size)
        sizes[path] = member.size
        if path.rsplit("/", 1)[-1] in (DOCUMENT, QUANTIZATION):
            check_size(member.size, limits.document_bytes, f"{archive}/{printable(path)}")
        elif not path.lower().endswith(BESIDE):
            continue
        if spool.wants(member.size):
            place = spool.open(), member.size
            stream.copy(member.size, spool.write)
            places[path] = place
        else:
            contents[path] = stream.take(member.size)
    # to the end, so that the checksum of the compressed data is verified
    stream.skip(most + 1)
    register.found.raise_errors()
    file.close()
    whole = spool.content()

    def load(path: str) -> Content:
        if path not in places:
            return contents[path]
        offset, size = places[path]
        return whole[offset : offset + size]

    def close() -> None:
        contents.clear()
        places.clear()

    return ArchiveMembers(archive, sizes, load, close)


def open_zip(file: BinaryIO, archive: str, limits: Limits) -> ArchiveMembers:
    """The members of a zip archive, unpacked when asked for."""
    place = Place(archive)
    try:
        opened = zipfile.ZipFile(file)
        entries = opened.infolist()
    except _CORRUPT as error:
        raise _corrupt(place, error) from None
    if len(entries) > limits.archive_members:
        raise NnefError.of(
            "limit/members",
            f"{len(entries)} members, more than the {limits.archive_members} allowed",
            place,
            how_to_raise("archive_members", what="the archive"),
        )
    packed = size_of(file)
    most = min(limits.archive_bytes, max(_SMALL, limits.archive_ratio * packed))
    total = sum(entry.file_size for entry in entries)
    if total > most:
        raise _too_large(place, total, packed, most)
    register = _Register(archive)
    known: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        mode = entry.external_attr >> 16
        wrong = ""
        if entry.orig_filename.endswith("/"):
            continue
        if stat.S_IFMT(mode) and not stat.S_ISREG(mode):
            wrong = "it is not a regular file"
        elif entry.flag_bits & 1:
            wrong = "it is encrypted"
        elif entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            wrong = f"its compression method {entry.compress_type} is not supported"
        path = register.add(entry.orig_filename, wrong)
        if path:
            known[path] = entry
    register.found.raise_errors()

    def load(path: str) -> Content:
        entry = known[path]
        try:
            with opened.open(entry) as member:
                content = _read_pieces(member.read, entry.file_size)
                more = member.read(1)
        except _CORRUPT as error:
            raise _corrupt(Place(f"{archive}/{printable(path)}"), error) from None
        if len(content) != entry.file_size or more:
            raise NnefError.of(
                "container/corrupt",
                f"the member does not unpack to the {entry.file_size} bytes that it tells",
                Place(f"{archive}/{printable(path)}"),
            )
        return memoryview(content).toreadonly()

    def close() -> None:
        opened.close()
        file.close()

    sizes = {path: entry.file_size for path, entry in known.items()}
    return ArchiveMembers(archive, sizes, load, close)


class _Register:
    """Checks members' names as they come."""

    def __init__(self, archive: str) -> None:
        self.found = Diagnostics()
        self._place = Place(archive)
        self._seen: set[str] = set()

    def add(self, name: str, wrong: str = "") -> str:
        """The normalised path of a member, or "" when it is refused."""
        path, fault = normal_path(name)
        wrong = wrong or fault or ("" if path else "it has no name")
        if wrong:
            self.found.error(
                "container/member", f"member '{printable(name)}' is refused: {wrong}", self._place
            )
            return ""
        if path in self._seen:
            self.found.error(
                "container/duplicate",
                f"member '{printable(path)}' is there more than once",
                self._place,
                hint="pack the archive anew instead of appending to it",
            )
            return ""
        self._seen.add(path)
        return path


class _ViewStream:
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


class _InflatedStream:
    """A stream over compressed data that stops at `most` bytes."""

    def __init__(self, read: Callable[[int], bytes], archive: str, packed: int, most: int) -> None:
        self.position = 0
        self._read = read
        self._place = Place(archive)
        self._packed = packed
        self._most = most

    def check(self, end: int) -> None:
        """Raise NnefError `limit/archive` when `end` is further than the data may reach."""
        if end > self._most:
            raise _too_large(self._place, end, self._packed, self._most)

    def read(self, size: int) -> bytes:
        return bytes(self.take(size))

    def take(self, size: int) -> memoryview:
        """Like `read`, for much data."""
        content = bytearray()
        self._pass(size, content.extend)
        return memoryview(content).toreadonly()

    def copy(self, size: int, write: Callable[[bytes], object]) -> None:
        """Give the next `size` bytes to `write`, piece by piece."""
        self._pass(size, write)

    def skip(self, size: int) -> int:
        return self._pass(size, None)

    def _pass(self, size: int, keep: Callable[[bytes], object] | None) -> int:
        passed = 0
        while passed < size:
            piece = self._read(min(size - passed, _PIECE))
            if not piece:
                break
            passed += len(piece)
            self.position += len(piece)
            self.check(self.position)
            if keep is not None:
                keep(piece)
        return passed


class _Inflated(io.RawIOBase):
    """Reads concatenated bzip2 or xz streams in bounded memory."""

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
                rest = self._inflater.unused_data or self._file.read(_PIECE)
                rest = rest.lstrip(b"\0")
                if not rest:
                    return 0
                self._inflater, self._rest = self._make(), rest
            data = b""
            if self._inflater.needs_input:
                data, self._rest = self._rest or self._file.read(_PIECE), b""
                if not data:
                    raise EOFError("the compressed data ends too early")
            piece: bytes = self._inflater.decompress(data, size)
            if piece:
                buffer[: len(piece)] = piece
                return len(piece)
        return 0


def _decompressor(file: BinaryIO, compression: str) -> io.BufferedIOBase:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file, mode="rb")
    if compression == "bzip2":
        return io.BufferedReader(_Inflated(file, bz2.BZ2Decompressor))
    return io.BufferedReader(
        _Inflated(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_LZMA_MEMORY))
    )


def _read_pieces(read: Callable[[int], bytes], size: int) -> bytearray:
    """`size` bytes or what there is, in memory that grows with what is there."""
    content = bytearray()
    while len(content) < size:
        piece = read(min(size - len(content), _PIECE))
        if not piece:
            break
        content += piece
    return content


def _corrupt(place: Place, error: BaseException) -> NnefError:
    return NnefError.of(
        "container/corrupt",
        f"the archive cannot be read: {reason(error)}",
        place,
        "the archive is damaged or incomplete; copy or pack it again",
    )


def _too_large(place: Place, unpacked: int, packed: int, most: int) -> NnefError:
    return NnefError.of(
        "limit/archive",
        f"{packed} bytes unpack to {unpacked} or more; {most} are allowed",
        place,
        how_to_raise("archive_bytes", "archive_ratio", what="the archive"),
    )
