"""Files of users: checks of path arguments; opening regular files without blocking; mappings."""

from __future__ import annotations

import mmap
import os
import stat
import sys
import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, BinaryIO, Final, Literal, NamedTuple, cast

from nnefc.support.errors import Diagnostic, NnefError, Place

FilePath = str | os.PathLike[str]


class _Mapped(NamedTuple):
    """A file as it was when it was mapped."""

    path: str
    inode: tuple[int, int]
    state: tuple[int, int]
    """Size and time."""


WRITTEN_AT_ONCE: Final = 16 << 20
"""Bytes.  A file that is written in large pieces lies in large pages, where the system has them:
mapping it takes next to nothing then, otherwise 0.2 ms for each MB, and reading it less time."""
_SHOWN = 200
_MAP_FROM = 1 << 16
_MAPS = 256
_live: weakref.WeakKeyDictionary[mmap.mmap, _Mapped] = weakref.WeakKeyDictionary()


def printable(name: str) -> str:
    """`name` for a message: one line, no control or unencodable characters, not too long."""
    if len(name) > _SHOWN:
        name = f"{name[: _SHOWN // 2]}…{name[-_SHOWN // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def whole_path(name: str) -> str:
    """A path from the root on, with links and dots as they are."""
    try:
        return name if os.path.isabs(name) else os.path.join(os.getcwd(), name)
    except OSError:  # the folder that the process is in has been removed
        return name


def reason(error: BaseException) -> str:
    """What the operating system or a library had to say."""
    text = error.strerror if isinstance(error, OSError) else ""
    return printable(text or str(error) or type(error).__name__)


def open_regular(path: FilePath, rule: str = "data/file") -> BinaryIO:
    """Open a regular file for reading; pipes, devices and folders are refused without waiting.

    Raises NnefError `rule` when the file is not there, not readable or not a regular file.
    """
    name = printable(os.fspath(path))
    place = Place(name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NnefError.of(rule, "there is no such file", place, "check the path") from None
    except (OSError, ValueError) as error:
        raise NnefError.of(rule, f"cannot open the file: {reason(error)}", place) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NnefError.of(
            rule, f"this is {describe(mode)}, not a file", place, "name a regular file"
        )
    return open(path, "rb", opener=lambda _path, _flags: descriptor)  # which makes `name` the path


def describe(mode: int) -> str:
    """The kind of a file system entry by its `st_mode`, in words."""
    kinds = (
        (stat.S_ISREG, "a file"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a link"),
    )
    return next((words for test, words in kinds if test(mode)), "a device")


def size_of(file: BinaryIO) -> int:
    """Bytes of an open regular file."""
    return os.fstat(file.fileno()).st_size


def map_file(file: BinaryIO) -> mmap.mmap | None:
    """A read-only mapping of a regular file; None where reading is the better way.

    Small files do not pay for a mapping. Before Python 3.13 every mapping keeps a file
    descriptor, so that the number of mappings is bounded too.
    """
    if sys.version_info < (3, 13) and len(_live) >= _MAPS:
        return None
    if size_of(file) < _MAP_FROM:
        return None
    try:
        mapping = map_whole(file.fileno())
    except (OSError, ValueError):
        return None
    name = file.name if isinstance(file.name, str) else os.devnull  # of files without a name
    _live[mapping] = _Mapped(whole_path(name), *_signs(os.fstat(file.fileno())))
    return mapping


def _signs(status: os.stat_result) -> tuple[tuple[int, int], tuple[int, int]]:
    """What tells a file, and what tells that it has changed."""
    return (status.st_dev, status.st_ino), (status.st_size, status.st_mtime_ns)


def require_unchanged(arrays: Iterable[Any]) -> None:
    """Raise NnefError `data/file` if files that arrays are mapped from were written to since.

    Reading them would give other numbers, or end the process if they are shorter now.  A file that
    was removed, or has another in its place, is still there for those that have mapped it.
    """
    changed: dict[str, Diagnostic] = {}
    for mapping in {id(found): found for found in map(_mapping, arrays) if found}.values():
        then = _live.get(mapping)
        if then is None:
            continue
        with suppress(OSError):
            inode, state = _signs(os.stat(then.path))
            if inode == then.inode and state != then.state:
                changed[then.path] = Diagnostic(
                    "data/file",
                    "the file has been written to since it was read",
                    Place(printable(then.path)),
                    hint="import or compile the model again; a file that is replaced, not"
                    " written over, stays for those that use it",
                )
    if changed:
        raise NnefError(changed.values())


def _mapping(array: Any) -> mmap.mmap | None:
    """What the memory of an array is, if it is a file."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return array


def map_whole(descriptor: int) -> mmap.mmap:
    """A read-only mapping of all of a file, which keeps it open only before Python 3.13.

    Raises OSError or ValueError.
    """
    options: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, **options)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # what is not in memory yet is read in large pages, where there are
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def write_evenly(file: BinaryIO, data: memoryview, at: int) -> None:
    """Write bytes at offset `at` of a file with a buffer of `WRITTEN_AT_ONCE`, where it stands.

    The buffer is full whenever it is written out, at multiples of its size.
    """
    start, end = 0, WRITTEN_AT_ONCE - at % WRITTEN_AT_ONCE
    while start < len(data):
        file.write(data[start:end])
        start, end = end, end + WRITTEN_AT_ONCE


def release_pages() -> None:
    """Let go of the memory that mapped files take; what is read again comes from the file.

    It counts as memory of the process otherwise, as long as the mapping exists.
    """
    for mapping in tuple(_live):
        if hasattr(mmap, "MADV_DONTNEED") and not mapping.closed:
            mapping.madvise(mmap.MADV_DONTNEED)


def read_whole(path: FilePath, limit: int, rule: str = "data/file") -> bytes:
    """The content of a regular file of at most `limit` bytes; NnefError otherwise."""
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
    """Raise NnefError `limit/size` when a file is larger than allowed."""
    if size > limit:
        from nnefc.support.limits import how_to_raise

        raise NnefError.of(
            "limit/size",
            f"the file has {size} bytes, more than the {limit} allowed",
            Place(name),
            how_to_raise("document_bytes", what="the file") + "; for arrays tensor_bytes",
        )


def require_path(what: str, path: object) -> None:
    """Raise NnefError `input/argument` if `path` is neither a str nor an os.PathLike of one."""
    given = cast(Any, path)
    try:
        is_path = isinstance(os.fspath(given), str)
    except TypeError:
        is_path = False
    if not is_path:
        raise NnefError.of(
            "input/argument",
            f"{what} is given as {type(given).__name__}, expected a path: str or os.PathLike",
        )


def require_file(file: object, method: Literal["read", "write"]) -> None:
    """Raise NnefError `input/argument` if `file` has no such method."""
    if not callable(getattr(file, method, None)):
        raise NnefError.of(
            "input/argument",
            f"the tensor file is given as {type(file).__name__}, expected a path (str or"
            f" os.PathLike) or a binary file to {method}",
        )
