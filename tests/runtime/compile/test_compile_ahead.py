"""Requests to compile kernels ahead, after the call that compiled others."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from nnefc.kernels.family import Kernel
from nnefc.kernels.movement import strided
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.compile import compile_ahead, kernel_compiler, start_python
from nnefc.runtime.compile.compile_ahead import compiling_ahead
from nnefc.runtime.compile.compile_unit import CompileUnit
from nnefc.runtime.compile.kernel_compiler import object_codes
from tests.helpers.cache.compile_ahead import (
    EXPECTED,
    RELATIVES,
    Process,
    cached_in_memory,
    elsewhere,
    expected_kernels,
    join,
    one_started,
    wait_until,
    watched_processes,
)
from tests.helpers.cache.compile_pool import PATIENCE, SOURCES, name_of


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """An empty cache in memory."""
    return cached_in_memory(monkeypatch)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Process]]:
    """The processes that would be started, one at a time."""
    yield from watched_processes(monkeypatch)


def compile_sources(sources: Sequence[CompileUnit] = SOURCES) -> None:
    with compiling_ahead(expected_kernels):
        object_codes(sources)


def kernels_of(functions: Iterable[bytes]) -> list[Kernel]:
    return [kernel for function in functions for kernel in pickle.loads(function)()]


def test_a_call_compiles_only_what_it_was_asked_for(cached: dict[str, bytes]) -> None:
    totals: set[int] = set()
    object_codes(SOURCES, lambda done, total, label: totals.add(total))
    assert cached.keys() == {name_of(source) for source in SOURCES}
    assert totals == {len(SOURCES)}


def test_a_process_gets_the_relatives_and_the_expected_kernels_after_the_block(
    cached: dict[str, bytes], processes: list[Process]
) -> None:
    with compiling_ahead(expected_kernels):
        object_codes(SOURCES)
        assert compile_ahead._background._thread is None  # pyright: ignore
    functions = one_started(processes)
    assert processes[0].request[0] == str(os.getpid()).encode()
    compiled = [source for source in SOURCES if isinstance(source, Kernel)]
    relatives = [pickle.dumps(kernel.relatives) for kernel in compiled]
    assert functions == [*relatives, pickle.dumps(expected_kernels)]


def test_the_call_returns_before_the_process_starts(
    cached: dict[str, bytes], processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    start, returned = start_python.start, threading.Event()

    def slow(*arguments: Any) -> Any:
        assert returned.wait(PATIENCE)
        return start(*arguments)

    monkeypatch.setattr(start_python, "start", slow)
    compile_sources()
    assert not processes
    returned.set()
    assert one_started(processes)


def hinder(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent compilation ahead for this reason."""
    match reason:
        case "no cache":
            monkeypatch.setattr(kernel_cache, "is_writable", lambda: False)  # pyright: ignore
        case "another machine":
            monkeypatch.setattr(compile_ahead, "NATIVE", "")
        case "little memory":
            monkeypatch.setattr(compile_ahead, "free_memory", lambda: 300 << 20)
        case "quota":
            monkeypatch.setattr(compile_ahead, "cpu_quotas", lambda: iter([4.0]))
        case _:
            monkeypatch.setattr(sys, "frozen", True, raising=False)


@pytest.mark.parametrize(
    "reason", ["no cache", "another machine", "little memory", "quota", "frozen program"]
)
def test_no_process_is_started_in_vain(
    cached: dict[str, bytes],
    processes: list[Process],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hinder(reason, monkeypatch)
    compile_sources()
    join()
    assert cached
    assert not processes


@pytest.mark.parametrize("by", ["variable", "function"])
def test_nothing_is_recorded_while_switched_off(
    cached: dict[str, bytes],
    processes: list[Process],
    by: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The setting is that of the time before the block."""
    if by == "variable":
        monkeypatch.setenv("NNEFC_AHEAD", "OFF")
    else:
        compile_ahead.switch_off()
    with compiling_ahead(expected_kernels):
        object_codes(SOURCES)
        assert kernel_compiler._recorded.get() is None  # pyright: ignore
        monkeypatch.setenv("NNEFC_AHEAD", "on")
    join()
    assert cached
    assert not processes


def test_no_process_is_started_for_cached_kernels_or_a_single_one(
    cached: dict[str, bytes], processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_sources(SOURCES[:1])
    join()
    assert not processes
    compile_sources()
    one_started(processes)
    monkeypatch.setattr(kernel_compiler, "_objects", {})
    compile_sources()
    join()
    assert len(processes) == 1


def test_no_process_is_started_for_kernels_that_cannot_be_cached(
    cached: dict[str, bytes], processes: list[Process]
) -> None:
    uncacheable = [elsewhere(1), elsewhere(2)]
    assert not any(map(name_of, uncacheable))
    compile_sources([*uncacheable, SOURCES[0]])
    join()
    assert len(cached) == 1
    assert not processes


def test_no_process_is_started_after_an_error(
    cached: dict[str, bytes], processes: list[Process]
) -> None:
    with pytest.raises(KeyError), compiling_ahead(expected_kernels):
        object_codes(SOURCES)
        raise KeyError
    join()
    assert not processes


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("what", ["process", "file", "thread"])
def test_what_cannot_be_started_is_no_error(
    cached: dict[str, bytes],
    processes: list[Process],
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A later call tries again."""

    def start(*_: Any, **__: Any) -> None:
        raise RuntimeError if what == "thread" else OSError

    with monkeypatch.context() as patch:
        match what:
            case "process":
                patch.setattr(start_python, "start", start)
            case "file":
                patch.setattr("tempfile.TemporaryFile", start)
            case _:
                patch.setattr(threading.Thread, "start", start)
        compile_sources([strided.transpose(8), strided.strided(8)])
        if what != "thread":
            join()
    assert not processes
    compile_sources()
    assert one_started(processes)


def test_requests_while_a_process_runs_share_the_next_one(
    cached: dict[str, bytes], processes: list[Process]
) -> None:
    second, third = [strided.transpose(8), strided.strided(8)], [*RELATIVES]
    compile_sources()
    wait_until(lambda: bool(processes))
    compile_sources(second)
    compile_sources(third)
    assert len(processes) == 1
    assert not processes[0].killed
    processes[0].end.set()
    wait_until(lambda: len(processes) == 2)
    processes[1].end.set()
    join()
    _, *functions = processes[1].request
    assert sorted(functions) == sorted(
        pickle.dumps(each)
        for each in [expected_kernels, *(kernel.relatives for kernel in [*second, *third])]
    )
    assert len(processes) == 2


def test_what_cannot_be_pickled_does_not_lose_the_rest(
    cached: dict[str, bytes], processes: list[Process]
) -> None:
    with compiling_ahead(lambda: EXPECTED):
        object_codes(SOURCES)
    assert kernels_of(one_started(processes)) == [
        relative
        for source in SOURCES
        if isinstance(source, Kernel)
        for relative in source.relatives()
    ]


def test_closing_kills_the_process_and_drops_requests_without_waiting(
    cached: dict[str, bytes], processes: list[Process]
) -> None:
    compile_sources()
    wait_until(lambda: bool(processes))
    compile_sources([strided.transpose(8), strided.strided(8)])
    compile_ahead.switch_off()
    assert processes[0].killed
    join()
    assert len(processes) == 1


def test_a_process_that_starts_while_the_program_ends_is_killed(
    cached: dict[str, bytes], processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = start_python.start

    def closing(*arguments: Any) -> Any:
        compile_ahead.switch_off()
        return start(*arguments)

    monkeypatch.setattr(start_python, "start", closing)
    compile_sources()
    join()
    assert processes[0].killed
