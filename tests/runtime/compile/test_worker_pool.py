"""Worker processes: their results and their number."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from nnefc.kernels.codegen import object_code
from nnefc.kernels.convolution import direct
from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile import zero_halo as halo
from nnefc.runtime.compile import kernel_compiler, start_python
from nnefc.runtime.compile import worker_pool as compile_pool
from nnefc.runtime.compile.compile_unit import CompileUnit, unit_label
from nnefc.runtime.compile.kernel_compiler import object_codes
from nnefc.runtime.compile.support_code import functions
from nnefc.support.errors import NnefError
from tests.helpers.cache.compile_pool import SOURCES, emitted, name_of, watched_pool


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start with no compiled kernels, and workers for any number; yields the started processes."""
    yield from watched_pool(monkeypatch)


def apart(
    names: Mapping[CompileUnit, str], count: int = 2
) -> tuple[dict[CompileUnit, bytes], list[CompileUnit]]:
    """The object code from the workers, and the units that were reported as begun, in order."""
    found: dict[CompileUnit, bytes] = {}
    begun: list[CompileUnit] = []
    compile_pool.compile_in_workers(
        names, count, host(), begin=begun.append, finish=found.__setitem__
    )
    return found, begun


def named(sources: list[CompileUnit]) -> dict[CompileUnit, str]:
    return {source: name_of(source) for source in sources}


def test_workers_emit_the_same_code_as_this_process() -> None:
    found, begun = apart(named(SOURCES))
    assert found == {source: emitted(source) for source in SOURCES}
    assert set(begun) <= set(SOURCES)


def test_units_are_compiled_in_order_and_large_ones_first() -> None:
    large = direct.convolution("float32", "float32", 1, channels=1)
    found, begun = apart(named([SOURCES[0], large, SOURCES[1]]), 1)
    assert list(found) == begun == [large, SOURCES[0], SOURCES[1]]


