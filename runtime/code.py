"""Executable code: kernels compiled once per process, linked, mapped."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from nnefc.errors import NnefError
from nnefc.kernels.linker import Image, link
from nnefc.kernels.template import Kernel
from nnefc.runtime import cache

if TYPE_CHECKING:
    from nnefc.kernels.isa import Isa

Progress = Callable[[int, int, str], None]
"""`progress(done, total, label)`: called before each step and once at the end."""


class Code:
    """An image in executable memory, until the last reference to this object is gone."""

    def __init__(self, image: Image) -> None:
        """Map `image`; raises NnefError `internal/executable-memory` if the system forbids it."""
        self.symbols = image.symbols
        """Offsets of the entry points."""
        self._map = _map_executable(image.code)
        self.address = _address(self._map)

    def entry(self, symbol: str) -> int:
        """Address of an entry point."""
        return self.address + self.symbols[symbol]

    def offset(self, kernel: Kernel) -> int:
        """Where a kernel starts in the image, in bytes."""
        return self.symbols[kernel.symbol]

    def call(self, kernel: Kernel, bases: int, params: int, first: int, last: int) -> None:
        """Run tiles `first` to `last` - 1 of a kernel; the caller vouches for the addresses."""
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
        kind(self.entry(kernel.symbol))(bases, params, first, last)


def _address(memory: mmap.mmap) -> int:
    # from_buffer would refuse a read-only mapping; NumPy takes it.
    import numpy as np

    return int(np.frombuffer(memory, np.uint8).ctypes.data)


def _map_executable(code: bytes) -> mmap.mmap:
    """The code in memory that is never writable and executable at once."""
    size = -(-max(len(code), 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[: len(code)] = code
    libc = ctypes.CDLL(None, use_errno=True)
    protection = mmap.PROT_READ | mmap.PROT_EXEC
    if libc.mprotect(ctypes.c_void_p(_address(memory)), ctypes.c_size_t(size), protection) == 0:
        return memory
    reason = os.strerror(ctypes.get_errno())
    # Some systems forbid making written memory executable, but let a file be mapped so.
    try:
        with tempfile.TemporaryFile() as file:
            file.write(code.ljust(size, b"\0"))
            file.flush()
            return mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=protection)
    except OSError as error:
        raise NnefError.of(
            "internal/executable-memory",
            f"the system gives no executable memory ({reason}; from a file: {error})",
            hint="set TMPDIR to a folder that is not mounted noexec",
        ) from error


_lock = threading.Lock()
_objects: dict[Kernel, bytes] = {}


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def object_code(kernel: Kernel) -> bytes:
    """The ELF object of a kernel for this machine; compiled once per process."""
    found = _objects.get(kernel)
    if found is None:
        with _lock:
            found = _objects.get(kernel)
            if found is None:
                key = partial(cache.key_of, kernel.family.partition(".")[0], repr(kernel))
                found = _objects[kernel] = _compile(kernel.function, kernel.symbol, key)
    return found


def _compile(
    function: Callable[[], Callable[..., Any]], symbol: str, key: Callable[[Isa], str | None]
) -> bytes:
    """The object of what `function` gives for this machine; `key`: what it is called on disk."""
    with _translators():
        from nnefc.kernels.isa import host

        isa = host()
        name = key(isa)
    found = name and cache.find(name)
    if found:
        return found
    with _deferred_interrupt():
        with _translators():
            from nnefc.kernels.codegen import emit
        made = emit(function(), symbol, isa)
        if name:
            cache.keep(name, made)
        return made


@contextmanager
def _translators() -> Generator[None]:
    """Where numba or llvmlite is needed: what they lack is an error of the installation."""
    try:
        yield
    except ImportError as error:
        raise NnefError.of(
            "internal/code-generation",
            f"numba or llvmlite lacks something that code generation needs: {error}",
            hint="install versions that are known to work: pip install 'numba>=0.62,<0.69'",
        ) from error


@contextmanager
def _deferred_interrupt() -> Generator[None]:
    """Let Ctrl-C wait for the end of the block.

    llvmlite calls back into Python, and an exception that a signal handler raises there is
    printed and lost.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[-1])


def compile_kernels(kernels: Iterable[Kernel], progress: Progress | None = None) -> Code:
    """Compile what is not compiled yet, link and map.

    Raises NnefError `internal/...`; a kernel that does not compile is a fault of ours.
    """
    wanted = list(dict.fromkeys(kernels))
    objects: list[bytes] = []
    for done, kernel in enumerate(wanted):
        if progress is not None:
            progress(done, len(wanted), kernel.family)
        objects.append(object_code(kernel))
    if progress is not None:
        progress(len(wanted), len(wanted), "")
    return Code(link(objects))


def compile_functions(functions: Sequence[tuple[str, Callable[..., Any]]]) -> Code:
    """Compile, link and map functions over 64-bit integers, by symbol."""
    objects: list[bytes] = []
    for symbol, function in functions:
        package, _, module = function.__module__.rpartition(".")
        known = module if package == "nnefc.kernels" else ""
        key = partial(cache.key_of, known, symbol)
        objects.append(_compile(partial(_itself, function), symbol, key))
    return Code(link(objects))


def _itself(function: Callable[..., Any]) -> Callable[..., Any]:
    return function
