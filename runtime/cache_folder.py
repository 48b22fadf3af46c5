"""The folder of the cache: private to its owner, files whole or not there, bounded in size.

Entries are machine code that will be executed, so the folder, and each file that is read, must
belong to the user and be writable by nobody else.  Any number of processes may read, write and
evict at the same time; none waits for another: a file is put in place at once, one that is gone
is as good as never written, and one that is evicted twice is gone all the same.

When an entry was used last is the time of its file.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from nnefc.errors import NnefError
from nnefc.formats.files import WRITTEN_AT_ONCE, map_whole

SUFFIX: Final = ".kernel"
"""Of object code."""
PARTIAL: Final = ".tmp-"
"""What the names of files begin with that are being written."""
ABANDONED_SECONDS: Final = 3600
"""The age at which such a file belongs to a process that is gone."""
_DAY: Final = 86400
"""Seconds; the time of a file is renewed at most so often."""
_LARGEST: Final = 1 << 28
"""Bytes of a file that is read: no kernel comes near, and memory is not given to what is none."""
_DIGITS: Final = re.compile("[0-9a-f]{64}")
_OTHER: Final = re.compile(r"[0-9a-f]{32,128}(\.\w+)?")
"""What another version may have called an entry: a digest, perhaps with a suffix."""
_POSIX: Final = os.name == "posix"
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_OPEN: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


class EntryFile(NamedTuple):
    """The file of an entry, as the folder lists it."""

    name: str
    size: int
    """Bytes."""
    used: float
    """Seconds since 1970, up to a day before the last use."""


class CacheFolder:
    """Files by name.  What this process reads or writes it does not evict."""

    def __init__(self, path: Path, limit: int, suffix: str = SUFFIX, *, make: bool = True) -> None:
        """`limit`: bytes of entries to keep.  `make`: the folder if it is not there, now and not
        when something is written.  Raises NnefError `internal/cache` for a folder that cannot be
        made, or that others can write to.
        """
        self.path = path
        self.suffix = suffix
        self.limit = limit
        self._prefix = f"{path}{os.sep}"
        self._used: set[str] = set()
        self.failed = False
        """Whether something could not be written."""
        self._room = 0
        """Bytes to write before the sizes of all entries are looked at again."""
        if make or path.exists():
            self._prepare()

    def _prepare(self) -> None:
        """Make the folder if it is not there, and see that nobody else can write to it."""
        try:
            status = self._made()
        except OSError as error:
            raise NnefError.of(
                "internal/cache",
                f"the cache of kernels cannot be at {self.path}: {_reason(error)}",
                hint="set NNEFC_CACHE to a folder of yours, or to off",
            ) from error
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

    def _made(self, tries: int = 20) -> os.stat_result:
        """Make the folder if it is not there, though somebody may be removing it meanwhile."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self.path.stat()
        except FileNotFoundError:
            if not tries:
                raise
        return self._made(tries - 1)

    def file_name(self, name: str) -> str:
        """The file of the entry of that name (hexadecimal digits)."""
        return name + self.suffix

    # -- one file

    def read(self, name: str) -> bytes | None:
        """What a file holds, which is a use; None if it is not there, or not the user's own."""
        found = self._open(name)
        if found is None:
            return None
        data, changed = found
        self._note_use(name, changed)
        return data

    def _note_use(self, name: str, changed: float) -> None:
        self._used.add(name)
        if abs(time.time() - changed) > _DAY:
            with suppress(OSError):
                os.utime(self.path / name)

    def look(self, name: str) -> bytes | None:
        """The same without noting a use."""
        found = self._open(name)
        return found and found[0]

    def _open(self, name: str) -> tuple[bytes, float] | None:
        """(content, time) of a file."""
        try:
            handle = os.open(f"{self._prefix}{name}", _OPEN)
        except OSError:
            return None
        try:
            status = os.fstat(handle)
            if not _is_own_file(status) or status.st_size > _LARGEST:
                return None
            return os.read(handle, status.st_size + 1), status.st_mtime
        except OSError:
            return None
        finally:
            os.close(handle)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all; raises OSError, or NnefError as at the start."""
        self._used.add(name)
        try:
            self._put(name, data)
        except FileNotFoundError:  # somebody has removed the folder
            self._prepare()
            self._put(name, data)
        self._make_room(len(data))

    def _make_room(self, written: int) -> None:
        """Look at the limit, if there may be more than that now."""
        self._room -= written
        if self._room < 0:
            self._tidy()

    def _put(self, name: str, data: bytes) -> None:
        with self._beside(name) as file:
            file.write(data)

    @contextmanager
    def _beside(self, name: str) -> Generator[BinaryIO]:
        """A file that is put in place at the end of the block; after an exception there is none."""
        from tempfile import mkstemp

        handle, partial = mkstemp(prefix=PARTIAL, dir=self.path)
        try:
            with os.fdopen(handle, "r+b", buffering=WRITTEN_AT_ONCE) as file:
                yield file
            Path(partial).replace(self.path / name)
        except BaseException:
            with suppress(OSError):
                Path(partial).unlink()
            raise

    def map(self, name: str, *, use: bool = True) -> mmap.mmap | None:
        """A file in memory, which processes share; None as `read` says.  Noted if it is a use."""
        try:
            handle = os.open(f"{self._prefix}{name}", _OPEN)
        except OSError:
            return None
        try:
            status = os.fstat(handle)
            if not _is_own_file(status) or not status.st_size:
                return None
            mapping = map_whole(handle)
        except (OSError, ValueError):
            return None
        finally:
            os.close(handle)
        if use:
            self._note_use(name, status.st_mtime)
        return mapping

    @contextmanager
    def writing(self, name: str) -> Generator[BinaryIO]:
        """A file to write in the block, which may be read without comparing it with a checksum.

        Whole or not at all; raises OSError, also when there is no room for it.
        """
        self._used.add(name)
        with self._beside(name) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        self._make_room(size)

    # -- all of them

    def entries(self) -> Iterator[EntryFile]:
        """All entries, in no order."""
        for item, status in self._files():
            if entry := self._entry(item, status):
                yield entry

    def _entry(self, item: os.DirEntry[str], status: os.stat_result) -> EntryFile | None:
        name = item.name.removesuffix(self.suffix)
        named = name != item.name and _DIGITS.fullmatch(name)
        return EntryFile(name, status.st_size, status.st_mtime) if named else None

    def remove(self, entries: Iterable[EntryFile]) -> int:
        """Remove entries; how many were there."""
        removed = 0
        for entry in entries:
            with suppress(OSError):
                (self.path / self.file_name(entry.name)).unlink()
                removed += 1
        return removed

    def _files(self) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
        with suppress(OSError), os.scandir(self.path) as items:
            for item in items:
                with suppress(OSError):
                    status = item.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield item, status

    def sweep(self) -> None:
        """Remove what other versions left, and processes that were killed while they wrote."""
        for item, status in self._files():
            if not self._entry(item, status):
                _sweep(item, status)

    def _tidy(self) -> None:
        """Sweep, and evict what was not used for longest while there is more than the limit."""
        entries: list[EntryFile] = []
        for item, status in self._files():
            if entry := self._entry(item, status):
                entries.append(entry)
            else:
                _sweep(item, status)
        total = sum(entry.size for entry in entries)
        if total > self.limit:
            total -= self._evict(entries, total - self.limit * 9 // 10)
        # Other processes write, too: look again before long.
        share = self.limit // 16
        self._room = min(self.limit - total, share) if total < self.limit else share

    def _evict(self, entries: Iterable[EntryFile], nbytes: int) -> int:
        """Remove entries of `nbytes` together, or somewhat more; how many bytes it was."""
        latest = time.time() + _DAY
        # A clock was wrong that wrote a time to come: nobody knows when these were used.
        ordered = sorted(entries, key=lambda entry: (entry.used <= latest, entry.used))
        evicted = 0
        for entry in ordered:
            if evicted >= nbytes:
                break
            if self.file_name(entry.name) not in self._used and self.remove([entry]):
                evicted += entry.size
        return evicted


def file_name(name: str) -> str:
    """The file of the entry of that name (hexadecimal digits) with object code."""
    return name + SUFFIX


def _sweep(item: os.DirEntry[str], status: os.stat_result) -> None:
    """Remove a file that was begun and will not be finished, or that no version here reads."""
    age = abs(time.time() - status.st_mtime)
    unfinished = item.name.startswith(PARTIAL) and age > ABANDONED_SECONDS
    if unfinished or (_OTHER.fullmatch(item.name) and age > _DAY):
        with suppress(OSError):
            Path(item.path).unlink()


def _is_own_file(status: os.stat_result) -> bool:
    """A regular file that belongs to the user, and that nobody else can write to."""
    if not stat.S_ISREG(status.st_mode):
        return False
    return not _POSIX or (status.st_uid == os.geteuid() and not status.st_mode & _OTHERS)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
