"""Tell whether later modifications of files will change their status.

Programs can restore the size and the modification time of a file, but not the time of the last
change of its status.  That time shows every modification except in these cases:

- The file changed less than two seconds ago: a further change might have the same time.
- The file system is not known to have this time: those of other machines, of programs (FUSE) and in
  memory, FAT, and the layers of containers, whose device numbers also differ between starts.
- A program has mapped the file: it changes the time only when it first writes to a page after that
  was written to the disk.  A file that a program may write to is therefore flushed to the disk.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nnefc.formats.fingerprints import Fingerprint

_MAX_FILES: Final = 32
"""Flushing a file takes milliseconds."""
_CLOCK: Final = 2 * 10**9
"""Nanoseconds.  Times of files are no coarser."""
_WRITTEN: Final = 60 * 10**9
"""Nanoseconds after which modified pages usually are on the disk, so that flushing takes little
time: Linux writes them after 30 to 35 s."""
_LOCAL: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"})
_DESCRIPTOR: Final = "/proc/self/fdinfo/{}"
_MOUNTS: Final = "/proc/self/mountinfo"


def is_settled(document: Fingerprint) -> bool:
    """Whether later changes of the files will change their status; to be called before reading."""
    if len(document.stamp) > _MAX_FILES:
        return False
    age = time.time_ns() - max(changed for *_, changed in document.stamp)
    if age < _CLOCK:
        return False
    paths = (os.path.join(document.folder, name) for name, *_ in document.stamp)
    try:
        return all(_is_settled(path, may_flush=age >= _WRITTEN) for path in paths)
    except (OSError, ValueError):
        return False


def _is_settled(path: str, *, may_flush: bool) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if _file_system(descriptor) not in _LOCAL:
            return False
        if _has_no_writer(descriptor):
            return True
        if may_flush:
            os.fsync(descriptor)
        return may_flush
    finally:
        os.close(descriptor)


def _has_no_writer(descriptor: int) -> bool:
    """Whether no program has the file open, or mapped, for writing; False if this is not known.

    The system grants a lease for reading exactly then, to the owner of the file.
    """
    import fcntl
    from signal import SIGURG

    try:
        # A program that opens the file meanwhile sends a signal; this one is ignored by default.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return False
    return True


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
