"""The executor and the thread team: every tile once, launches in order, errors, sharing."""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.ir import DType, Graph, TensorType
from nnefc.kernels.executor.call_status import LAUNCH, STATUS_BYTES
from nnefc.kernels.executor.team_state import MAX_TILES
from nnefc.kernels.vector.memory import LOAD, STORE, load_word
from nnefc.ops.tools.build import build
from nnefc.runtime.compile.kernel_compiler import compile_functions
from nnefc.runtime.machine.resources import usable_cpus
from nnefc.runtime.run.team import Team, shared_team, supports_threads

_load, _store = LOAD["int64"], STORE["int64"]

needs_threads = pytest.mark.skipif(not supports_threads(), reason="threads need Linux")


def mark(bases: int, params: int, first: int, last: int) -> None:
    """Tile t may run only if the launch before is complete: out[t] += 1 + sum of its marks."""
    out = load_word(bases + 16) + load_word(params)
    before = load_word(bases + 16) + load_word(params + 8)
    total = 0
    for i in range(load_word(params + 16)):
        total += _load(before, i)
    for t in range(first, last):
        _store(out, t, _load(out, t) + total + 1)


CODE = compile_functions([("mark", mark)])


class Plan:
    """Launches with random numbers of tiles, and their expected results."""

    def __init__(
        self, rng: random.Random, counts: Sequence[int] = (1, 1, 2, 3, 7, 30), most: int = 12
    ) -> None:
        while True:
            tiles = [rng.choice(counts) for _ in range(rng.randint(1, most))]
            expected: list[int] = []
            total = 0
            for count in tiles:
                expected += [total + 1] * count
                total = (total + 1) * count
            if total < 1 << 50:
                break
        starts = np.concatenate([[0], np.cumsum(tiles)])
        self.params = np.array(
            [
                [8 * starts[i], 8 * starts[i - 1] if i else 0, tiles[i - 1] if i else 0]
                for i in range(len(tiles))
            ],
            np.int64,
        )
        self.launches = np.array(
            [[CODE.symbols["mark"], 24 * i, count, 0] for i, count in enumerate(tiles)], np.int64
        )
        self.out = np.zeros(starts[-1], np.int64)
        self.expected = np.array(expected)
        addresses = [CODE.address, self.params.ctypes.data, self.out.ctypes.data]
        status = [0] * (STATUS_BYTES // 8)
        self.memory = np.array([*status, *addresses], np.int64)
        self.bases = self.memory[len(status) :]

    def run(self, on: Team, parallel: bool = True) -> bool:
        """Run the plan; returns whether every tile ran once and in order."""
        self.out[:] = 0
        on.run(self.launches.ctypes.data, len(self.launches), self.bases.ctypes.data, parallel)
        return bool((self.out == self.expected).all())


def test_one_thread_runs_every_tile_in_order() -> None:
    alone = Team(1)
    rng = random.Random(0)
    assert all(Plan(rng).run(alone) for _ in range(50))
    plan = Plan(rng)
    alone.run(plan.launches.ctypes.data, 0, plan.bases.ctypes.data)  # nothing to do
    assert not plan.out.any()


@needs_threads
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_a_launch_may_have_the_maximal_number_of_tiles(threads: int) -> None:
    rng, each = random.Random(2), Team(threads)
    plans = [Plan(rng, (511, 512, MAX_TILES - 1, MAX_TILES), 4) for _ in range(10)]
    assert all(plan.run(each) for plan in plans for _ in range(3))
    each.close()


def fail(bases: int, params: int, first: int, last: int) -> None:
    """Mark the tiles, and record an error."""
    out = load_word(bases + 16) + load_word(params)
    for t in range(first, last):
        _store(out, t, 1)
    _store(bases - STATUS_BYTES + LAUNCH, params)


FAILING = compile_functions([("fail", fail)])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_run_ends_after_the_launch_that_fails(threads: int) -> None:
    """All tiles of that launch run, no later launch does, and the team runs other plans."""
    each, rng = Team(threads), random.Random(3)
    for _ in range(50):
        tiles = [rng.choice((1, 2, 9, 40)) for _ in range(4)]
        starts = [sum(tiles[:i]) for i in range(4)]
        failing = rng.randrange(4)
        plan = Plan(rng)
        plan.out = np.zeros(sum(tiles), np.int64)
        plan.params = np.array([[8 * start, 0, 0] for start in starts], np.int64)
        offset = FAILING.entry("fail") - CODE.address
        kernels = [offset if i == failing else CODE.symbols["mark"] for i in range(4)]
        plan.launches = np.array([[kernels[i], 24 * i, tiles[i], 0] for i in range(4)], np.int64)
        plan.bases[1:] = plan.params.ctypes.data, plan.out.ctypes.data
        plan.expected = np.repeat([i <= failing for i in range(4)], tiles).astype(np.int64)
        assert plan.run(each)
        failed = plan.memory[LAUNCH // 8] - plan.params.ctypes.data
        assert failed == 24 * failing
        assert Plan(rng).run(each)
    each.close()


def wide() -> nnefc.Model:
    """A model that two threads share."""
    graph = Graph("wide")
    x = graph.add_input(TensorType(DType.FLOAT32, (1, 512, 1024)), "x")
    graph.add_output(build(graph, "exp", [build(graph, "sin", [x], {}).output], {}).output, "y")
    return nnefc.compile(graph, threads=2)


@needs_threads
def test_threads_take_tiles_from_both_ends() -> None:
    model = wide()
    profile = model.profile(np.zeros((1, 512, 1024), np.float32), seconds=0.2)
    assert max(launch.tiles for launch in model.launches) > 3
    shared = 0
    for run in range(profile.runs):
        for launch in range(profile.launches):
            tiles = profile.launch_of == launch
            mine = (profile.thread[run, tiles] == 0) & (profile.end[run, tiles] > 0)
            others = (profile.thread[run, tiles] == 1) & (profile.end[run, tiles] > 0)
            if mine.any() and others.any():
                shared += 1
                assert np.flatnonzero(mine).max() < np.flatnonzero(others).min()
    assert shared > 0


@needs_threads
def test_random_plans_by_several_callers_on_several_teams() -> None:
    """Teams larger than the machine, that sleep at once or spin for long."""
    rng = random.Random(1)
    teams = [Team(n, spins) for n in (2, 3, 5) for spins in (0, 50, 2000)]
    end = time.monotonic() + 3
    wrong: list[Plan] = []
    runs = [0] * 4

    def caller(seed: int) -> None:
        pick = random.Random(seed)
        plans = [Plan(pick) for _ in range(30)]
        while time.monotonic() < end and not wrong:
            plan = pick.choice(plans)
            if not plan.run(pick.choice(teams)):
                wrong.append(plan)
            runs[seed] += 1
            if pick.random() < 0.01:
                time.sleep(0.002)

    threads = [threading.Thread(target=caller, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(runs)
    for each in teams:
        each.close()
        assert Plan(rng).run(each)  # workers start again
        each.close()


@needs_threads
def test_a_team_of_two_starts_one_worker_for_all_runs() -> None:
    two = Team(2)
    plan = Plan(random.Random(3))
    for _ in range(200):
        assert plan.run(two)
    assert len(two._workers) == 1  # pyright: ignore[reportPrivateUsage]
    two.close()


def test_teams_are_shared_and_bounded() -> None:
    assert shared_team(2) is shared_team(2)
    assert Team(10_000).threads <= 65
    assert 1 <= usable_cpus() <= (os.cpu_count() or 1)


def test_the_executor_has_no_undefined_symbol_for_any_instruction_set() -> None:
    from nnefc.kernels.codegen.linker import link
    from nnefc.kernels.codegen.object_code import emit
    from nnefc.kernels.executor.executor import FUNCTIONS
    from nnefc.kernels.target.isa import TABLE

    for isa in TABLE.values():
        image = link([emit(function, symbol, isa) for symbol, function in FUNCTIONS])
        assert len(image.symbols) == len(FUNCTIONS)


def test_the_state_of_the_largest_team_fits_into_its_memory() -> None:
    from nnefc.kernels.executor import team_state as state

    offsets: dict[str, Any] = {k: v for k, v in vars(state).items() if isinstance(v, int)}
    words_of_workers, masks = 8 * state.MAX_WORKERS, state.MASK_BYTES * state.MAX_WORKERS
    assert state.TIDS + words_of_workers <= state.WORKER_STATUS
    assert state.WORKER_STATUS + words_of_workers <= state.MASKS
    assert state.MASKS + masks <= state.STATE_BYTES
    assert 1 << state.CPU_BITS == 8 * state.MASK_BYTES
    words = [offsets[k] for k in ("TICKET", "DONE", "WAKE", "FINISHED", "LAUNCHES", "STOP")]
    assert len({w // 128 for w in words}) == len(words)  # no false sharing
    assert ctypes.sizeof(ctypes.c_int64) == 8
