"""Tell whether later modifications of files will change their status.

Programs can restore the size and the modification time of a file, but not the time of the last
change of its status.  That time shows every modification except in these cases:

- The file changed less than a minute ago: a further change might have the same time.
- The file system is not known to have this time: those of other machines, of programs (FUSE) and in
  memory, FAT, and the layers of containers, whose device numbers also differ between starts.
- A program has mapped the file: it changes the time only when it first writes to a page after that
  was written to the disk.  Files are therefore flushed to the disk.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nnefc.formats.fingerprint import Fingerprint

_MAX_FILES: Final = 32
"""Flushing a file takes milliseconds."""
_SETTLED: Final = 60 * 10**9
"""Nanoseconds.  Clocks of file systems are no coarser than 2 s, and modified pages of mapped files
are usually on the disk after 35 s, so that flushing finds nothing to do."""
_LOCAL: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"})
_DESCRIPTOR: Final = "/proc/self/fdinfo/{}"
_MOUNTS: Final = "/proc/self/mountinfo"


def is_settled(document: Fingerprint) -> bool:
    """Whether later changes of the files will change their status; to be called before reading.

    The files are flushed to the disk.
    """
    if len(document.stamp) > _MAX_FILES:
        return False
    now = time.time_ns()
    if any(now - changed < _SETTLED for *_, changed in document.stamp):
        return False
    try:
        return all(_flush(os.path.join(document.folder, name)) for name, *_ in document.stamp)
    except (OSError, ValueError):
        return False


def _flush(path: str) -> bool:
    """Flush a file to the disk if it is on a file system of `_LOCAL`; returns whether it is."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        is_local = _file_system(descriptor) in _LOCAL
        if is_local:
            os.fsync(descriptor)
        return is_local
    finally:
        os.close(descriptor)


def _file_system(descriptor: int) -> str | None:
    """The type of the file system of an open file, as Linux names it; None if it is not known."""
    if sys.platform != "linux":
        return None
    with open(_DESCRIPTOR.format(descriptor), "rb") as file:
        facts = dict(line.split(b":", 1) for line in file if b":" in line)
    number = facts.get(b"mnt_id", b"").strip()
    with open(_MOUNTS, "rb") as file:
        for line in file:
            mount, _, source = line.partition(b" - ")
            if mount.split(b" ", 1)[0] == number:
                return source.split(b" ", 1)[0].decode()
    return None
