"""Open, read, map and write regular files; check arguments that name them.

Pipes and devices are refused without blocking.
"""

from __future__ import annotations

import mmap
import os
import stat
import sys
import weakref
from collections.abc import Iterable
from contextlib import suppress
from io import BytesIO
from typing import Any, BinaryIO, Final, Literal, NamedTuple, cast

from nnefc.support.errors import Diagnostic, NnefError, Place

FilePath = str | os.PathLike[str]


class _Mapped(NamedTuple):
    """A file at the time it was mapped."""

    path: str
    inode: tuple[int, int]
    """Device and number."""
    version: tuple[int, int]
    """Size in bytes and time of modification."""


WRITE_BUFFER_BYTES: Final = 16 << 20
"""Bytes.  Where the system has large pages, large writes place a file in them.  Mapping the file
then takes almost no time instead of 0.2 ms per MB, and reading it is faster."""
_MAX_PRINTED = 200
_STANDARD_STREAMS: Final = {"/dev/stdout": 1, "/dev/stderr": 2}
_MAP_FROM = 1 << 16
_MAPS = 256
_live: weakref.WeakKeyDictionary[mmap.mmap, _Mapped] = weakref.WeakKeyDictionary()


def printable(name: str) -> str:
    """`name` for a message: shortened, on one line, control characters escaped."""
    if len(name) > _MAX_PRINTED:
        name = f"{name[: _MAX_PRINTED // 2]}…{name[-_MAX_PRINTED // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def absolute_path(name: str) -> str:
    """The absolute path; links and dots stay."""
    try:
        return name if os.path.isabs(name) else os.path.join(os.getcwd(), name)
    except OSError:  # the working directory has been removed
        return name


def reason(error: BaseException) -> str:
    """The message of an exception of the operating system or a library."""
    text = error.strerror if isinstance(error, OSError) else ""
    return printable(text or str(error) or type(error).__name__)


