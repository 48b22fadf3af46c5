"""The kernel compiler, with several threads and processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nnefc.kernels.codegen import object_code as codegen
from nnefc.runtime.compile.compile_unit import CompileUnit, Function
from nnefc.runtime.compile.kernel_compiler import object_code, object_codes
from tests.helpers.cache.compile_pool import PATIENCE
from tests.helpers.command_line import SMALL

# -- whole processes

PROGRAM = """
import os, signal, sys, threading, time
from nnefc.kernels.convolution import direct
from nnefc.kernels.elementwise import map as elementwise
from nnefc.kernels.tile import zero_halo as halo
from nnefc.runtime.compile import worker_pool as compile_pool
from nnefc.runtime.compile.kernel_compiler import object_codes

LARGE = [direct.convolution("float32", "float32", n, 8) for n in (1, 2)]
SMALL = [elementwise.copy(), halo.zero_halo()]
start = compile_pool._Worker.start
def noted(worker, *given):
    print(worker._process.pid, flush=True)
    start(worker, *given)
compile_pool._Worker.start = noted
compile_pool._MIN_WORKER_SECONDS = 0.001
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
        import time
        end = time.monotonic() + 10  # threads that read from workers end with the workers' pipes
        while threading.active_count() > 1 and time.monotonic() < end:
            time.sleep(0.01)
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
    files = list(tmp_path.iterdir())
    assert [file for file in files if file.suffix != ".lock" or file.stat().st_size] == []


def test_support_code_is_compiled_with_the_kernels(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(SMALL)
    program = f"""
        import numpy as np
        import nnefc
        from nnefc.driver import typical_graphs as typical
        typical.usual_graphs = list  # which take long
        model = nnefc.compile({str(tmp_path / "graph.nnef")!r}, random_weights=1, threads=2)
        for _ in range(3):
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
    """The results or exceptions of functions that start at the same time."""
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


def fresh(count: int) -> list[CompileUnit]:
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


def test_a_thread_waits_only_for_its_own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_another_thread_retries_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_forked_child_waits_for_no_thread_of_its_parent(
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


def test_workers_start_before_the_block_only_if_the_executor_is_missing(tmp_path: Path) -> None:
    program = """
        from nnefc.runtime.compile.kernel_compiler import compiled_early
        from nnefc.runtime.compile.support_code import functions
        for _ in range(2):
            with compiled_early(functions("executor")):
                print("block", flush=True)
                object_codes([*LARGE, *functions("executor")])
        """
    for count in (2, 0):
        with run(program, tmp_path) as process:
            out, errors = process.communicate(timeout=PATIENCE)
        assert errors == ""
        lines = out.splitlines()
        assert lines.index("block") == count
        assert len(lines) == count + 2
