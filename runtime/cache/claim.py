"""Claims: non-blocking locks on cache entries, so that processes do not make the same entry twice.

A process that cannot claim an entry may wait for it: `nnefc.runtime.compile.wait_for_process`.

A claim is an exclusive lock on a file beside the entry.  The system releases it when the process,
and each process that it has forked meanwhile, ends in any way.  Claims only save work: entries are
equal whoever makes them, so a claim that is lost, or cannot be made, does no harm.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Final

SUFFIX: Final = ".lock"
"""Suffix of the files; a sweep of the folder removes those that a killed process has left."""
_OPEN: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class Claim:
    """A claim of this process; without a file where claims are impossible."""

    def __init__(self, path: str, handle: int | None) -> None:
        self._path = path
        self._handle = handle

    def release(self) -> None:
        """Remove the file and end the claim; no effect if it has ended."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        import fcntl

        with suppress(OSError):
            os.unlink(self._path)
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # a forked process may hold a copy of the handle
        os.close(handle)


def claim(path: str) -> Claim | None:
    """Claim the entry whose lock file is `path`; None if another process has claimed it.

    Where files cannot be locked, as in a folder that is read-only, every claim succeeds.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return Claim(path, None)
    try:
        handle = os.open(path, _OPEN, 0o600)
    except OSError:
        return Claim(path, None)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        is_claimed = error.errno in (errno.EAGAIN, errno.EACCES)
        return None if is_claimed else Claim(path, None)
    if not _is_at(handle, path):  # its owner has removed the file since it was opened
        os.close(handle)
        return None
    return Claim(path, handle)


def _is_at(handle: int, path: str) -> bool:
    """Whether an open file still has its path."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False
