"""Profiles record every tile once, in order, with its thread."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from nnefc import NnefError, compile
from nnefc.ir import DType, Graph, TensorType
from nnefc.lower import lower
from nnefc.ops.tools.build import build
from nnefc.runtime.run.compiled_model import CompiledModel
from nnefc.runtime.run.profile import Profile, _threads  # pyright: ignore[reportPrivateUsage]


def chain(rows: int, *, threads: int) -> CompiledModel:
    """A model of exp, transpose and sum, which has several launches of several tiles."""
    graph = Graph("chain")
    x = graph.add_input(TensorType(DType.FLOAT32, (rows, 512)), "x")
    y = build(graph, "exp", [x], {}).output
    z = build(graph, "transpose", [y], {"axes": [1, 0]}).output
    graph.add_output(build(graph, "sum_reduce", [z], {"axes": [0]}).output, "y")
    return CompiledModel.of(lower(graph), graph, threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_tile_runs_once_and_launches_follow_each_other(threads: int) -> None:
    model = chain(2048, threads=threads)
    assert max(launch.tiles for launch in model.launches) > 2
    found = model.profile(np.zeros((2048, 512), np.float32), seconds=0.05)
    tiles = [launch.tiles for launch in model.launches]
    assert found.launch_of.tolist() == np.repeat(range(len(tiles)), tiles).tolist()
    assert found.start.shape == found.end.shape == found.thread.shape == (found.runs, sum(tiles))
    ran = found.end > 0
    assert (ran == (found.start > 0)).all()
    assert (found.end >= found.start).all()
    if model.threads == 2:
        assert ran.all()
    assert found.threads <= model.threads
    assert set(np.unique(found.thread)) <= set(range(found.threads))
    for run in range(found.runs):
        ends = 0
        for launch in range(len(tiles)):
            mine = (found.launch_of == launch) & ran[run]
            assert mine.any()
            assert found.start[run, mine].min() >= ends
            ends = found.end[run, mine].max()
        for thread in range(found.threads):
            mine = (found.thread[run] == thread) & ran[run]
            spans = sorted(zip(found.start[run, mine], found.end[run, mine], strict=True))
            assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    assert (found.wall.sum(axis=1) <= found.total + 1e-12).all()
    assert (found.busy <= found.wall * found.threads + 1e-12).all()


def test_runs_of_a_profile_update_states_like_calls(tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\ngraph g( x ) -> ( y )\n{\n x = external(shape = [1]);\n"
        "n = variable(shape = [1], label = 'n');\n y = add(n, x);\n u = update(n, y);\n}\n"
    )
    model = compile(path, random_weights=1)
    model.variables["n"] = np.zeros(1, np.float32)
    found = model.profile(np.ones(1, np.float32), seconds=0.01)
    assert model.variables["n"] == found.runs + 2  # two runs warm up


def test_a_profile_checks_its_arguments_like_a_call() -> None:
    model = chain(2, threads=1)
    with pytest.raises(NnefError, match="0 arrays given"):
        model.profile()
    with pytest.raises(NnefError, match="input/shape"):
        model.profile(np.zeros((2, 511), np.float32))
    x = np.zeros((2, 512), np.float32)
    for wrong in (-1, float("nan"), float("inf"), True, "1", None):
        with pytest.raises(NnefError, match="must be a finite number, at least 0"):
            model.profile(x, seconds=cast(float, wrong))
    assert (
        model.profile(x, seconds=0).runs
        == model.profile(x, seconds=cast(float, np.float32(0))).runs
    )


def test_a_plan_without_launches_has_no_profile() -> None:
    graph = Graph("empty")
    with pytest.raises(NnefError, match="nothing to profile"):
        CompiledModel.of(lower(graph), graph).profile()


def test_launches_have_wall_and_busy_times() -> None:
    """One thread runs the first launch (three tiles) alone in the second run.

    The first run skips the last launch; the second run jumps back to the one before.
    """
    found = Profile(
        step_of=np.array([0, 0, 0, 1, 2]),
        launch_of_step=np.array([0, 1, 2]),
        threads=2,
        start=np.array([[10, 20, 12, 50, 0], [5, 0, 0, 40, 50]]),
        end=np.array([[20, 40, 30, 60, 0], [35, 0, 0, 45, 70]]),
        earlier=np.array([[0, 0, 0, 0, 0], [0, 0, 0, 7, 0]]),
        thread=np.array([[0, 0, 1, 1, 0], [0, 0, 0, 0, 0]]),
        count=np.array([[1, 1, 1, 1, 0], [1, 0, 0, 3, 1]]),
    )
    assert found.executions.tolist() == [[1, 1, 0], [1, 3, 1]]
    assert found.wall == pytest.approx(1e-9 * np.array([[30, 10, 0], [30, 12, 20]]))
    assert found.busy == pytest.approx(1e-9 * np.array([[48, 10, 0], [30, 12, 20]]))
    assert found.total == pytest.approx([50e-9, 65e-9])
    assert found.typical == 1


def test_threads_are_identified_by_their_stacks() -> None:
    """The caller has number 0; an address of 0 stands for a tile that did not run."""
    main, worker, other = 0x7FFF_0000_1000, 0x7F00_0000_0000, 0x7F00_0080_0000
    stacks = np.array([[main, worker, 0], [other, main + 512, worker - 96]])
    numbers, count = _threads(stacks, main + 128)
    assert count == 3
    assert numbers[0, 0] == numbers[1, 1] == 0
    assert numbers[0, 1] == numbers[1, 2] == 1
    assert numbers[1, 0] == 2