def test_workers_without_threads_do_nothing(
    pool: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may refuse to start a further thread."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert apart(named(SOURCES)) == ({}, [])
    assert len(pool) == 1


def test_units_unknown_to_workers_are_compiled_here() -> None:
    mine = Kernel("test_compile_pool.mine", (lambda: None,))
    here = family()(_mine)()
    assert here.family == "elementwise.map.mine"
    other = halo.zero_halo()
    names = dict.fromkeys([mine, here, other], "a name that no worker finds")
    assert apart({**names, **named(SOURCES[:1])})[0].keys() == {SOURCES[0]}


def _mine() -> KernelFunction:
    return _nothing


_mine.__module__, _mine.__name__ = "nnefc.kernels.elementwise.map", "mine"


def _nothing(bases: int, params: int, first: int, last: int) -> None:
    pass


@family()
def _idle() -> KernelFunction:
    return _nothing


def test_units_known_to_workers_are_compiled_by_workers(
    pool: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = _idle()
    here: list[str] = []
    real = object_code.emit

    def emit(function: KernelFunction, symbol: str, isa: Any) -> bytes:
        here.append(symbol)
        return real(function, symbol, isa)

    monkeypatch.setattr(object_code, "emit", emit)
    steps: list[tuple[int, int, str, int]] = []

    def progress(done: int, total: int, label: str) -> None:
        steps.append((done, total, label, threading.get_ident()))

    found = object_codes([mine, *SOURCES], progress)
    assert here == [mine.symbol]
    assert len(pool) == 2
    assert found == [emitted(source) for source in [mine, *SOURCES]]
    done = [step[0] for step in steps]
    assert done == sorted(done)
    assert set(done) == {*range(6)}
    assert steps[-1][:3] == (5, 5, "")
    assert {step[1] for step in steps} == {5}
    assert {step[3] for step in steps} == {threading.get_ident()}
    assert {step[2] for step in steps[:-1]} <= {unit_label(s) for s in [mine, *SOURCES]}


@pytest.mark.parametrize(
    "program",
    [
        "",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import sys; sys.stdin.buffer.read(9)",
        "print('this is no answer' * 1000)",
        "import sys; sys.stdin.buffer.read(9); sys.stdout.buffer.write(b'\\xff' * 7)",
        "import time; time.sleep(1000)",
        "import signal, sys; signal.pause()",
    ],
)
def test_failing_workers_are_replaced_by_this_process(
    pool: list[Any], program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_python, "command", lambda module: [sys.executable, "-c", program])  # pyright: ignore
    monkeypatch.setattr(compile_pool, "_TIMEOUT_SECONDS", 0.5)
    assert object_codes(SOURCES) == [emitted(source) for source in SOURCES]
    assert len(pool) == 2


def test_units_of_a_killed_worker_are_compiled_anyway(
    pool: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = iter(range(100))

    def progress(done: int, total: int, label: str) -> None:
        if next(steps) == 0:
            pool[0].kill()

    assert object_codes(SOURCES, progress) == [emitted(source) for source in SOURCES]


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_everything_is_compiled_here_if_no_worker_starts(
    pool: list[Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(module: str) -> list[str]:
        raise error

    monkeypatch.setattr(start_python, "command", command)
    assert object_codes(SOURCES[:2]) == [emitted(source) for source in SOURCES[:2]]
    assert not pool


def test_an_error_of_the_caller_stops_the_workers(pool: list[Any]) -> None:
    def progress(done: int, total: int, label: str) -> None:
        raise KeyError(label)

    with pytest.raises(KeyError):
        object_codes(SOURCES, progress)
    assert len(pool) == 2
    assert len(object_codes(SOURCES[:1])) == 1


def test_an_interrupt_while_a_thread_starts_leaves_no_thread(
    pool: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a thread are closed only after it has ended."""
    raised: list[Any] = []
    begun: list[threading.Thread] = []
    start, read = threading.Thread.start, compile_pool.read_message

    def later(stream: Any) -> bytes | None:
        time.sleep(0.2)
        return read(stream)

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        begun.append(thread)
        if len(begun) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(threading, "excepthook", raised.append)
    monkeypatch.setattr(compile_pool, "read_message", later)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apart(named(SOURCES))
    assert len(pool) == 2
    assert not any(thread.is_alive() for thread in begun)
    assert not raised


# -- workers that are started early


def test_early_workers_compile_their_units_and_those_of_the_block(
    pool: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_code, "emit", None)  # nothing is compiled in this process
    with compile_pool.workers_started_early(host(), SOURCES[:1]):
        assert len(pool) == 2
        found, begun = apart(named(SOURCES))
        assert len(pool) == 2
        assert found.keys() == set(SOURCES)
        assert begun[0] == SOURCES[0]
        assert all(process.poll() is not None for process in pool)
        assert apart(named(SOURCES))[0].keys() == set(SOURCES)  # by new workers
        assert len(pool) == 4


def test_early_workers_serve_few_units(pool: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_pool, "_MIN_WORKER_SECONDS", 1000.0)
    assert compile_pool.workers_for(SOURCES) == 0
    with compile_pool.workers_started_early(host(), []):
        assert compile_pool.workers_for(SOURCES) == 2


def test_early_workers_end_with_the_block(pool: list[Any]) -> None:
    with pytest.raises(KeyError), compile_pool.workers_started_early(host(), SOURCES):
        raise KeyError
    assert len(pool) == 2
    assert all(process.poll() is not None for process in pool)
    with compile_pool.workers_started_early(host(), []):
        assert len(pool) == 4  # the lock is free again


def test_early_units_that_nobody_needs_are_left_aside(pool: list[Any]) -> None:
    with compile_pool.workers_started_early(host(), SOURCES[:2]):
        assert apart(named(SOURCES[1:3]))[0].keys() == set(SOURCES[1:3])


def test_killed_early_workers_leave_units_to_this_process(pool: list[Any]) -> None:
    with compile_pool.workers_started_early(host(), SOURCES[:1]):
        for process in pool:
            process.kill()
        assert object_codes(SOURCES) == [emitted(source) for source in SOURCES]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_single_job_starts_no_early_workers(
    pool: list[Any], monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    monkeypatch.setenv("NNEFC_JOBS", jobs)
    with compile_pool.workers_started_early(host(), SOURCES[:1]):
        assert len(pool) == (2 if jobs == "2" else 0)


# -- number of workers


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`machine(cpus, bytes, kernels)`: the number of workers for these numbers."""
    monkeypatch.delenv("NNEFC_JOBS", raising=False)

    def workers(cpus: int, free: int | None, kernels: int) -> int:
        monkeypatch.setattr(compile_pool, "usable_cpus", lambda: cpus)
        monkeypatch.setattr(compile_pool, "free_memory", lambda: free)
        return compile_pool.workers_for(
            Kernel(direct.convolution.name, (i,)) for i in range(kernels)
        )

    return workers


def test_the_number_of_workers_follows_kernels_processors_and_memory(
    machine: Callable[..., int],
) -> None:
    many = 1 << 40
    assert machine(8, many, 0) == 0
    assert machine(8, many, 1) == 0
    assert machine(1, many, 100) == 0
    assert machine(2, many, 100) == machine(2, None, 100) == 2
    assert machine(64, many, 200) == 64
    assert 2 < machine(64, many, 20) < 20
    assert machine(64, 1 << 30, 100) == 4
    assert machine(64, 1 << 20, 100) == 0


def test_the_environment_sets_the_number_of_workers(
    machine: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for jobs, count in [("1", 0), ("3", 3), ("", 2)]:
        monkeypatch.setenv("NNEFC_JOBS", jobs)
        assert machine(2, None, 100) == count
    for wrong in ["0", "-1", "all", "1.5"]:
        monkeypatch.setenv("NNEFC_JOBS", wrong)
        with pytest.raises(NnefError, match="NNEFC_JOBS") as caught:
            machine(2, None, 100)
        assert caught.value.errors[0].rule == "input/environment"


def test_frozen_programs_start_no_workers(
    machine: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ["/opt/editor", "", None]:
        monkeypatch.setattr(sys, "executable", program)
        assert machine(2, None, 100) == 0
    monkeypatch.undo()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert machine(2, None, 100) == 0


def test_early_workers_end_when_no_unit_is_missing(
    pool: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have compiled the units that the workers were started for."""

    def is_missing(unit: CompileUnit, isa: object) -> bool:
        return True

    object_codes(SOURCES[:2])
    monkeypatch.setattr(kernel_compiler, "_is_missing", is_missing)
    started = len(pool)
    with kernel_compiler.compiled_early([*SOURCES[:1], *functions("executor")]):
        assert len(pool) == started + 2
        object_codes(SOURCES[:2])
        assert all(process.poll() is not None for process in pool)
