"""A folder that only one user can write to, with atomic writes.

Its files are executed, so the folder, and each file that is read, must belong to the user.  Any
number of processes may read and write at the same time without waiting: a file is written under a
temporary name and renamed.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final, TypeVar

from nnefc.formats.files import WRITE_BUFFER_BYTES, FilePath, map_whole
from nnefc.support.errors import NnefError

PARTIAL: Final = ".tmp-"
"""Prefix of the names of files that are being written."""
_LARGEST: Final = 1 << 28
"""Largest file that is read, in bytes; far above any kernel."""
_POSIX: Final = os.name == "posix"
_EFFECTIVE: Final = os.access in os.supports_effective_ids
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_OPEN: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


T = TypeVar("T")


class PrivateFolder:
    """Files by name."""

    def __init__(self, path: FilePath, *, make: bool = True) -> None:
        """`make`: create the folder now if it does not exist; otherwise the first write does.

        Raises NnefError `internal/cache` if the folder cannot be created, belongs to another user,
        or can be written to by others.
        """
        self.path = os.fspath(path)
        self._prefix = f"{self.path}{os.sep}"
        if make or os.path.exists(self.path):
            self._prepare()
        else:
            self._require_writable_parent()

    def _require_writable_parent(self) -> None:
        """Raise NnefError if the folder, which does not exist, cannot be created."""
        parent = os.path.dirname(self.path)
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        if not os.path.isdir(parent):
            raise self._unusable("Not a directory")
        if not os.access(parent, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE):
            raise self._unusable(f"{parent} cannot be written to")

    def _prepare(self) -> None:
        """Create the folder if it is missing; raise NnefError unless it is usable and private."""
        try:
            status = self._create()
        except OSError as error:
            raise self._unusable(_reason(error)) from error
        if _POSIX and status.st_uid != os.geteuid():
            raise NnefError.of(
                "internal/cache",
                f"the cache folder {self.path} belongs to user {status.st_uid}, not to "
                f"{os.geteuid()}: code in it cannot be trusted",
                hint="set NNEFC_CACHE to a folder of yours, or to off",
            )
        if _POSIX and status.st_mode & _OTHERS:
            raise NnefError.of(
                "internal/cache",
                f"others can write to the cache folder {self.path} (mode "
                f"{stat.S_IMODE(status.st_mode):03o}): code in it cannot be trusted",
                hint=self._how_to_own(status.st_mode),
            )
        usable = os.access(self.path, os.R_OK | os.X_OK, effective_ids=_EFFECTIVE)
        if not usable and os.path.lexists(self.path):  # otherwise another process has removed it
            raise self._unusable("Permission denied")

    def _how_to_own(self, mode: int) -> str:
        """How to get a folder that only its user can write to; a sticky one is meant for all."""
        if mode & stat.S_ISVTX:
            return f"choose a folder within it, such as {self.path}/nnefc-{os.getuid()}"
        return f"remove files that are not yours, then: chmod go-w {self.path}"

    def _unusable(self, why: str) -> NnefError:
        return NnefError.of(
            "internal/cache",
            f"the cache of kernels cannot be at {self.path}: {why}",
            hint="set NNEFC_CACHE to a folder of yours, or to off",
        )

    def _create(self, tries: int = 20) -> os.stat_result:
        """Create the folder if it is missing; try again if another process removes it meanwhile."""
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            return os.stat(self.path)
        except FileNotFoundError:
            if not tries:
                raise
        return self._create(tries - 1)

    def exists(self) -> bool:
        """Whether the folder exists and this process may see it."""
        return os.path.isdir(self.path)

    def path_of(self, name: str) -> str:
        """The path of a file."""
        return f"{self._prefix}{name}"

    def content(self, name: str) -> tuple[bytes, float] | None:
        """(content, modification time) of a file; None if it is missing or not the user's own."""

        def read(handle: int, size: int) -> bytes | None:
            return os.read(handle, size + 1) if size <= _LARGEST else None

        return self._read_with(name, read)

    def mapped(self, name: str) -> tuple[mmap.mmap, float] | None:
        """(mapping, modification time) of a file; None as for `content`, and for an empty file."""
        return self._read_with(name, lambda handle, _: map_whole(handle))

    def _read_with(self, name: str, read: Callable[[int, int], T | None]) -> tuple[T, float] | None:
        """(`read(handle, size)`, modification time) of a file."""
        try:
            handle = os.open(self.path_of(name), _OPEN)
        except OSError:
            return None
        try:
            status = os.fstat(handle)
            content = read(handle, status.st_size) if _is_own_file(status) else None
        except (OSError, ValueError):  # an empty file cannot be mapped
            return None
        finally:
            os.close(handle)
        return None if content is None else (content, status.st_mtime)

    def put(self, name: str, data: bytes) -> None:
        """Write a file atomically; raises OSError, or NnefError as the constructor does."""
        try:
            self._put(name, data)
        except FileNotFoundError:  # another process has removed the folder
            self._prepare()
            self._put(name, data)

    def _put(self, name: str, data: bytes) -> None:
        with self.replacing(name) as file:
            file.write(data)

    @contextmanager
    def replacing(self, name: str) -> Generator[BinaryIO]:
        """A temporary file that replaces file `name` at the end of the block, unless it raises."""
        from tempfile import mkstemp

        handle, partial = mkstemp(prefix=PARTIAL, dir=self.path)
        try:
            with os.fdopen(handle, "r+b", buffering=WRITE_BUFFER_BYTES) as file:
                yield file
            os.replace(partial, self.path_of(name))
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise


def _is_own_file(status: os.stat_result) -> bool:
    """Whether this is a regular file of the user that nobody else can write to."""
    if not stat.S_ISREG(status.st_mode):
        return False
    return not _POSIX or (status.st_uid == os.geteuid() and not status.st_mode & _OTHERS)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
