"""Object code of kernels: shipped, loaded from the cache or compiled, once per process.

A thread claims a kernel before it compiles it.  Other threads that need the same kernel wait, and
compile it themselves if the first thread fails.  numba and LLVM use one processor per process, so
many kernels are compiled by worker processes (`worker_pool`).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from nnefc.kernels.family import Kernel
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.compile.compile_unit import (
    CompileUnit,
    Function,
    key_of,
    row_for,
    unit_label,
)
from nnefc.runtime.compile.executable_memory import ExecutableImage
from nnefc.runtime.compile.wait_for_process import POLL_SECONDS, WaitForProcess, claim_entries
from nnefc.runtime.shipped.shipped_kernels import load_shipped
from nnefc.support.errors import NnefError
from nnefc.support.limits import no_collection

if TYPE_CHECKING:
    from nnefc.kernels.target.isa import Isa
    from nnefc.runtime.cache.key import Key
    from nnefc.support.progress import Progress

_COMPILER: Final = ("numba", "llvmlite")
"""The packages that compile kernels."""
_SHOWN: Final = 120
"""Characters of a kernel in an error."""
_MAX_NAMED: Final = 5
"""Kernels that an error names."""

_recorded: ContextVar[list[Kernel] | None] = ContextVar("recorded", default=None)
_has_early_workers: ContextVar[bool] = ContextVar("has_early_workers", default=False)


@contextmanager
def recording_cacheable_kernels() -> Generator[list[Kernel]]:
    """Yield a list of the kernels that this thread compiles in the block and can be cached."""
    compiled: list[Kernel] = []
    token = _recorded.set(compiled)
    try:
        yield compiled
    finally:
        _recorded.reset(token)


_changed = threading.Condition()
_objects: dict[CompileUnit, bytes] = {}
_claimed: set[CompileUnit] = set()
"""Units that threads are compiling."""
_codegen_lock = threading.Lock()
"""Held while compiling: numba and LLVM hold global locks of their own most of the time."""


def _renew_locks() -> None:
    global _changed, _codegen_lock
    _changed, _codegen_lock = threading.Condition(), threading.Lock()
    _claimed.clear()


os.register_at_fork(after_in_child=_renew_locks)


def object_code(source: CompileUnit) -> bytes:
    """The ELF object for this machine."""
    return object_codes([source])[0]


def object_codes(sources: Iterable[CompileUnit], progress: Progress | None = None) -> list[bytes]:
    """The ELF objects of the distinct `sources` for this machine, in order.

    Raises NnefError `internal/...`; a kernel that does not compile is an error in nnefc.
    """
    wanted = list(dict.fromkeys(sources))
    steps = _ProgressCounter(0, len(wanted), progress)
    while missing := [source for source in wanted if source not in _objects]:
        steps.done = steps.total - len(missing)
        with _claim(missing) as mine:
            _load_or_compile(mine, steps)
    if _has_early_workers.get():  # they are memory, and keep other threads from having workers
        from nnefc.runtime.compile import worker_pool

        worker_pool.end_early_workers()
    if progress is not None:
        progress(steps.total, steps.total, "")
    return [_objects[source] for source in wanted]


def compile_kernels(
    kernels: Iterable[Kernel],
    progress: Progress | None = None,
    *,
    beside: Iterable[Function] = (),
) -> ExecutableImage:
    """Kernels in executable memory, compiled if necessary.

    `beside`: functions that are compiled at the same time but are not part of the image.
    Raises NnefError `internal/...`; a kernel that does not compile is an error in nnefc.
    """
    from nnefc.kernels.codegen.linker import link

    wanted = list(dict.fromkeys(kernels))
    return ExecutableImage(link(object_codes([*wanted, *beside], progress)[: len(wanted)]))


@contextmanager
def compiled_early(units: Sequence[CompileUnit]) -> Generator[None]:
    """Compile `units` in workers while the block finds out which kernels it needs.

    Does nothing if they are compiled, because most kernels are then likely to be.
    """
    from nnefc.runtime.compile import worker_pool

    if all(unit in _objects for unit in units) or absent_compiler():
        yield
        return
    with _import_errors():
        from nnefc.kernels.target.isa import host

        isa = host()
    missing = [unit for unit in units if _is_missing(unit, isa)]
    if not missing:
        yield
        return
    token = _has_early_workers.set(True)
    try:
        with worker_pool.workers_started_early(isa, missing):
            yield
    finally:
        _has_early_workers.reset(token)


def _is_missing(unit: CompileUnit, isa: Isa) -> bool:
    """Whether a unit is neither in memory, shipped nor cached, and no process compiles it."""
    if unit in _objects or load_shipped(unit, isa):
        return False
    key = key_of(unit, isa)
    if not key or kernel_cache.load_kernel(key):
        return False
    claim = kernel_cache.claim_kernel(key)
    if claim:
        claim.release()  # `claim_entries` claims it again
    return claim is not None


def compile_functions(functions: Iterable[tuple[str, Callable[..., Any]]]) -> ExecutableImage:
    """Functions over 64-bit integers in executable memory, from (symbol, function) pairs."""
    from nnefc.kernels.codegen.linker import link

    return ExecutableImage(link(object_codes([Function(*each) for each in functions])))


def object_code_for(source: CompileUnit, isa: Isa) -> bytes:
    """The ELF object for `isa`, shipped, from the cache or compiled in this process."""
    if code := load_shipped(source, isa):
        return code
    key = key_of(source, isa)
    return (kernel_cache.load_kernel(key) if key else None) or _compile(source, isa, key)


@dataclass(slots=True)
class _ProgressCounter:
    """Compiled units of a call, for its progress."""

    done: int
    total: int
    progress: Progress | None

    def begin(self, source: CompileUnit) -> None:
        """Report that a unit is being compiled."""
        if self.progress is not None:
            self.progress(self.done, self.total, unit_label(source))

    def finish(self, source: CompileUnit, code: bytes) -> None:
        """Publish the object code of a unit to all threads."""
        with _changed:
            _objects[source] = code
            _changed.notify_all()
        self.done += 1


@contextmanager
def _claim(wanted: Sequence[CompileUnit]) -> Generator[list[CompileUnit]]:
    """Claim the units of `wanted` that no other thread has claimed; wait if all are claimed.

    The result is empty if other threads have compiled all units meanwhile.  Units that are not
    compiled at the end of the block can be claimed again.
    """
    mine: list[CompileUnit] = []
    try:
        with _changed:
            while not mine and any(source not in _objects for source in wanted):
                mine = [s for s in wanted if s not in _objects and s not in _claimed]
                _claimed.update(mine)
                if not mine:
                    _changed.wait()
        yield mine
    finally:
        with _changed:
            _claimed.difference_update(mine)
            _changed.notify_all()


def _load_or_compile(sources: Sequence[CompileUnit], steps: _ProgressCounter) -> None:
    if not sources:
        return
    with _import_errors():
        from nnefc.kernels.target.isa import host

        isa = host()
    keys: dict[CompileUnit, Key | None] = {}
    missing: list[CompileUnit] = []
    for source in sources:
        code = load_shipped(source, isa)
        if code is None:
            keys[source] = key = key_of(source, isa)
            code = kernel_cache.load_kernel(key) if key else None
        if code:
            steps.finish(source, code)
        else:
            missing.append(source)
    _require_compiler(missing)
    if (recorded := _recorded.get()) is not None:
        recorded += (s for s in missing if isinstance(s, Kernel) and keys[s] is not None)
    wait = WaitForProcess()
    while missing:
        with claim_entries(missing, keys) as mine:
            _load(mine or missing, keys, steps)
            if not mine and wait.goes_on(missing):
                steps.begin(missing[0])
                time.sleep(POLL_SECONDS)
            else:
                _compile_all([s for s in mine or missing if s not in _objects], keys, isa, steps)
        missing = [source for source in missing if source not in _objects]


def _load(
    units: Iterable[CompileUnit], keys: Mapping[CompileUnit, Key | None], steps: _ProgressCounter
) -> None:
    """Load those units that another process has stored meanwhile."""
    for unit in units:
        key = keys[unit]
        if key and (code := kernel_cache.load_kernel(key)):
            steps.finish(unit, code)


def _compile_all(
    missing: Sequence[CompileUnit],
    keys: Mapping[CompileUnit, Key | None],
    isa: Isa,
    steps: _ProgressCounter,
) -> None:
    """Compile units, in workers if that pays, and store them in the cache."""
    if len(missing) > 1:
        from nnefc.runtime.compile import worker_pool

        cacheable = {source: key for source in missing if (key := keys[source])}
        if count := worker_pool.workers_for(cacheable):
            _compile_in_workers(cacheable, count, isa, steps)
            missing = [source for source in missing if source not in _objects]
    for source in missing:
        steps.begin(source)
        steps.finish(source, _compile(source, isa, keys[source]))


def _compile_in_workers(
    keys: Mapping[CompileUnit, Key], count: int, isa: Isa, steps: _ProgressCounter
) -> None:
    """Compile in `count` worker processes."""
    from nnefc.runtime.compile import worker_pool

    def finish(source: CompileUnit, code: bytes) -> None:
        kernel_cache.store_kernel(keys[source], code)
        steps.finish(source, code)

    names = {source: key.name for source, key in keys.items()}
    worker_pool.compile_in_workers(names, count, isa, begin=steps.begin, finish=finish)


def _compile(source: CompileUnit, isa: Isa, key: Key | None) -> bytes:
    """Compile in this process."""
    with _codegen_lock, _deferred_interrupt():
        with _import_errors():
            from nnefc.kernels.codegen.object_code import emit
        with no_collection():  # numba makes thousands of objects, and keeps most of them meanwhile
            code = emit(source.function(), source.symbol, row_for(source, isa))
        if key:
            kernel_cache.store_kernel(key, code)
        return code


def absent_compiler() -> list[str]:
    """The packages that compile kernels and are not installed."""
    return [name for name in _COMPILER if find_spec(name) is None]


def _require_compiler(missing: Sequence[CompileUnit]) -> None:
    """Raise NnefError `internal/code-generation` if `missing` cannot be compiled here."""
    if missing and (absent := absent_compiler()):
        from textwrap import shorten

        names = [
            shorten(f"{unit.family}{unit.arguments}", _SHOWN, placeholder="...")
            if isinstance(unit, Kernel)
            else unit.symbol
            for unit in missing[:_MAX_NAMED]
        ]
        if more := len(missing) - len(names):
            names.append(f"and {more} more")
        is_one = len(missing) == 1
        packages = " and ".join(absent)
        raise NnefError.of(
            "internal/code-generation",
            f"{len(missing)} {'kernel is' if is_one else 'kernels are'} neither shipped nor cached"
            f" ({', '.join(names)}); compiling {'it' if is_one else 'them'} needs {packages}, but "
            f"{packages} {'is' if len(absent) == 1 else 'are'} not installed",
            hint=f"pip install {' '.join(_COMPILER)}",
        )


@contextmanager
def _import_errors() -> Generator[None]:
    """Report an ImportError of numba or llvmlite as an error of the installation."""
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
    """Delay Ctrl-C to the end of the block.

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
