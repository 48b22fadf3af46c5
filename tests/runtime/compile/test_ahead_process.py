"""The process that compiles kernels ahead, and its life beside its parent."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import nnefc.kernels
from nnefc.kernels import family
from nnefc.kernels.codegen import object_code
from nnefc.kernels.convolution import depthwise, direct, winograd
from nnefc.kernels.family import Kernel, KernelFunction
from nnefc.kernels.movement import strided, widen
from nnefc.kernels.reduce import softmax
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.code_results import Ending
from nnefc.kernels.tile.real_form import RealForm
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.window import pooling
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.cache.lru_folder import kernel_file_name
from nnefc.runtime.compile import start_python
from nnefc.runtime.compile.ahead_process import compile_missing
from nnefc.runtime.compile.compile_unit import key_of
from nnefc.runtime.compile.worker import pickled, write_message
from tests.helpers.cache.compile_ahead import (
    EXPECTED,
    RELATIVES,
    cached_in_memory,
    elsewhere,
    expected_kernels,
    wait_until,
)
from tests.helpers.cache.compile_pool import PATIENCE, emitted, name_of

KERNELS = Path(nnefc.kernels.__file__).parent


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """An empty cache in memory."""
    return cached_in_memory(monkeypatch)


def functions_of(kernel: Kernel, *functions: Callable[[], Iterable[Kernel]]) -> list[bytes]:
    """A request, as messages."""
    return [pickled(function) for function in [kernel.relatives, *functions]]


def broken() -> Iterator[Kernel]:
    yield EXPECTED[0]
    raise ValueError("no graph")


class Unreadable:
    """Can be pickled but not be read again."""

    def __reduce__(self) -> Any:
        return (int, ("no number",))


def test_relatives_are_compiled_before_expected_kernels(cached: dict[str, bytes]) -> None:
    """One relative does not compile."""
    compile_missing(functions_of(strided.copy(4), expected_kernels))
    assert list(cached) == [name_of(kernel) for kernel in [*RELATIVES, *EXPECTED]]
    assert cached[name_of(EXPECTED[0])] == emitted(EXPECTED[0])


def test_cached_kernels_are_not_compiled_again(cached: dict[str, bytes]) -> None:
    cached.update({name_of(kernel): b"code" for kernel in RELATIVES})
    compile_missing(functions_of(strided.copy(4)))
    assert set(cached.values()) == {b"code"}


def test_an_error_in_expected_kernels_ends_their_list_only(cached: dict[str, bytes]) -> None:
    compile_missing([pickled(broken), *functions_of(strided.copy(4))])
    assert cached.keys() == {name_of(kernel) for kernel in [EXPECTED[0], *RELATIVES]}


def test_an_error_in_relatives_does_not_lose_expected_kernels(
    cached: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strided.copy, "relatives", lambda itemsize: broken())  # pyright: ignore
    compile_missing(functions_of(strided.copy(4), expected_kernels))
    assert cached.keys() == {name_of(kernel) for kernel in EXPECTED}


@pytest.mark.parametrize("message", [b"", b"no pickle", pickle.dumps(Unreadable())])
def test_an_unreadable_message_does_not_lose_the_others(
    cached: dict[str, bytes], message: bytes
) -> None:
    compile_missing([message, *functions_of(strided.copy(4))])
    assert cached.keys() == {name_of(kernel) for kernel in RELATIVES}


def test_kernels_that_cannot_be_stored_are_not_compiled(
    cached: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def emit(function: KernelFunction, symbol: str, isa: Any) -> bytes:
        compiled.append(symbol)
        monkeypatch.setattr(kernel_cache, "is_writable", lambda: False)  # pyright: ignore
        return b"code"

    monkeypatch.setattr(object_code, "emit", emit)
    compile_missing([pickled(_uncacheable), *functions_of(strided.copy(4), expected_kernels)])
    assert compiled == [RELATIVES[0].symbol]


def _uncacheable() -> list[Kernel]:
    return [elsewhere(1)]


# -- beside its parent


PROGRAM = """
import os, sys, time
from functools import partial
from nnefc.kernels.elementwise import map as elementwise
from nnefc.kernels.movement import strided
from nnefc.kernels.reduce import softmax
from nnefc.runtime.compile import compile_ahead
from nnefc.runtime.compile.kernel_compiler import object_codes

def start_ahead(compiled, expected):
    with compile_ahead.compiling_ahead(expected):
        object_codes(compiled)
    while not compile_ahead._background._process:
        time.sleep(0.01)
    print(compile_ahead._background._process.pid, flush=True)

