"""Loops pause, so that Python handles signals while they run."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.kernels.executor.call_status import CLOCK, PAUSED, STATUS_BYTES
from nnefc.kernels.vector.memory import LOAD, STORE
from nnefc.runtime.compile.kernel_compiler import compile_functions
from nnefc.runtime.run.team import Team
from tests.helpers.onnx.text_models import parsed
from tests.runtime.run.test_jumps import JumpingPlan, needs_threads

_load, _store = LOAD["int64"], STORE["int64"]

PATIENCE = 120


def leap(clock: int, timespec: int) -> int:
    """A clock that advances by a second whenever it is read."""
    _store(timespec, _load(timespec) + 1)
    return 0


CLOCKS = compile_functions([("leap", leap)])


class PausingPlan(JumpingPlan):
    """Pauses at every second jump backwards."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.table[CLOCK // 8] = CLOCKS.entry("leap")

    def run_to_pause(self, on: Team, parallel: bool) -> bool:
        """Run, or continue a run that has paused; returns whether it pauses."""
        bases = self.table[STATUS_BYTES // 8 :].ctypes.data
        on.run(self.launches.ctypes.data, len(self.launches), bases, parallel)
        assert self.table[0] in (0, PAUSED)
        return bool(self.table[0] == PAUSED)


@pytest.mark.parametrize("threads", [1, pytest.param(3, marks=needs_threads)])
def test_a_run_that_pauses_goes_on_where_it_was(threads: int) -> None:
    """It may go on alone or in a team; a team may run other plans in between."""
    team, rng, pauses = Team(threads), random.Random(6), 0
    for _ in range(200):
        plan, other = PausingPlan(rng), JumpingPlan(rng)
        plan.memory[:] = [0] * sum(plan.tiles) + plan.counters
        while plan.run_to_pause(team, parallel=threads > 1 and rng.random() < 0.8):
            pauses += 1
            assert other.run(team, parallel=threads > 1) == other.expected()
        assert plan.memory[: sum(plan.tiles)].tolist() == plan.expected()
    assert pauses > 100
    team.close()


COUNT = """(float[3] x, float last) => (float[3] y) {
  go = Constant <value = bool {1}> ()
  one = Constant <value = float {1}> ()
  y = Loop (, go, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t) {
    t = Add(s, one)
    most = ReduceMax <keepdims = 0> (t)
    d = Less(most, last)
  }>
}"""


@pytest.mark.slow
def test_results_of_a_loop_of_many_turns_do_not_depend_on_pauses(tmp_path: Path) -> None:
    """The first call is native and declined, the others pause and continue."""
    (tmp_path / "count.onnx").write_bytes(parsed(COUNT).SerializeToString())
    model, turns = nnefc.compile(tmp_path / "count.onnx", threads=1), 1000
    x = np.array([-5, 0, -7], np.float32)
    while turns < 2**24:  # exact in float32
        start = time.perf_counter()
        np.testing.assert_array_equal(model(x, np.float32(turns)), x + np.float32(turns))
        if time.perf_counter() - start > 0.4:
            break
        turns *= 4
    np.testing.assert_array_equal(model(x, np.float32(10)), x + np.float32(10))


ENDLESS = """(float[{items}] x, float[2] past) => (float[{items}] y, float[2] present) {{
  present = Add(past, past)
  go = Constant <value = bool {{1}}> ()
  last = Constant <value = float {{100}}> ()
  y = Loop (, go, x) <body = b (int64 i, bool c, float[{items}] s) => (bool d, float[{items}] t) {{
    t = Mul(s, s)
    size = Abs(t)
    most = ReduceMax <keepdims = 0> (size)
    d = Less(most, last)
  }}>
}}"""
"""Squares until an item is large: for ever, if none is larger than 1."""

INTERRUPT = """
    import os, signal, sys, threading, time
    import numpy as np
    import nnefc

    def interrupts(call):
        timer = threading.Timer(.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            call()
        except KeyboardInterrupt:
            return True
        finally:
            timer.join()

    folder, threads = sys.argv[1], int(sys.argv[2])
    past = np.ones(2, np.float32)

    def check(model, items):
        small, large = (np.full(items, value, np.float32) for value in (0, 20))
        for _ in range(2):  # a native call, if the model is small, and one that it has declined
            assert interrupts(lambda: model(small, past))
            y, present = model(large, past)
            assert (y == 400).all() and (present == 2).all()
        assert interrupts(lambda: model(small, past, out=(y, present)))

    model = nnefc.compile(f"{folder}/3.onnx", threads=threads)
    check(model, 3)
    check(nnefc.compile(f"{folder}/200000.onnx", threads=threads), 200000)
    model.save(f"{folder}/{threads}.nnefc")

    dynamic = nnefc.compile(f"{folder}/N.onnx", threads=threads)
    check(dynamic, 5)
    session = dynamic.session(states={"past": "present"})
    session.states["past"] = past
    session(np.full(4, 20, np.float32))
    assert interrupts(lambda: session(np.zeros(4, np.float32)))
    assert session.states["past"].tolist() == [2, 2]
    assert (session(np.full(4, 20, np.float32)) == 400).all()
    assert session.states["past"].tolist() == [4, 4]

    loop = threading.Thread(target=dynamic, args=(np.zeros(200000, np.float32), past), daemon=True)
    loop.start()
    assert interrupts(lambda: time.sleep(PATIENCE))  # calls of other threads go on
    assert loop.is_alive()
    assert (model(np.full(3, 20, np.float32), past)[0] == 400).all()
    print("ends")
"""

WITHOUT_COMPILER = """
    sys.modules["numba"] = sys.modules["llvmlite"] = None
    check(nnefc.load(f"{folder}/{threads}.nnefc"), 3)
    print("ends")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of `ENDLESS` by the number of items."""
    path = tmp_path_factory.mktemp("endless")
    for items in (3, 200000, "N"):
        model = parsed(ENDLESS.format(items=items))
        (path / f"{items}.onnx").write_bytes(model.SerializeToString())
    return path


def _run(script: str, folder: Path, threads: int) -> None:
    script = textwrap.dedent(script).replace("PATIENCE", str(PATIENCE))
    command = [sys.executable, "-c", script, str(folder), str(threads)]
    done = subprocess.run(command, timeout=PATIENCE, capture_output=True, text=True, check=False)
    assert done.stdout == "ends\n", done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=needs_threads)])
def test_an_interrupt_ends_a_loop_and_models_stay_usable(folder: Path, threads: int) -> None:
    _run(INTERRUPT, folder, threads)
    without = INTERRUPT[: INTERRUPT.index("    model = ")] + WITHOUT_COMPILER
    _run(without, folder, threads)


@pytest.mark.slow
def test_an_interrupt_ends_the_command(folder: Path) -> None:
    for name, value in (("x", np.zeros(3)), ("past", np.ones(2))):
        np.save(folder / f"{name}.npy", value.astype(np.float32))
    script = """
        import os, signal, sys, threading
        from nnefc.cli import main
        from nnefc.runtime.run.runner import PlanRunner

        def run_and_interrupt(*given, run=PlanRunner.run):
            threading.Timer(.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            run(*given)

        PlanRunner.run = run_and_interrupt
        main()
    """
    inputs = [part for name in ("x", "past") for part in ("-i", f"{name}={folder / name}.npy")]
    command = [sys.executable, "-c", textwrap.dedent(script), "run", str(folder / "3.onnx")]
    done = subprocess.run(
        [*command, *inputs], timeout=PATIENCE, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
