"""Teams in processes that fork, exit, are interrupted, or may use few processors."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Mapping

import pytest

from nnefc.runtime.machine.resources import usable_cpus
from tests.runtime.run.test_team import needs_threads


@needs_threads
def test_usable_cpus_follow_the_affinity_mask() -> None:
    script = """
        import os
        from nnefc.runtime.run.team import usable_cpus
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        assert usable_cpus() == 1
    """
    _run_in_forks({"one processor": script})


def _run_in_forks(scripts: Mapping[str, str], timeout: float = 100) -> None:
    """Run scripts in processes that have a team with a running worker (`t`) and a plan (`p`).

    One process imports what they need, and forks for each script.
    """
    forks = """
        import gc, json, os, random, signal, sys, threading, time
        from tests.runtime.run.test_team import Plan, Team
        statuses = {}
        for name, script in json.loads(sys.argv[1]).items():
            child = os.fork()
            if child == 0:
                p, t = Plan(random.Random(5)), Team(2)
                before = set(map(int, os.listdir("/proc/self/task")))
                assert p.run(t)
                exec(script)
                sys.exit()
            statuses[name] = os.waitpid(child, 0)[1]
        print(json.dumps(statuses))
    """
    text = json.dumps({name: textwrap.dedent(script) for name, script in scripts.items()})
    command = [sys.executable, "-c", textwrap.dedent(forks), text]
    done = subprocess.run(command, timeout=timeout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == dict.fromkeys(scripts, 0), done.stderr


LIVES = {
    "workers asleep at exit": "time.sleep(.1)",
    "workers spinning at exit": "p.run(t)",
    "another thread inside a run at exit": """
        threading.Thread(target=lambda: [p.run(t) for _ in range(10**7)], daemon=True).start()
        time.sleep(.05)
    """,
    "os._exit": "os._exit(0)",
    "interrupt during runs": """
        threading.Timer(.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            while True: p.run(t)
        except KeyboardInterrupt: assert p.run(t)
    """,
    "fork in a fork": """
        a = os.fork()
        b = os.fork()
        assert p.run(t)
        if b: assert os.waitpid(b, 0)[1] == 0
        if a and b: assert os.waitpid(a, 0)[1] == 0
    """,
    "fork while another thread is inside a run": """
        other = Plan(random.Random(6))
        thread = threading.Thread(target=lambda: [other.run(t) for _ in range(3000)])
        thread.start()
        time.sleep(.01)
        child = os.fork()
        if child == 0:
            os._exit(0 if p.run(t) else 1)
        assert os.waitpid(child, 0)[1] == 0
        thread.join()
    """,
    "a team that is dropped": "t.close(); del t; gc.collect()",
    "a team that is dropped without closing it": "del t; gc.collect(); time.sleep(.05)",
}


MASKS = {
    "all threads are narrowed": """
        for thread in [me, worker]: os.sched_setaffinity(thread, {one})
        runs()
        assert mask() == {one}, mask()
        for thread in [me, worker]: os.sched_setaffinity(thread, {one, other})
        runs()
        assert mask() == {one, other}, mask()
    """,
    "a worker is kept where the caller is not": """
        os.sched_setaffinity(worker, {other})
        os.sched_setaffinity(me, {one})
        runs()
        assert mask() == {other}, mask()
        os.sched_setaffinity(worker, {one})
        runs()
        assert mask() == {one}, mask()
    """,
    "what was steered comes back": """
        os.sched_setaffinity(worker, {one})
        steered(me, other)
        assert mask() == {one, other}, mask()
    """,
    "what was narrowed after it was steered does not": """
        for thread in [me, worker]: os.sched_setaffinity(thread, {one})
        steered(me, other)
        assert mask() == {one}, mask()
    """,
    "a worker woke it, which is kept elsewhere itself": """
        for thread in [me, worker]: os.sched_setaffinity(thread, {one})
        steered(worker, other)
        assert mask() == {one, other}, mask()
    """,
    "the thread that woke it is gone": """
        gone = threading.Thread(target=int)
        gone.start()
        gone.join()
        for thread in [me, worker]: os.sched_setaffinity(thread, {one})
        steered(gone.native_id, other)
        assert mask() == {one, other}, mask()
    """,
}


@needs_threads
@pytest.mark.skipif(usable_cpus() < 2, reason="needs two processors")
def test_affinity_masks_are_restored() -> None:
    head = """
        from nnefc.kernels.executor import team_state as state
        one, other, *_ = sorted(os.sched_getaffinity(0))
        me, [worker] = os.getpid(), set(map(int, os.listdir("/proc/self/task"))) - before
        mask = lambda: os.sched_getaffinity(worker)
        everything = os.sched_getaffinity(me)

        def asleep():
            while t._get(state.WORKER_STATUS) != state.ASLEEP or not t._get(state.SLEEPERS):
                time.sleep(.001)

        def runs():
            for _ in range(3):
                asleep()
                assert p.run(t)
            asleep()

        def steered(waker, cpu):
            "A run for which the worker is woken as if a thread had kept it from `cpu`."
            asleep()
            t._put(state.WORKER_STATUS, state.STEERED + (waker << state.CPU_BITS | cpu))
            assert p.run(t)
            asleep()

        runs()
        assert mask() == everything
    """
    head = textwrap.dedent(head)
    _run_in_forks({name: head + textwrap.dedent(script) for name, script in MASKS.items()})


@needs_threads
def test_processes_with_teams_fork_exit_and_handle_interrupts() -> None:
    _run_in_forks(LIVES)


@needs_threads
def test_idle_models_use_no_processor_time() -> None:
    """A thread that keeps spinning would use a whole second."""
    script = """
        import numpy as np
        from tests.runtime.run.test_team import shared_team, wide
        model, x = wide(), np.ones((1, 512, 1024), np.float32)
        y = model(x)
        assert shared_team(2)._workers
        for _ in range(2):
            time.sleep(.2)
            before = time.process_time()
            time.sleep(1)
            assert time.process_time() - before < .015
            assert (model(x) == y).all()
    """
    _run_in_forks({"idle": script})