compile_ahead.cpu_quotas = lambda: []
kernels = partial(list, [strided.strided(4), softmax.rows("float32")])
start_ahead([elementwise.copy(), strided.transpose(4)], {expected})
{then}
"""
ENDLESS = "partial(time.sleep, 1000)"
SLEEP = "time.sleep(1000)"


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Program(NamedTuple):
    """A program that compiles kernels, and the process that compiles further ones for it."""

    process: subprocess.Popen[str]
    ahead: int

    def number(self) -> int:
        """The next line that the program prints."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())


@contextmanager
def started(folder: Path, then: str = SLEEP, expected: str = "kernels") -> Generator[Program]:
    """Start the program; `then`: what it does while the process compiles ahead."""
    environment = {**os.environ, "NNEFC_CACHE": str(folder), "NNEFC_AHEAD": "on"}
    program = PROGRAM.format(then=then, expected=expected)
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield Program(process, int(process.stdout.readline()))
        finally:
            process.kill()


def test_the_process_stores_kernels_at_the_lowest_priority(tmp_path: Path) -> None:
    kernels = [strided.strided(4), softmax.rows("float32")]
    names = [kernel_file_name(name_of(kernel)) for kernel in kernels]
    with started(tmp_path) as program:
        wait_until(lambda: all(list(tmp_path.rglob(name)) for name in names))
        wait_until(lambda: not Path(f"/proc/{program.ahead}").exists())  # no zombie is left
        assert is_running(program.process.pid)
    with started(tmp_path / "other", expected=ENDLESS) as program:
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, program.ahead) == 19)
        wait_until(lambda: os.sched_getscheduler(program.ahead) == os.SCHED_IDLE)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_process_ends_with_its_parent(tmp_path: Path, sent: signal.Signals) -> None:
    with started(tmp_path, expected=ENDLESS) as program:
        program.process.send_signal(sent)
        program.process.wait()
        wait_until(lambda: not is_running(program.ahead))


@pytest.mark.parametrize(
    "then", ["input()", "input(); compile_ahead.switch_off(); time.sleep(1000)"]
)
def test_the_process_is_killed_when_the_program_ends_or_switches_it_off(
    tmp_path: Path, then: str
) -> None:
    """A stopped process cannot see the end of its parent."""
    with started(tmp_path, then, ENDLESS) as program:
        os.kill(program.ahead, signal.SIGSTOP)
        assert program.process.stdin is not None
        program.process.stdin.write("\n")
        program.process.stdin.flush()
        if "switch_off" not in then:
            assert program.process.wait(PATIENCE) == 0
        wait_until(lambda: not Path(f"/proc/{program.ahead}").exists())


def test_a_process_whose_parent_has_ended_already_ends(tmp_path: Path) -> None:
    with tempfile.TemporaryFile() as file:
        write_message(file, b"%d" % (os.getpid() + 1))
        write_message(file, pickle.dumps(partial(time.sleep, 1000)))
        file.seek(0)
        process = start_python.start(
            "nnefc.runtime.compile.ahead_process", host(), file, subprocess.DEVNULL
        )
    try:
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()


def test_a_fork_leaves_the_process_to_its_parent_and_starts_its_own(tmp_path: Path) -> None:
    then = """
if not os.fork():
    compile_ahead._background.close()
    sys.exit()
os.wait()
if not os.fork():
    start_ahead([strided.transpose(8), strided.strided(8)], kernels)
    sys.exit()
os.wait()
print(0, flush=True)
input()
"""
    with started(tmp_path, then, ENDLESS) as program:
        own = program.number()
        assert own and own != program.ahead
        assert program.number() == 0
        assert is_running(program.ahead)


# -- relatives


def test_relatives_of_all_families_are_kernels() -> None:
    lanes = lanes_of("float32")
    kernels = [
        direct.convolution("float32", "float32", 3, channels=1),
        depthwise.convolution("float32", "float32", lanes, 1, 5, RealForm(residual="float32")),
        strided.copy(4),
        pooling.window("sum", "float32", "float32", lanes, None),
        pooling.code_sums("uint8", lanes, None),
        widen.planes("uint8"),
        winograd.transform_input("float32", "float32", (1, 7), 4),
        winograd.transform_output("float32", (1, 7), 4),
        winograd.transform_input("uint8", "int16", (1, 3), 4),
        winograd.transform_output("int16", (1, 3), 4, ending=Ending("sums", "int32")),
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
    families = family._families.values()  # pyright: ignore
    have_relatives = {family.name for family in families if family.relatives is not None}
    assert {kernel.family for kernel in kernels} >= have_relatives
