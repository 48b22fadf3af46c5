"""A folder of one user: nobody else can write to it, and its files are whole or not there.

What lies there is executed, so the folder, and each file that is read, must belong to the user.
Any number of processes may read and write at the same time; none waits for another: a file is put
in place at once, and one that is gone is as good as never written.
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
"""What the names of files begin with that are being written."""
_LARGEST: Final = 1 << 28
"""Bytes of a file that is read: no kernel comes near, and memory is not given to what is none."""
_POSIX: Final = os.name == "posix"
_EFFECTIVE: Final = os.access in os.supports_effective_ids
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_OPEN: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


T = TypeVar("T")


class PrivateFolder:
    """Files by name."""

    def __init__(self, path: FilePath, *, make: bool = True) -> None:
        """`make`: create the folder now if it does not exist, not when something is written.

        Raises NnefError `internal/cache` for a folder that cannot be created, or that others can
        write to.
        """
        self.path = os.fspath(path)
        self._prefix = f"{self.path}{os.sep}"
        if make or os.path.exists(self.path):
            self._prepare()
        else:
            self._require_writable_parent()

    def _require_writable_parent(self) -> None:
        """Raise NnefError if the folder, which does not exist, could not be created."""
        parent = os.path.dirname(self.path)
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        if not os.path.isdir(parent):
            raise self._of_no_use("Not a directory")
        if not os.access(parent, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE):
            raise self._of_no_use(f"{parent} cannot be written to")

    def _prepare(self) -> None:
        """Make the folder if it is not there, and see that it is of use and nobody else's."""
        try:
            status = self._made()
        except OSError as error:
            raise self._of_no_use(_reason(error)) from error
        if _POSIX and status.st_uid != os.geteuid():
            raise NnefError.of(
                "internal/cache",
                f"the cache folder {self.path} belongs to user {status.st_uid}, not to "
                f"{os.geteuid()}: code in it is not to be trusted",
                hint="set NNEFC_CACHE to a folder of yours, or to off",
            )
        if _POSIX and status.st_mode & _OTHERS:
            raise NnefError.of(
                "internal/cache",
                f"others can write to the cache folder {self.path} (mode "
                f"{stat.S_IMODE(status.st_mode):03o}): code in it is not to be trusted",
                hint=f"remove what you did not put there, then: chmod go-w {self.path}",
            )
        if not os.access(self.path, os.R_OK | os.X_OK, effective_ids=_EFFECTIVE):
            raise self._of_no_use("Permission denied")

    def _of_no_use(self, why: str) -> NnefError:
        return NnefError.of(
            "internal/cache",
            f"the cache of kernels cannot be at {self.path}: {why}",
            hint="set NNEFC_CACHE to a folder of yours, or to off",
        )

    def _made(self, tries: int = 20) -> os.stat_result:
        """Make the folder if it is not there, though somebody may be removing it meanwhile."""
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            return os.stat(self.path)
        except FileNotFoundError:
            if not tries:
                raise
        return self._made(tries - 1)

    def is_there(self) -> bool:
        """Whether it can be seen: not if it is in a folder that this process may not look into."""
        return os.path.isdir(self.path)

    def where(self, name: str) -> str:
        """The path of a file."""
        return f"{self._prefix}{name}"

    def content(self, name: str) -> tuple[bytes, float] | None:
        """(content, time) of a file; None if it is not there, or not the user's own."""

        def read(handle: int, size: int) -> bytes | None:
            return os.read(handle, size + 1) if size <= _LARGEST else None

        return self._take(name, read)

    def mapped(self, name: str) -> tuple[mmap.mmap, float] | None:
        """The same with a mapping, which processes share; None also for a file that is empty."""
        return self._take(name, lambda handle, _: map_whole(handle))

    def _take(self, name: str, take: Callable[[int, int], T | None]) -> tuple[T, float] | None:
        """What `take(handle, size)` has of a file, and the time of that."""
        try:
            handle = os.open(self.where(name), _OPEN)
        except OSError:
            return None
        try:
            status = os.fstat(handle)
            taken = take(handle, status.st_size) if _is_own_file(status) else None
        except (OSError, ValueError):  # there is nothing to map of a file that is empty
            return None
        finally:
            os.close(handle)
        return None if taken is None else (taken, status.st_mtime)

    def put(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all; raises OSError, or NnefError as at the start."""
        try:
            self._put(name, data)
        except FileNotFoundError:  # somebody has removed the folder
            self._prepare()
            self._put(name, data)

    def _put(self, name: str, data: bytes) -> None:
        with self.beside(name) as file:
            file.write(data)

    @contextmanager
    def beside(self, name: str) -> Generator[BinaryIO]:
        """A file to write, put in place at the end of the block; there is none after an error."""
        from tempfile import mkstemp

        handle, partial = mkstemp(prefix=PARTIAL, dir=self.path)
        try:
            with os.fdopen(handle, "r+b", buffering=WRITE_BUFFER_BYTES) as file:
                yield file
            os.replace(partial, self.where(name))
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise


def _is_own_file(status: os.stat_result) -> bool:
    """A regular file that belongs to the user, and that nobody else can write to."""
    if not stat.S_ISREG(status.st_mode):
        return False
    return not _POSIX or (status.st_uid == os.geteuid() and not status.st_mode & _OTHERS)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
