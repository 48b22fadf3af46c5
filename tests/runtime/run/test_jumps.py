"""Jumps in plans, against a walk over the plan in Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nnefc.kernels.executor.call_status import LAUNCH, STATUS_BYTES, jump_status
from nnefc.kernels.vector.memory import LOAD, STORE, load_word
from nnefc.runtime.compile.kernel_compiler import compile_functions
from nnefc.runtime.run.team import Team, supports_threads

_load, _store = LOAD["int64"], STORE["int64"]

needs_threads = pytest.mark.skipif(not supports_threads(), reason="threads need Linux")


def count_down(bases: int, params: int, first: int, last: int) -> None:
    """Count a visit of each tile; jump as long as a counter is not 0."""
    memory = load_word(bases + 16)
    visits, counter = memory + load_word(params), memory + load_word(params + 8)
    for tile in range(first, last):
        _store(visits, tile, _load(visits, tile) + 1)
    status, left = load_word(params + 16), _load(counter)
    if status != 0 and left > 0:
        _store(counter, left - 1)
        _store(bases - STATUS_BYTES + LAUNCH, status)


JUMPS = compile_functions([("count_down", count_down)])


class JumpingPlan:
    """Launches with marks; those with one tile may jump a few times, forwards or backwards.

    Words of memory: the visits of each tile, then a counter for each launch.
    """

    def __init__(self, rng: random.Random) -> None:
        count = rng.randint(2, 10)
        self.tiles = [rng.choice((1, 1, 2, 5)) for _ in range(count)]
        self.marks = [rng.choice((0, 1, 2)) for _ in range(count)]
        self.counters = [rng.randint(0, 3) for _ in range(count)]
        self.jumps = [self._jump(rng, at) for at in range(count)]
        starts = np.cumsum([0, *self.tiles])
        status = [
            0 if jump is None else jump_status(jump[0], backwards=jump[1]) for jump in self.jumps
        ]
        self.params = np.array(
            [[8 * starts[i], 8 * (starts[-1] + i), status[i]] for i in range(count)], np.int64
        )
        rows = zip(self.tiles, self.marks, strict=True)
        code = JUMPS.symbols["count_down"]
        self.launches = np.array([[code, 24 * i, *row] for i, row in enumerate(rows)], np.int64)
        self.memory = np.zeros(starts[-1] + count, np.int64)
        words = [0] * (STATUS_BYTES // 8)
        words += [JUMPS.address, self.params.ctypes.data, self.memory.ctypes.data]
        self.table = np.array(words, np.int64)

    def _jump(self, rng: random.Random, at: int) -> tuple[int, bool] | None:
        """(mark, whether backwards) of a target that there is."""
        targets = [(m, i < at) for i, m in enumerate(self.marks) if m and i != at]
        return rng.choice(targets) if targets and self.tiles[at] == 1 else None

    def expected(self) -> list[int]:
        visits, left, at = [0] * len(self.tiles), list(self.counters), 0
        while at < len(visits):
            visits[at] += 1
            jump, step = self.jumps[at], 1
            if jump is not None and left[at]:
                left[at] -= 1
                step = -1 if jump[1] else 1
                at += step
                while self.marks[at] != jump[0]:
                    at += step
            else:
                at += 1
        return [n for n, tiles in zip(visits, self.tiles, strict=True) for _ in range(tiles)]

    def run(self, on: Team, parallel: bool) -> list[int]:
        """The visits of each tile."""
        self.memory[:] = [0] * sum(self.tiles) + self.counters
        bases = self.table[STATUS_BYTES // 8 :].ctypes.data
        on.run(self.launches.ctypes.data, len(self.launches), bases, parallel)
        assert self.table[0] == 0
        return self.memory[: sum(self.tiles)].tolist()


@pytest.mark.parametrize("threads", [1, pytest.param(3, marks=needs_threads)])
def test_runs_jump_to_the_nearest_mark(threads: int) -> None:
    team, rng = Team(threads), random.Random(4)
    for _ in range(300):
        plan = JumpingPlan(rng)
        for _ in range(3):
            assert plan.run(team, parallel=threads > 1) == plan.expected()
