"""Kernels compiled by other processes, and by many threads of this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nnefc.errors import NnefError
from nnefc.kernels import codegen, template
from nnefc.kernels.executor import FUNCTIONS
from nnefc.kernels.isa import host
from nnefc.kernels.template import Kernel, KernelFunction, family
from nnefc.kernels.vector import lanes_of
from nnefc.runtime import compile_pool, objects
from nnefc.runtime.objects import Function, Source, key_of, object_code, object_codes
from tests.command_line import SMALL

SOURCES: list[Source] = [
    Kernel("elementwise.copy"),
    Kernel("blocked.zero_halo"),
    Function(*FUNCTIONS[0]),
    Kernel("movement.copy", (4,)),
]
"""Some that take little time."""
PATIENCE = 60
"""Seconds after which a test gives up."""


def emitted(source: Source) -> bytes:
    return codegen.emit(source.function(), source.symbol, host())


def name_of(source: Source) -> str:
    """Of its entry in the cache."""
    key = key_of(source, host())
    return key.name if key else ""


def apart(
    sources: list[Source], names: dict[Source, str] | None = None
) -> tuple[dict[Source, bytes], list[Source]]:
    """What two workers give, and of what they were said to be under way."""
    found: dict[Source, bytes] = {}
    begun: list[Source] = []
    if names is None:
        names = {source: name_of(source) for source in sources}
    compile_pool.compile_apart(names, {}, 2, host(), begin=begun.append, keep=found.__setitem__)
    return found, begun


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """This process knows no kernel and has workers for any; the processes that were started."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: Any, **options: Any) -> Any:
        process: Any = subprocess.Popen(*arguments, **options)
        started.append(process)
        return process

    class Spy:
        PIPE, DEVNULL, Popen = subprocess.PIPE, subprocess.DEVNULL, staticmethod(start)

    monkeypatch.setattr(objects, "_objects", {})
    monkeypatch.setattr(objects.cache, "find", lambda name: None)  # pyright: ignore
    monkeypatch.setattr(objects.cache, "keep", lambda name, code: None)  # pyright: ignore
    monkeypatch.setattr(compile_pool, "subprocess", Spy)
    monkeypatch.setattr(compile_pool, "_SHARE", 1e-9)
    monkeypatch.setenv("NNEFC_JOBS", "2")
    threads = threading.active_count()
    yield started
    assert all(process.returncode is not None for process in started)
    assert threading.active_count() == threads


def test_workers_give_what_this_process_gives() -> None:
    found, begun = apart(SOURCES)
    assert found == {source: emitted(source) for source in SOURCES}
    assert set(begun) <= set(SOURCES)


def test_what_others_cannot_know_is_left_to_this_process() -> None:
    mine = Kernel("test_compile_pool.mine", (lambda: None,))
    here = Kernel("elementwise.mine")
    family("elementwise.mine")(lambda: _nothing)
    other = Kernel("blocked.zero_halo")
    names = dict.fromkeys([mine, here, other], "a name that no worker finds")
    assert apart([], {**names, SOURCES[0]: name_of(SOURCES[0])})[0].keys() == {SOURCES[0]}


def _nothing(bases: int, params: int, first: int, last: int) -> None:
    pass


