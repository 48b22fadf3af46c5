"""The folder of the cache: entries and when they were used, bounded in size.

Any number of processes may read, write and evict at the same time: an entry that is evicted twice
is gone all the same.  When an entry was used last is the time of its file.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import time
from collections.abc import Container, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final, NamedTuple

from nnefc.formats.files import FilePath
from nnefc.runtime.cache.private_folder import PARTIAL, PrivateFolder

SUFFIX: Final = ".kernel"
"""Of object code."""
ABANDONED_SECONDS: Final = 3600
"""The age at which a file that is being written belongs to a process that is gone."""
_DAY: Final = 86400
"""Seconds; the time of a file is renewed at most so often."""
_DIGITS: Final = "[0-9a-f]{64}"
_OTHER: Final = r"[0-9a-f]{32,128}(\.\w+)?"
"""What another version may have called an entry: a digest, perhaps with a suffix."""


class EntryFile(NamedTuple):
    """The file of an entry, as the folder lists it."""

    name: str
    size: int
    """Bytes."""
    used: float
    """Seconds since 1970, up to a day before the last use."""


class CacheFolder(PrivateFolder):
    """Files by name.  What this process has mapped it does not evict, as that would free nothing,
    nor what it is writing; what it has read or written before it evicts last.
    """

    def __init__(
        self, path: FilePath, limit: int, suffix: str = SUFFIX, *, make: bool = True
    ) -> None:
        """`limit`: bytes of entries to keep; the others as for any `PrivateFolder`."""
        super().__init__(path, make=make)
        self.suffix = suffix
        self.limit = limit
        self._used: set[str] = set()
        self._mapped: set[str] = set()
        self.failed = False
        """Whether something could not be written."""
        self._room = 0
        """Bytes to write before the sizes of all entries are looked at again."""

    def file_name(self, name: str) -> str:
        """The file of the entry of that name (hexadecimal digits)."""
        return name + self.suffix

    # -- one file

    def read(self, name: str) -> bytes | None:
        """What a file holds, which is a use; None if it is not there, or not the user's own."""
        found = self.content(name)
        if found is None:
            return None
        data, changed = found
        self._note_use(name, changed)
        return data

    def _note_use(self, name: str, changed: float) -> None:
        self._used.add(name)
        if abs(time.time() - changed) > _DAY:
            with suppress(OSError):
                os.utime(self.where(name))

    def look(self, name: str) -> bytes | None:
        """The same without noting a use."""
        found = self.content(name)
        return found and found[0]

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all; raises OSError, or NnefError as at the start."""
        self._used.add(name)
        self.put(name, data)
        self._make_room(len(data), name)

    def _make_room(self, nbytes: int, name: str) -> None:
        """Look at the limit, if there may be more than that now that a file was written."""
        self._room -= nbytes
        if self._room < 0:
            self._tidy({name, *self._mapped})

    def map(self, name: str, *, use: bool = True) -> mmap.mmap | None:
        """A file in memory, which processes share; None as `read` says.  Noted if it is a use."""
        found = self.mapped(name)
        if found is None:
            return None
        mapping, changed = found
        if use:
            self._mapped.add(name)
            self._note_use(name, changed)
        return mapping

    @contextmanager
    def writing(self, name: str) -> Generator[BinaryIO]:
        """A file to write in the block, which may be read without comparing it with a checksum.

        Whole or not at all; raises OSError, also when there is no room for it.
        """
        self._used.add(name)
        with self.beside(name) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        self._make_room(size, name)

    # -- all of them

    def entries(self) -> Iterator[EntryFile]:
        """All entries, in no order."""
        for item, status in self._files():
            if entry := self._entry(item, status):
                yield entry

    def _entry(self, item: os.DirEntry[str], status: os.stat_result) -> EntryFile | None:
        name = item.name.removesuffix(self.suffix)
        named = name != item.name and re.fullmatch(_DIGITS, name)
        return EntryFile(name, status.st_size, status.st_mtime) if named else None

    def remove(self, entries: Iterable[EntryFile]) -> int:
        """Remove entries; how many were there."""
        removed = 0
        for entry in entries:
            with suppress(OSError):
                os.unlink(self.where(self.file_name(entry.name)))
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

    def _tidy(self, keep: Container[str]) -> None:
        """Sweep, and evict what was not used for longest while there is more than the limit, but no
        files to `keep`.
        """
        entries: list[EntryFile] = []
        for item, status in self._files():
            if entry := self._entry(item, status):
                entries.append(entry)
            else:
                _sweep(item, status)
        total = sum(entry.size for entry in entries)
        if total > self.limit:
            total -= self._evict(entries, total - self.limit * 9 // 10, keep)
        # Other processes write, too: look again before long.
        share = self.limit // 16
        self._room = min(self.limit - total, share) if total < self.limit else share

    def _evict(self, entries: Iterable[EntryFile], nbytes: int, keep: Container[str]) -> int:
        """Remove entries of `nbytes` together, or somewhat more; how many bytes it was."""
        latest = time.time() + _DAY

        def order(entry: EntryFile) -> tuple[bool, bool, float]:
            # A clock was wrong that wrote a time to come: nobody knows when that was used.
            return self.file_name(entry.name) in self._used, entry.used <= latest, entry.used

        evicted = 0
        for entry in sorted(entries, key=order):
            if evicted >= nbytes:
                break
            if self.file_name(entry.name) not in keep and self.remove([entry]):
                evicted += entry.size
        return evicted


def file_name(name: str) -> str:
    """The file of the entry of that name (hexadecimal digits) with object code."""
    return name + SUFFIX


def _sweep(item: os.DirEntry[str], status: os.stat_result) -> None:
    """Remove a file that was begun and will not be finished, or that no version here reads."""
    age = abs(time.time() - status.st_mtime)
    unfinished = item.name.startswith(PARTIAL) and age > ABANDONED_SECONDS
    if unfinished or (re.fullmatch(_OTHER, item.name) and age > _DAY):
        with suppress(OSError):
            os.unlink(item.path)
