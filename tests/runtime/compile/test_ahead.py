"""Kernels that later models are likely to need are compiled after a call, by one process."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import nnefc.kernels
from nnefc import NnefError
from nnefc.driver import typical_graphs
from nnefc.driver.lower import lower_graph
from nnefc.driver.sketch import Sketch
from nnefc.ir import Graph
from nnefc.kernels import template
from nnefc.kernels.convolution import depthwise, direct, winograd
from nnefc.kernels.movement import layout, strided
from nnefc.kernels.reduce import softmax
from nnefc.kernels.target.isa import host
from nnefc.kernels.template import Kernel
from nnefc.kernels.vector.builder import lanes_of
from nnefc.kernels.window import pooling
from nnefc.options.compile_config import CompileConfig
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.cache.lru_folder import kernel_file_name
from nnefc.runtime.compile import ahead, interpreter, kernel_compiler
from nnefc.runtime.compile.ahead import Request, compiling_ahead
from nnefc.runtime.compile.ahead_process import compile_missing
from nnefc.runtime.compile.kernel_compiler import object_codes
from nnefc.runtime.compile.unit import CompileUnit, key_of
from tests.helpers.cache.compile_pool import PATIENCE, SOURCES, emitted, name_of

KERNELS = Path(nnefc.kernels.__file__).parent
RELATIVES = [layout.unblock("float32", lanes=8), softmax.rows("float32")]
EXPECTED = [strided.strided(4), strided.transpose(4)]


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """An empty cache in memory; no kernel is compiled, and `copy` has relatives."""
    entries: dict[str, bytes] = {}

    def store(key: Any, code: bytes) -> None:
        entries[key.name] = code

    relatives = [*RELATIVES, Kernel(strided.copy.name, ("no size",))]
    monkeypatch.setattr(strided.copy, "relatives", lambda itemsize: relatives)  # pyright: ignore
    monkeypatch.setattr(kernel_compiler, "_objects", {})
    monkeypatch.setattr(kernel_cache, "is_writable", lambda: True)  # pyright: ignore
    monkeypatch.setattr(kernel_cache, "load_kernel", lambda key: entries.get(key.name))  # pyright: ignore
    monkeypatch.setattr(kernel_cache, "store_kernel", store)  # pyright: ignore
    return entries


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Request]]:
    """The requests to processes that would be started; no process is."""
    found: list[Request] = []

    class Process:
        """A process that runs until it is killed."""

        returncode: int | None = None

        def poll(self) -> int | None:
            return self.returncode

        def kill(self) -> None:
            self.returncode = -9

        def wait(self) -> None:
            assert self.returncode is not None

    def start(module: str, isa: Any, stdin: Any, stdout: int) -> Process:
        assert module == "nnefc.runtime.compile.ahead_process"
        found.append(pickle.load(stdin))
        return Process()

    monkeypatch.setenv("NNEFC_AHEAD", "on")
    monkeypatch.setattr(interpreter, "start", start)
    yield found
    ahead.stop()


def expected_kernels() -> list[Kernel]:
    return EXPECTED


def compile_sources(sources: Sequence[CompileUnit] = SOURCES) -> None:
    with compiling_ahead(expected_kernels):
        object_codes(sources)


def test_a_call_compiles_only_what_it_was_asked_for(cached: dict[str, bytes]) -> None:
    totals: set[int] = set()
    object_codes(SOURCES, lambda done, total, label: totals.add(total))
    assert cached.keys() == {name_of(source) for source in SOURCES}
    assert totals == {len(SOURCES)}


def test_a_process_gets_the_compiled_kernels_after_the_block(
    cached: dict[str, bytes], requests: list[Request]
) -> None:
    with compiling_ahead(expected_kernels):
        object_codes(SOURCES)
        assert not requests
    (request,) = requests
    assert request.parent == os.getpid()
    assert request.compiled == [source for source in SOURCES if isinstance(source, Kernel)]
    assert request.expected() == EXPECTED


def hinder(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent compilation ahead for this reason."""
    match reason:
        case "off":
            monkeypatch.setenv("NNEFC_AHEAD", "OFF")
        case "no cache":
            monkeypatch.setattr(kernel_cache, "is_writable", lambda: False)  # pyright: ignore
        case "another machine":
            monkeypatch.setattr(ahead, "NATIVE", "")
        case "little memory":
            monkeypatch.setattr(ahead, "free_memory", lambda: 300 << 20)
        case _:
            monkeypatch.setattr(sys, "frozen", True, raising=False)