def test_a_call_uses_workers_for_what_they_can_do(
    pool: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    family("test_compile_pool.nothing")(lambda: _nothing)
    mine = Kernel("test_compile_pool.nothing")
    here: list[str] = []
    real = codegen.emit

    def emit(function: KernelFunction, symbol: str, isa: Any) -> bytes:
        here.append(symbol)
        return real(function, symbol, isa)

    monkeypatch.setattr(codegen, "emit", emit)
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
    assert {step[2] for step in steps[:-1]} <= {objects.label(s) for s in [mine, *SOURCES]}


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
def test_workers_that_do_not_work(
    pool: list[Any], program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_pool, "_command", lambda: [sys.executable, "-c", program])
    monkeypatch.setattr(compile_pool, "_PATIENCE", 0.5)
    assert object_codes(SOURCES) == [emitted(source) for source in SOURCES]
    assert len(pool) == 2


def test_a_worker_that_is_killed(pool: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter(range(100))

    def progress(done: int, total: int, label: str) -> None:
        if next(steps) == 0:
            pool[0].kill()

    assert object_codes(SOURCES, progress) == [emitted(source) for source in SOURCES]


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_workers_that_cannot_be_started(
    pool: list[Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command() -> list[str]:
        raise error

    monkeypatch.setattr(compile_pool, "_command", command)
    assert object_codes(SOURCES[:2]) == [emitted(source) for source in SOURCES[:2]]
    assert not pool


def test_an_error_of_the_caller_stops_the_workers(pool: list[Any]) -> None:
    def progress(done: int, total: int, label: str) -> None:
        raise KeyError(label)

    with pytest.raises(KeyError):
        object_codes(SOURCES, progress)
    assert len(pool) == 2
    assert len(object_codes(SOURCES[:1])) == 1


# -- relatives


RELATIVES = [Kernel("layout.unblock", (8,)), Kernel("softmax.rows", ("float32",))]


@pytest.fixture
def kept(pool: list[Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A cache with room for all, empty; copying has relatives, one of which does not compile."""
    entries: dict[str, bytes] = {}

    def keep(key: Any, code: bytes) -> None:
        entries[key.name] = code

    relatives = [*RELATIVES, SOURCES[1], Kernel("movement.copy", ("no size",))]
    assert Kernel("movement.copy", (4,)).relatives()  # which registers the family
    monkeypatch.setitem(template._relatives, "movement.copy", lambda itemsize: relatives)  # pyright: ignore
    monkeypatch.setattr(objects.cache, "serves", lambda: True)  # pyright: ignore
    monkeypatch.setattr(objects.cache, "find", lambda key: entries.get(key.name))  # pyright: ignore
    monkeypatch.setattr(objects.cache, "keep", keep)  # pyright: ignore
    return entries


def test_workers_compile_relatives_too(kept: dict[str, bytes]) -> None:
    steps: list[tuple[int, int, str]] = []

    def progress(done: int, total: int, label: str) -> None:
        steps.append((done, total, label))

    found = object_codes(SOURCES, progress)
    assert found == [emitted(source) for source in SOURCES]
    assert kept == {name_of(source): emitted(source) for source in [*SOURCES, *RELATIVES]}
    assert list(kept)[-1] in {name_of(relative) for relative in RELATIVES}
    assert {total for _, total, _ in steps} == {7}
    done = [step[0] for step in steps]
    assert done == sorted(done)
    assert steps[-1] == (7, 7, "")


def test_relatives_that_the_cache_has_are_left_alone(
    kept: dict[str, bytes], pool: list[Any]
) -> None:
    kept.update({name_of(relative): b"code" for relative in RELATIVES})
    object_codes(SOURCES)
    assert len(pool) == 2
    assert len(kept) == len(SOURCES) + len(RELATIVES)
    assert all(kept[name_of(relative)] == b"code" for relative in RELATIVES)


@pytest.mark.parametrize("reason", ["one job", "no cache", "another machine"])
def test_no_relatives(kept: dict[str, bytes], reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason == "one job":
        monkeypatch.setenv("NNEFC_JOBS", "1")
    elif reason == "no cache":
        monkeypatch.setattr(objects.cache, "serves", lambda: False)  # pyright: ignore
    else:
        monkeypatch.setattr(objects, "NATIVE", "")
    object_codes(SOURCES)
    assert kept.keys() == {name_of(source) for source in SOURCES}


def test_relatives_of_all_families_are_kernels() -> None:
    lanes = lanes_of("float32")
    kernels = [
        Kernel("direct.convolution", (3, 1, False)),
        Kernel("depthwise.convolution", (lanes, 1, 5, True)),
        Kernel("movement.copy", (4,)),
        Kernel("pooling.window", ("sum", lanes, None)),
        Kernel("winograd.transform_input", ((1, 7), 4)),
        Kernel("winograd.transform_output", ((1, 7), 4)),
    ]
    for kernel in kernels:
        relatives = kernel.relatives()
        assert relatives and kernel not in relatives
        for relative in relatives:
            assert key_of(relative, host()) is not None
            assert callable(relative.function())
    assert {kernel.family for kernel in kernels} >= template._relatives.keys()  # pyright: ignore


# -- how many


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`machine(cpus, bytes, kernels)`: how many workers there are then."""
    monkeypatch.delenv("NNEFC_JOBS", raising=False)

    def workers(cpus: int, free: int | None, kernels: int) -> int:
        monkeypatch.setattr("nnefc.runtime.team.usable_cpus", lambda: cpus)
        monkeypatch.setattr(compile_pool, "free_memory", lambda: free)
        return compile_pool.workers_for(Kernel("direct.convolution", (i,)) for i in range(kernels))

    return workers


def test_there_are_as_many_workers_as_pay(machine: Callable[..., int]) -> None:
    many = 1 << 40
    assert machine(8, many, 0) == 0
    assert machine(8, many, 1) == 0
    assert machine(1, many, 100) == 0
    assert machine(2, many, 100) == machine(2, None, 100) == 2
    assert machine(64, many, 200) == 64
    assert 2 < machine(64, many, 20) < 20
    assert machine(64, 1 << 30, 100) == 4
    assert machine(64, 1 << 20, 100) == 0


def test_the_user_says_how_many(
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


def test_programs_that_are_no_interpreter_are_not_started_again(
    machine: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ["/opt/editor", "", None]:
        monkeypatch.setattr(sys, "executable", program)
        assert machine(2, None, 100) == 0
    monkeypatch.undo()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert machine(2, None, 100) == 0


# -- whole processes

PROGRAM = """
import os, signal, sys, threading, time
from nnefc.kernels.template import Kernel
from nnefc.runtime import compile_pool
from nnefc.runtime.objects import object_codes

LARGE = [Kernel("direct.convolution", (n, 8, False)) for n in (1, 2)]
SMALL = [Kernel("elementwise.copy"), Kernel("blocked.zero_halo")]
start = compile_pool._Worker.start
def noted(worker, *given):
    print(worker._process.pid, flush=True)
    start(worker, *given)
compile_pool._Worker.start = noted
compile_pool._SHARE = 0.001
"""


def run(program: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + textwrap.dedent(program)],
        env={**os.environ, "NNEFC_CACHE": str(folder), "NNEFC_JOBS": "2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_an_interrupt_stops_the_workers_and_leaves_nothing(tmp_path: Path) -> None:
    program = """
        try:
            object_codes(LARGE)
        except KeyboardInterrupt:
            print("interrupted")
        try:
            print(os.waitpid(-1, os.WNOHANG))
        except ChildProcessError:
            print("no children")
        partial = [n for n in os.listdir(os.environ["NNEFC_CACHE"]) if not n.endswith(".kernel")]
        print(threading.active_count(), partial)
        print(len(object_codes(SMALL)), "numba" in sys.modules)
        """
    with run(program, tmp_path) as process:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(2)]
        assert all(line.strip().isdecimal() for line in first)
        os.killpg(process.pid, signal.SIGINT)  # as terminals do
        out, errors = process.communicate(timeout=PATIENCE)
    assert errors == ""
    lines = out.splitlines()
    assert lines[:3] == ["interrupted", "no children", "1 []"]
    assert lines[-1] == "2 False"  # by new workers
    assert process.returncode == 0


def test_workers_end_when_the_caller_is_killed(tmp_path: Path) -> None:
    with run("object_codes(LARGE)", tmp_path) as process:
        assert process.stdout is not None
        workers = [int(process.stdout.readline()) for _ in range(2)]
        process.kill()
    end = time.monotonic() + PATIENCE
    while any(map(_runs, workers)):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []


def test_what_models_need_beside_kernels_is_compiled_with_them(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(SMALL)
    program = f"""
        import numpy as np
        import nnefc
        model = nnefc.compile({str(tmp_path / "graph.nnef")!r}, random_weights=1, threads=2)
        model(np.ones((1, 3, 8, 8), np.float32))
        print("numba" in sys.modules)
        """
    with run(program, tmp_path / "cache") as process:
        out, errors = process.communicate(timeout=PATIENCE)
    assert errors == ""
    assert out.splitlines()[2:] == ["False"]


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # whoever adopts it may be slow


# -- threads


def in_threads(*calls: Callable[[], Any]) -> list[Any]:
    """What each gives or raises, all begun at the same time."""
    results: list[Any] = [None] * len(calls)
    barrier = threading.Barrier(len(calls))

    def work(i: int) -> None:
        barrier.wait()
        try:
            results[i] = calls[i]()
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return results


def fresh(count: int) -> list[Source]:
    """Functions that this process has not compiled."""
    return [Function(f"f{i}", lambda: None) for i in range(count)]


def test_threads_compile_everything_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def emit(function: Any, symbol: str, isa: Any) -> bytes:
        time.sleep(0.01)
        compiled.append(symbol)
        return symbol.encode()

    monkeypatch.setattr(codegen, "emit", emit)
    sources = fresh(12)
    parts = [sources[i % 4 : 12 - i % 3] for i in range(12)]
    results = in_threads(*(partial(object_codes, part) for part in parts))
    assert results == [[s.symbol.encode() for s in part] for part in parts]
    assert sorted(compiled) == sorted(s.symbol for s in sources)


def test_a_thread_waits_for_its_own_kernels_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = fresh(3)
    begun, go_on = threading.Event(), threading.Event()

    def emit(function: Any, symbol: str, isa: Any) -> bytes:
        if symbol == second.symbol:
            begun.set()
            assert go_on.wait(PATIENCE)
        return b"code"

    monkeypatch.setattr(codegen, "emit", emit)
    thread = threading.Thread(target=object_codes, args=([first, second, third],))
    thread.start()
    assert begun.wait(PATIENCE)
    assert object_code(first) == b"code"
    go_on.set()
    thread.join(PATIENCE)
    assert object_code(third) == b"code"


def test_what_one_thread_fails_at_another_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def emit(function: Any, symbol: str, isa: Any) -> bytes:
        time.sleep(0.05)
        tries.append(symbol)
        if len(tries) == 1:
            raise RuntimeError("the first try")
        return b"code"

    monkeypatch.setattr(codegen, "emit", emit)
    (source,) = fresh(1)
    results = in_threads(*[partial(object_code, source)] * 3)
    assert sum(isinstance(result, RuntimeError) for result in results) == 1
    assert results.count(b"code") == 2
    assert len(tries) == 2


def test_the_child_of_a_fork_waits_for_no_thread_of_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    parent = os.getpid()

    def emit(function: Any, symbol: str, isa: Any) -> bytes:
        if os.getpid() == parent:
            begun.set()
            assert go_on.wait(PATIENCE)
        return b"code"

    monkeypatch.setattr(codegen, "emit", emit)
    (source,) = fresh(1)
    thread = threading.Thread(target=object_code, args=(source,))
    thread.start()
    assert begun.wait(PATIENCE)
    child = os.fork()
    if not child:
        signal.alarm(PATIENCE)
        os._exit(0 if object_code(source) == b"code" else 1)
    go_on.set()
    thread.join(PATIENCE)
    assert os.waitpid(child, 0)[1] == 0
