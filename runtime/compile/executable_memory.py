"""Executable memory: maps linked object code."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING

from nnefc.kernels.codegen import Image
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.kernels.family import Kernel


class ExecutableImage:
    """An image in executable memory; unmapped with the last reference to this object."""

    def __init__(self, image: Image) -> None:
        """Map `image`; raises NnefError `internal/executable-memory` if the system forbids it."""
        self.symbols = image.symbols
        """Offsets of the entry points, in bytes."""
        self._map = _map_executable(image.code)
        self.address = _address(self._map)

    def entry(self, symbol: str) -> int:
        """Address of an entry point."""
        return self.address + self.symbols[symbol]

    def offset(self, kernel: Kernel) -> int:
        """Offset of a kernel in the image, in bytes."""
        return self.symbols[kernel.symbol]

    def call(self, kernel: Kernel, bases: int, params: int, first: int, last: int) -> None:
        """Run tiles `first` to `last` - 1 of a kernel; the addresses are not checked."""
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
        kind(self.entry(kernel.symbol))(bases, params, first, last)


def _address(memory: mmap.mmap) -> int:
    # from_buffer would refuse a read-only mapping; NumPy takes it.
    import numpy as np

    return int(np.frombuffer(memory, np.uint8).ctypes.data)


def _map_executable(code: bytes) -> mmap.mmap:
    """Map code into memory that is never writable and executable at the same time."""
    size = -(-max(len(code), 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[: len(code)] = code
    libc = ctypes.CDLL(None, use_errno=True)
    protection = mmap.PROT_READ | mmap.PROT_EXEC
    if libc.mprotect(ctypes.c_void_p(_address(memory)), ctypes.c_size_t(size), protection) == 0:
        return memory
    reason = os.strerror(ctypes.get_errno())
    # Some systems forbid making written memory executable, but allow executable file mappings.
    from tempfile import TemporaryFile

    try:
        with TemporaryFile() as file:
            file.write(code.ljust(size, b"\0"))
            file.flush()
            return mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=protection)
    except OSError as error:
        raise NnefError.of(
            "internal/executable-memory",
            f"the system gives no executable memory ({reason}; from a file: {error})",
            hint="set TMPDIR to a folder that is not mounted noexec",
        ) from error