@pytest.mark.parametrize(
    "reason", ["off", "no cache", "another machine", "little memory", "frozen program"]
)
def test_no_process_is_started_in_vain(
    cached: dict[str, bytes],
    requests: list[Request],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hinder(reason, monkeypatch)
    compile_sources()
    assert cached
    assert not requests


def test_no_process_is_started_for_cached_kernels_or_a_single_one(
    cached: dict[str, bytes], requests: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_sources(SOURCES[:1])
    assert not requests
    compile_sources()
    assert len(requests) == 1
    monkeypatch.setattr(kernel_compiler, "_objects", {})
    compile_sources()
    assert len(requests) == 1


def test_no_process_is_started_after_an_error(
    cached: dict[str, bytes], requests: list[Request]
) -> None:
    with pytest.raises(KeyError), compiling_ahead(expected_kernels):
        object_codes(SOURCES)
        raise KeyError
    assert not requests


def test_a_process_that_cannot_start_is_no_error(
    cached: dict[str, bytes], requests: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: Any) -> None:
        raise OSError("out of processes")

    monkeypatch.setattr(interpreter, "start", start)
    compile_sources()
    assert cached


def test_a_later_process_takes_over_the_kernels_of_one_that_still_runs(
    cached: dict[str, bytes], requests: list[Request]
) -> None:
    further = [strided.transpose(8), strided.strided(8)]
    compile_sources(SOURCES)
    compile_sources(further)
    first, second = requests
    assert second.compiled == [*first.compiled, *further]


def test_a_wrong_setting_is_an_error_before_anything_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NNEFC_AHEAD", "later")
    with pytest.raises(NnefError, match="NNEFC_AHEAD is 'later'") as caught:
        nnefc.compile(of_one_op("sqrt"))
    assert caught.value.errors[0].rule == "input/environment"


# -- the process


def request(compiled: Sequence[Kernel], expected: Callable[[], Iterable[Kernel]]) -> Request:
    return Request(os.getpid(), list(compiled), expected)


def test_relatives_are_compiled_before_expected_kernels(cached: dict[str, bytes]) -> None:
    """One relative does not compile."""
    compile_missing(request([strided.copy(4)], expected_kernels))
    assert list(cached) == [name_of(kernel) for kernel in [*RELATIVES, *EXPECTED]]
    assert cached[name_of(EXPECTED[0])] == emitted(EXPECTED[0])


def test_cached_kernels_are_not_compiled_again(cached: dict[str, bytes]) -> None:
    cached.update({name_of(kernel): b"code" for kernel in RELATIVES})
    compile_missing(request([strided.copy(4)], lambda: []))
    assert set(cached.values()) == {b"code"}


def test_an_error_in_expected_kernels_ends_their_list(cached: dict[str, bytes]) -> None:
    def expected() -> Iterator[Kernel]:
        yield EXPECTED[0]
        raise ValueError("no graph")

    compile_missing(request([], expected))
    assert cached.keys() == {name_of(EXPECTED[0])}


PROGRAM = """
import os, sys, time
from functools import partial
from nnefc.kernels.elementwise import map as elementwise
from nnefc.kernels.movement import strided
from nnefc.kernels.reduce import softmax
from nnefc.runtime.compile import ahead
from nnefc.runtime.compile.kernel_compiler import object_codes

kernels = partial(list, [strided.strided(4), softmax.rows("float32")])
with ahead.compiling_ahead({expected}):
    object_codes([elementwise.copy(), strided.transpose(4)])
print(ahead._state.process.pid, flush=True)
{then}
"""
ENDLESS = "partial(time.sleep, 1000)"


def wait_until(holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def started(
    folder: Path, then: str, expected: str = "kernels"
) -> Generator[tuple[subprocess.Popen[str], int]]:
    """A program that compiles kernels, and the process that compiles further ones for it."""
    environment = {**os.environ, "NNEFC_CACHE": str(folder), "NNEFC_AHEAD": "on"}
    program = PROGRAM.format(then=then, expected=expected)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_the_process_stores_kernels_at_the_lowest_priority(tmp_path: Path) -> None:
    with started(tmp_path, "time.sleep(1000)") as (_, pid):
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, pid) == 19)
        kernels = [strided.strided(4), softmax.rows("float32")]
        names = [kernel_file_name(name_of(kernel)) for kernel in kernels]
        wait_until(lambda: all(list(tmp_path.rglob(name)) for name in names))


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, None])
def test_the_process_ends_with_its_parent(tmp_path: Path, sent: signal.Signals | None) -> None:
    with started(tmp_path, "time.sleep(1000)" if sent else "", ENDLESS) as (process, pid):
        if sent:
            process.send_signal(sent)
        process.wait()
        wait_until(lambda: not is_running(pid))