def open_regular(path: FilePath, rule: str = "data/file") -> BinaryIO:
    """Open a regular file for reading; pipes, devices and folders are refused without blocking.

    Raises NnefError `rule` if the file does not exist, is not readable or not a regular file.
    """
    name = printable(os.fspath(path))
    place = Place(name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NnefError.of(rule, "no such file", place, "check the path") from None
    except (OSError, ValueError) as error:
        raise NnefError.of(rule, f"cannot open the file: {reason(error)}", place) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NnefError.of(
            rule, f"this is {describe(mode)}, not a file", place, "name a regular file"
        )
    # an opener, since a file opened by its descriptor has no path as its name
    return open(path, "rb", opener=lambda _path, _flags: descriptor)


def describe(mode: int) -> str:
    """The kind of a file system entry for messages, by its `st_mode`."""
    kinds = (
        (stat.S_ISREG, "a file"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a link"),
    )
    return next((words for test, words in kinds if test(mode)), "a device")


def is_stream(path: FilePath) -> bool:
    """Whether a path names a character device, a pipe, or an open descriptor such as /dev/stdout.

    They are written to; files are replaced.
    """
    if descriptor_of(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def descriptor_of(path: FilePath) -> int | None:
    """The number of the open descriptor that /dev/stdout, /dev/stderr or /dev/fd/N names."""
    name = os.fspath(path)
    if name in _STANDARD_STREAMS:
        return _STANDARD_STREAMS[name]
    number = name.removeprefix("/dev/fd/")
    is_number = number != name and number.isascii() and number.isdecimal() and len(number) < 10
    return int(number) if is_number else None


def size_of(file: BinaryIO) -> int:
    """The size of an open regular file, or of one in memory, in bytes."""
    if isinstance(file, BytesIO):
        return file.getbuffer().nbytes
    return os.fstat(file.fileno()).st_size


def map_file(file: BinaryIO) -> mmap.mmap | None:
    """A read-only mapping of a regular file; None if it should be read instead.

    Mapping small files does not pay.  Before Python 3.13 each mapping holds a file descriptor, so
    the number of mappings is bounded.
    """
    if sys.version_info < (3, 13) and len(_live) >= _MAPS:
        return None
    if size_of(file) < _MAP_FROM:
        return None
    try:
        mapping = map_whole(file.fileno())
    except (OSError, ValueError):
        return None
    name = file.name if isinstance(file.name, str) else os.devnull  # temporary files have no name
    _live[mapping] = _Mapped(absolute_path(name), *_inode_and_version(os.fstat(file.fileno())))
    return mapping


def _inode_and_version(status: os.stat_result) -> tuple[tuple[int, int], tuple[int, int]]:
    return (status.st_dev, status.st_ino), (status.st_size, status.st_mtime_ns)


def require_unchanged(arrays: Iterable[Any]) -> None:
    """Raise NnefError `data/file` if files from which arrays are mapped were modified.

    Reading such an array would give other numbers, or kill the process if the file is shorter now.
    A file that was removed or replaced is no error: the mapping still has the old content.
    """
    changed: dict[str, Diagnostic] = {}
    for mapping in {id(base): base for base in map(_mapping, arrays) if base}.values():
        mapped = _live.get(mapping)
        if mapped is None:
            continue
        with suppress(OSError):
            inode, version = _inode_and_version(os.stat(mapped.path))
            if inode == mapped.inode and version != mapped.version:
                changed[mapped.path] = Diagnostic(
                    "data/file",
                    "the file has been modified since it was read",
                    Place(printable(mapped.path)),
                    hint="import or compile the model again; to update a file that is in use,"
                    " replace it instead of writing to it",
                )
    if changed:
        raise NnefError(changed.values())


def _mapping(array: Any) -> mmap.mmap | None:
    """The mapping that holds the memory of an array, or None."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return array


def map_whole(descriptor: int) -> mmap.mmap:
    """A read-only mapping of a whole file; raises OSError or ValueError.

    The mapping holds the descriptor open only before Python 3.13.
    """
    options: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, **options)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # systems without large pages
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def write_evenly(file: BinaryIO, data: memoryview, at: int) -> None:
    """Write bytes at the position of a file, which is `at`, through a `WRITE_BUFFER_BYTES` buffer.

    Pieces end at multiples of the buffer's size, so that every flush writes a full buffer.
    """
    start, end = 0, WRITE_BUFFER_BYTES - at % WRITE_BUFFER_BYTES
    while start < len(data):
        file.write(data[start:end])
        start, end = end, end + WRITE_BUFFER_BYTES


def release_pages() -> None:
    """Release the resident pages of mapped files; later reads load them from the file again.

    Otherwise they count as memory of the process while the mapping exists.
    """
    for mapping in tuple(_live):
        if hasattr(mmap, "MADV_DONTNEED") and not mapping.closed:
            mapping.madvise(mmap.MADV_DONTNEED)


def read_whole(path: FilePath, limit: int, rule: str = "data/file") -> bytes:
    """The content of a regular file; NnefError `limit/size` beyond `limit` bytes, or `rule`."""
    with open_regular(path, rule) as file:
        return read_at_most(file, size_of(file), limit, printable(os.fspath(path)))


def read_at_most(file: BinaryIO, size: int, limit: int, name: str) -> bytes:
    """`size` bytes of `file`; NnefError `limit/size` beyond `limit`, `data/file` on failure."""
    check_size(size, limit, name)
    try:
        return file.read(size)
    except OSError as error:
        raise NnefError.of("data/file", f"cannot read: {reason(error)}", Place(name)) from None


def check_size(size: int, limit: int, name: str) -> None:
    """Raise NnefError `limit/size` if a file has more than `limit` bytes."""
    if size > limit:
        from nnefc.support.limits import how_to_raise

        raise NnefError.of(
            "limit/size",
            f"the file has {size} bytes, more than the {limit} allowed",
            Place(name),
            how_to_raise("document_bytes", what="the file") + "; for arrays tensor_bytes",
        )


def exists(path: FilePath) -> bool:
    """Whether this names something; False for names that the system does not accept."""
    return os.path.exists(path)


def is_folder(path: FilePath) -> bool:
    """Whether this names a folder; False for names that the system does not accept."""
    return os.path.isdir(path)


def require_path(what: str, path: object) -> None:
    """Raise NnefError `input/argument` if `path` is no str or os.PathLike of one, or empty."""
    value = cast(Any, path)
    try:
        is_path = isinstance(os.fspath(value), str)
    except TypeError:
        is_path = False
    if is_path and not os.fspath(value):
        raise NnefError.of("input/argument", f"{what} is an empty path", hint="name a file")
    if not is_path:
        raise NnefError.of(
            "input/argument",
            f"{what} is of type {type(value).__name__}, expected a path: str or os.PathLike",
        )


def require_file(file: object, method: Literal["read", "write"]) -> None:
    """Raise NnefError `input/argument` if `file` does not have the method."""
    if not callable(getattr(file, method, None)):
        raise NnefError.of(
            "input/argument",
            f"the tensor file is of type {type(file).__name__}, expected a path (str or"
            f" os.PathLike) or a binary file to {method}",
        )
