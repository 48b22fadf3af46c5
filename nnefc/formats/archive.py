"""The files in an archive (tar, compressed tar, zip), read without extracting anything."""

from __future__ import annotations

import lzma
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from typing import BinaryIO

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
from nnefc.formats.streams import InflatedStream, ViewStream, decompressor, read_pieces, too_large
from nnefc.formats.tar import tar_members
from nnefc.formats.tensor_file import StoredTensor, decode_stored, decode_tensor
from nnefc.formats.watch import tell
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.limits import Limits, how_to_raise

_SMALL = 64 << 20
"""Unpacked bytes that every archive may have, whatever the ratio."""

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
    stream = ViewStream(view)
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
    inflated, name = decompressor(file, compression), archive.rpartition("/")[-1]

    def read(size: int) -> bytes:
        tell(file.tell(), packed, name)
        try:
            return inflated.read(size)
        except _CORRUPT as error:
            raise _corrupt(Place(archive), error) from None

    stream = InflatedStream(read, archive, packed, most)
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
        raise too_large(place, total, packed, most)
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
                content = read_pieces(member.read, entry.file_size)
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


def _corrupt(place: Place, error: BaseException) -> NnefError:
    return NnefError.of(
        "container/corrupt",
        f"the archive cannot be read: {reason(error)}",
        place,
        "the archive is damaged or incomplete; copy or pack it again",
    )