def test_a_fork_leaves_the_process_to_its_parent(tmp_path: Path) -> None:
    then = "if not os.fork(): sys.exit()\nos.wait(); print('end', flush=True); input()"
    with started(tmp_path, then, ENDLESS) as (process, pid):
        assert process.stdout is not None
        assert process.stdout.readline() == "end\n"
        assert is_running(pid)


# -- relatives


def test_relatives_of_all_families_are_kernels() -> None:
    lanes = lanes_of("float32")
    kernels = [
        direct.convolution("float32", "float32", 3, channels=1),
        depthwise.convolution("float32", "float32", lanes, 1, taps=5, residual=True),
        strided.copy(4),
        pooling.window("sum", "float32", "float32", lanes, None),
        winograd.transform_input("float32", "float32", (1, 7), 4),
        winograd.transform_output("float32", (1, 7), 4),
    ]
    for kernel in kernels:
        relatives = kernel.relatives()
        assert relatives and kernel not in relatives
        for relative in relatives:
            assert key_of(relative, host()) is not None
            assert callable(relative.function())
    for path in KERNELS.rglob("*.py"):
        module = path.relative_to(KERNELS).with_suffix("")
        import_module(".".join(("nnefc", "kernels", *module.parts)).removesuffix(".__init__"))
    families = template._families.values()  # pyright: ignore
    have_relatives = {family.name for family in families if family.relatives is not None}
    assert {kernel.family for kernel in kernels} >= have_relatives


# -- models


def of_one_op(name: str) -> Graph:
    sketch = Sketch(name)
    sketch.op(name, sketch.input(4, 64))
    return sketch.finish()


def of_two_kernels() -> Graph:
    sketch = Sketch("two")
    sketch.op("transpose", sketch.op("softmax", sketch.input(4, 64)), axes=(1, 0))
    return sketch.finish()


def usual() -> Iterator[Graph]:
    yield of_one_op("exp")
    raise NnefError.of("internal/ir", "a graph that cannot be made")


(USUAL,) = lower_graph(of_one_op("exp"), CompileConfig(1)).kernels


def test_compiling_a_graph_is_followed_by_kernels_of_the_usual_graphs(
    cached: dict[str, bytes], requests: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph that cannot be built ends the list without an error."""
    monkeypatch.setattr(typical_graphs, "usual_graphs", usual)
    nnefc.compile(of_two_kernels(), threads=1)
    assert name_of(USUAL) not in cached
    compile_missing(pickle.loads(pickle.dumps(requests[0])))
    assert name_of(USUAL) in cached


def test_compiling_a_cached_model_is_followed_by_kernels_of_the_usual_graphs(
    cached: dict[str, bytes],
    requests: list[Request],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(typical_graphs, "usual_graphs", usual)
    monkeypatch.setattr("nnefc.model_cache.entry.LEAST_BYTES", 0)
    monkeypatch.setenv("NNEFC_CACHE", str(tmp_path / "cache"))
    archive = tmp_path / "two.tgz"
    nnefc.save_archive(archive, of_two_kernels())
    nnefc.compile(archive, threads=1)
    assert any((tmp_path / "cache").rglob("*"))
    compile_missing(requests[0])
    assert name_of(USUAL) in cached


def test_dumps_of_passes_exclude_the_usual_graphs(
    cached: dict[str, bytes],
    requests: list[Request],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(typical_graphs, "usual_graphs", usual)
    monkeypatch.setenv("NNEFC_DUMP", str(tmp_path / "dump"))
    nnefc.compile(of_two_kernels(), threads=1)
    compile_missing(requests[0])
    dumped = [file.read_text() for file in (tmp_path / "dump").iterdir()]
    assert dumped
    assert all("graph two" in text for text in dumped)
    assert name_of(USUAL) not in cached
