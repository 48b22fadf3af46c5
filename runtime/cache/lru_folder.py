"""A cache folder of bounded size, which evicts the least recently used entries.

Any number of processes may read, write and evict at the same time.  The modification time of a
file records the last use of the entry, to a day.
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
from nnefc.support.digests import blake2b

SUFFIX: Final = ".kernel"
"""Suffix of files with object code."""
ABANDONED_SECONDS: Final = 3600
"""Age at which a partial file is taken to be left by a process that was killed."""
_PROCESS_SHARE: Final = 16
"""A process checks the limit when it has written 1/16 of it."""
_TURN_SHARE: Final = 64
"""All processes together check the limit when they have written 1/64 of it, on average."""
_DAY: Final = 86400
"""Seconds; a use renews the time of a file at most once a day."""
_DIGITS: Final = "0123456789abcdef"
_NAME_DIGITS: Final = 64
"""Digits of the name of an entry."""
_OTHER: Final = r"[0-9a-f]{32,128}(\.\w+)?"
"""Names of entries of other versions: a digest, perhaps with a suffix."""


class EntryFile(NamedTuple):
    """Name, size and time of an entry's file."""

    name: str
    size: int
    """Bytes."""
    used: float
    """Seconds since 1970, up to a day before the last use."""


class LruFolder(PrivateFolder):
    """Files by name, limited in total size.

    Entries are evicted in the order of their last use.  A process evicts the entries that it has
    used itself last, and never those that it has mapped (that would free no memory) or is writing.
    """

    def __init__(
        self, path: FilePath, limit: int, suffix: str = SUFFIX, *, make: bool = True
    ) -> None:
        """`limit`: bytes that all entries may have together; for the others see `PrivateFolder`."""
        super().__init__(path, make=make)
        self.suffix = suffix
        self.limit = limit
        self._used: set[str] = set()
        self._mapped: set[str] = set()
        self.failed = False
        """Whether a write has failed."""
        self._unchecked = limit // _PROCESS_SHARE
        """Bytes that may be written before all entries are listed and the limit is checked."""
        self.written = False
        """Whether this process has written an entry."""

    def file_name(self, name: str) -> str:
        """The name of the file of an entry; `name`: hexadecimal digits."""
        return name + self.suffix

    # -- one file

    def read(self, name: str) -> bytes | None:
        """The content of a file, noted as a use; None if it is missing or not the user's own."""
        file = self.content(name)
        if file is None:
            return None
        data, changed = file
        self._note_use(name, changed)
        return data

    def _note_use(self, name: str, changed: float) -> None:
        self._used.add(name)
        if abs(time.time() - changed) > _DAY:
            with suppress(OSError):
                os.utime(self.path_of(name))

    def peek(self, name: str) -> bytes | None:
        """The content of a file, not noted as a use; None as for `read`."""
        file = self.content(name)
        return file and file[0]

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically; raises OSError, or NnefError as the constructor does."""
        self._used.add(name)
        self.put(name, data)
        self._note_written(len(data), name)

    def _note_written(self, nbytes: int, name: str) -> None:
        """Check the limit if the folder may have grown beyond it.

        Listing 10,000 entries takes 30 ms, as long as a process may need to compile a small model.
        Processes that write little therefore take turns.
        """
        self.written = True
        self._unchecked -= nbytes
        if self._unchecked < 0 or self._has_turn(name, nbytes):
            self._enforce_limit({name, *self._mapped})

    def _has_turn(self, name: str, nbytes: int) -> bool:
        """Whether the writer of a file checks the limit: once per `limit / _TURN_SHARE` on average.

        The name decides, since most are digests.
        """
        draw = int.from_bytes(blake2b(name.encode(), digest_size=4).digest())
        return draw * self.limit < (nbytes * _TURN_SHARE) << 32

    def map(self, name: str, *, use: bool = True) -> mmap.mmap | None:
        """A file mapped into memory, shared between processes; None as for `read`.

        `use`: note this as a use.
        """
        file = self.mapped(name)
        if file is None:
            return None
        mapping, changed = file
        if use:
            self._mapped.add(name)
            self._note_use(name, changed)
        return mapping

    @contextmanager
    def writing(self, name: str, verified_bytes: int = 0) -> Generator[BinaryIO]:
        """Write a file atomically in the block, and flush it to the disk.

        `verified_bytes`: files up to this size are not flushed, because readers compare their
        checksums; readers of others need not.  Raises OSError, also if the disk is full.
        """
        self._used.add(name)
        with self.replacing(name) as file:
            yield file
            file.flush()
            size = os.fstat(file.fileno()).st_size
            if size > verified_bytes:
                os.fsync(file.fileno())
        self._note_written(size, name)

    # -- all files

    def entries(self) -> Iterator[EntryFile]:
        """All entries, in any order."""
        for item, status in self._files():
            if self._is_entry(item.name):
                name = item.name.removesuffix(self.suffix)
                yield EntryFile(name, status.st_size, status.st_mtime)

    def _is_entry(self, name: str) -> bool:
        """Whether a file has the name of an entry; fast, because it is called for every file."""
        if len(name) != _NAME_DIGITS + len(self.suffix) or not name.endswith(self.suffix):
            return False
        return not name[:_NAME_DIGITS].strip(_DIGITS)

    def remove(self, entries: Iterable[EntryFile]) -> int:
        """Remove entries; returns how many existed."""
        removed = 0
        for entry in entries:
            with suppress(OSError):
                os.unlink(self.path_of(self.file_name(entry.name)))
                removed += 1
        return removed

    def _files(self) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
        with suppress(OSError), os.scandir(self.path) as items:
            for item in items:
                try:
                    status = item.stat(follow_symlinks=False)
                except OSError:  # another process has removed it
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield item, status

    def sweep(self) -> None:
        """Remove files of other versions, and partial files of processes that were killed."""
        for item, status in self._files():
            if not self._is_entry(item.name):
                _sweep(item, status)

    def _enforce_limit(self, keep: Container[str]) -> None:
        """Sweep; if the entries exceed the limit, evict the least recently used to 9/10 of it.

        Files in `keep` are not evicted.
        """
        total = 0
        for item, status in self._files():
            if self._is_entry(item.name):
                total += status.st_size
            else:
                _sweep(item, status)
        if total > self.limit:
            total -= self._evict(self.entries(), total - self.limit * 9 // 10, keep)
        # Other processes write too, so check again soon.
        share = self.limit // _PROCESS_SHARE
        self._unchecked = min(self.limit - total, share) if total < self.limit else share

    def _evict(self, entries: Iterable[EntryFile], nbytes: int, keep: Container[str]) -> int:
        """Evict entries of at least `nbytes` together; returns the bytes evicted."""
        latest = time.time() + _DAY

        def order(entry: EntryFile) -> tuple[bool, bool, float]:
            # A time in the future comes from a wrong clock: evict such entries first.
            return self.file_name(entry.name) in self._used, entry.used <= latest, entry.used

        evicted = 0
        for entry in sorted(entries, key=order):
            if evicted >= nbytes:
                break
            if self.file_name(entry.name) not in keep and self.remove([entry]):
                evicted += entry.size
        return evicted


def kernel_file_name(name: str) -> str:
    """The name of the file with the object code of an entry; `name`: hexadecimal digits."""
    return name + SUFFIX


def _sweep(item: os.DirEntry[str], status: os.stat_result) -> None:
    """Remove an abandoned partial file, or an old entry of another version."""
    age = abs(time.time() - status.st_mtime)
    unfinished = item.name.startswith(PARTIAL) and age > ABANDONED_SECONDS
    if unfinished or (re.fullmatch(_OTHER, item.name) and age > _DAY):
        with suppress(OSError):
            os.unlink(item.path)
