"""Members of archives (tar, compressed tar, zip), read without extracting them to disk."""

from __future__ import annotations

import lzma
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from typing import BinaryIO, Final

from nnefc.formats.archives.spool import Spool
from nnefc.formats.archives.streams import (
    InflatedStream,
    ViewStream,
    decompressor,
    read_pieces,
    too_large,
)
from nnefc.formats.archives.tar import tar_members
from nnefc.formats.files import check_size, map_file, printable, reason, size_of
from nnefc.formats.item_encodings import Array
from nnefc.formats.paths import (
    COMPANION_SUFFIXES,
    DOCUMENT,
    QUANTIZATION,
    TENSOR_SUFFIX,
    CaselessIndex,
    normal_path,
)
from nnefc.formats.read_progress import report
from nnefc.formats.tensor_file import StoredTensor, decode_stored, decode_tensor
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.limits import Limits, how_to_raise

_SMALL = 64 << 20
"""Unpacked bytes that are allowed at any compression ratio."""

CORRUPT: Final = (
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
"""What libraries raise for a damaged archive."""

Content = bytes | bytearray | memoryview


class ArchiveMembers:
    """The regular files of an archive, by normalised path.

    `load(path)` returns the content of one of `paths`.
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

    def display_name(self, path: str) -> str:
        """The name of a member in messages."""
        return f"{self._archive}/{printable(path)}"

    def find(self, path: str) -> str | None:
        """The path of the member that equals `path`, exactly or ignoring case."""
        return self._index.find(path, self._archive)

    def read(self, path: str, limit: int) -> bytes:
        """The content of a member; NnefError `limit/size` if it exceeds `limit` bytes."""
        check_size(self._sizes[path], limit, self.display_name(path))
        return bytes(self._load(path))

    def tensor(self, path: str, limits: Limits) -> Array:
        """The tensor in a member, a view of the archive where possible."""
        return decode_tensor(self._load(path), self.display_name(path), limits=limits)

    def stored(self, path: str, limits: Limits) -> StoredTensor:
        """The tensor in a member, in a standard or vendor format."""
        return decode_stored(self._load(path), self.display_name(path), limits=limits)

    def content(self, path: str) -> Content:
        """The content of a member, a view of the archive where possible."""
        return self._load(path)

    def names_in(self, folder: str) -> Iterable[str]:
        """Sorted names of the members directly in a folder, "" or "top/"."""
        below = (path[len(folder) :] for path in self.paths if path.startswith(folder))
        return sorted(name for name in below if "/" not in name)

    def tensor_paths(self) -> Iterable[str]:
        """The paths of all tensor files."""
        return (path for path in self.paths if path.lower().endswith(TENSOR_SUFFIX))

    def close(self) -> None:
        """Release the archive; arrays that were read stay valid."""
        self._close()


def open_tar(file: BinaryIO, archive: str, limits: Limits) -> ArchiveMembers:
    """The members of an uncompressed tar archive, which is mapped where possible."""
    mapped = map_file(file)
    view = memoryview(mapped if mapped is not None else file.read())
    stream = ViewStream(view)
    names = _MemberNames(archive)
    extents: dict[str, tuple[int, int]] = {}
    for member in tar_members(stream, archive, limits.archive_members, names.diagnostics):
        path = names.add(member.name)
        if path:
            extents[path] = member.offset, member.size
    names.diagnostics.raise_errors()
    file.close()

    def load(path: str) -> Content:
        offset, size = extents[path]
        return view[offset : offset + size]

    sizes = {path: size for path, (_, size) in extents.items()}
    return ArchiveMembers(archive, sizes, load, extents.clear)


def open_compressed_tar(
    file: BinaryIO, compression: str, archive: str, limits: Limits
) -> ArchiveMembers:
    """The members of a tar archive in gzip, bzip2 or xz, which is unpacked once.

    Large contents go to a mapped temporary file, see `Spool`.  Files that models do not use are
    skipped.  Raises NnefError `limit/archive` if the archive unpacks to more than `limits` allow.
    """
    packed = size_of(file)
    most = min(limits.archive_bytes, max(_SMALL, limits.archive_ratio * packed))
    inflated, name = decompressor(file, compression), archive.rpartition("/")[-1]

    def read(size: int) -> bytes:
        report(file.tell(), packed, name)
        try:
            return inflated.read(size)
        except CORRUPT as error:
            raise _corrupt(Place(archive), error) from None

    stream = InflatedStream(read, archive, packed, most)
    names = _MemberNames(archive)
    contents: dict[str, Content] = {}
    spool = Spool()
    spooled: dict[str, tuple[int, int]] = {}
    sizes: dict[str, int] = {}
    for member in tar_members(stream, archive, limits.archive_members, names.diagnostics):
        path = names.add(member.name)
        if not path:
            continue
        stream.check(member.offset + member.size)
        sizes[path] = member.size
        if path.rsplit("/", 1)[-1] in (DOCUMENT, QUANTIZATION):
            check_size(member.size, limits.document_bytes, f"{archive}/{printable(path)}")
        elif not path.lower().endswith(COMPANION_SUFFIXES):
            continue
        if spool.takes(member.size):
            spooled[path] = spool.open(), member.size
            stream.copy(member.size, spool.write)
        else:
            contents[path] = stream.take(member.size)
    # read to the end, which verifies the checksum of the compressed data
    stream.skip(most + 1)
    names.diagnostics.raise_errors()
    file.close()
    spool_content = spool.content()

    def load(path: str) -> Content:
        if path not in spooled:
            return contents[path]
        offset, size = spooled[path]
        return spool_content[offset : offset + size]

    def close() -> None:
        contents.clear()
        spooled.clear()

    return ArchiveMembers(archive, sizes, load, close)


def open_zip(
    file: BinaryIO, archive: str, limits: Limits, *, mapped: bool = False
) -> ArchiveMembers:
    """The members of a zip archive, each unpacked when it is read.

    `mapped`: members without compression are views of the mapped file; their checksums are not
    verified.
    """
    opened = _opened_zip(file, archive, limits)
    names = _MemberNames(archive)
    known: dict[str, zipfile.ZipInfo] = {}
    for entry in opened.infolist():
        if entry.orig_filename.endswith("/"):
            continue
        path = names.add(entry.orig_filename, _zip_fault(entry))
        if path:
            known[path] = entry
    names.diagnostics.raise_errors()

    view = _view_of(file) if mapped else None

    def load(path: str) -> Content:
        entry = known[path]
        if view is not None and entry.compress_type == zipfile.ZIP_STORED:
            return _stored_content(view, entry, f"{archive}/{printable(path)}")
        try:
            with opened.open(entry) as member:
                content = read_pieces(member.read, entry.file_size)
                more = member.read(1)
        except CORRUPT as error:
            raise _corrupt(Place(f"{archive}/{printable(path)}"), error) from None
        if len(content) != entry.file_size or more:
            raise NnefError.of(
                "container/corrupt",
                f"the member does not unpack to the {entry.file_size} bytes that its entry gives",
                Place(f"{archive}/{printable(path)}"),
            )
        return memoryview(content).toreadonly()

    def close() -> None:
        opened.close()
        file.close()

    sizes = {path: entry.file_size for path, entry in known.items()}
    return ArchiveMembers(archive, sizes, load, close)


def _opened_zip(file: BinaryIO, archive: str, limits: Limits) -> zipfile.ZipFile:
    """A zip archive whose number of members and whose size are within the limits."""
    place = Place(archive)
    try:
        opened = zipfile.ZipFile(file)
        entries = opened.infolist()
    except CORRUPT as error:
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
    return opened


def _view_of(file: BinaryIO) -> memoryview:
    """The content of a file, mapped where possible."""
    mapping = map_file(file)
    if mapping is not None:
        return memoryview(mapping)
    file.seek(0)
    return memoryview(file.read()).toreadonly()


_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
"""The signature of a member's header, and the lengths of its name and its extra fields."""


def _stored_content(view: memoryview, entry: zipfile.ZipInfo, name: str) -> memoryview:
    """The content of a member without compression, a view of the archive."""
    begin = entry.header_offset + _LOCAL_HEADER.size
    signature, *lengths = (
        _LOCAL_HEADER.unpack_from(view, entry.header_offset)
        if 0 <= entry.header_offset <= len(view) - _LOCAL_HEADER.size
        else (b"", 0, 0)
    )
    begin += sum(lengths)
    end = begin + entry.file_size
    is_whole = entry.compress_size == entry.file_size and end <= len(view)
    if signature != b"PK\3\4" or not is_whole:
        raise _corrupt(Place(name), ValueError("its header does not fit its entry"))
    return view[begin:end]


def _zip_fault(entry: zipfile.ZipInfo) -> str:
    """Why a member of a zip archive is refused; empty if it can be read."""
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) and not stat.S_ISREG(mode):
        return "it is not a regular file"
    if entry.flag_bits & 1:
        return "it is encrypted"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"its compression method {entry.compress_type} is not supported"
    return ""


class _MemberNames:
    """Normalises the names of members; `diagnostics` collects names that are refused."""

    def __init__(self, archive: str) -> None:
        self.diagnostics = Diagnostics()
        self._place = Place(archive)
        self._seen: set[str] = set()

    def add(self, name: str, wrong: str = "") -> str:
        """The normalised path of a member; "" if the member is refused."""
        path, fault = normal_path(name)
        wrong = wrong or fault or ("" if path else "it has no name")
        if wrong:
            self.diagnostics.error(
                "container/member", f"member '{printable(name)}' is refused: {wrong}", self._place
            )
            return ""
        if path in self._seen:
            self.diagnostics.error(
                "container/duplicate",
                f"member '{printable(path)}' occurs more than once",
                self._place,
                hint="pack the archive again instead of appending to it",
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
