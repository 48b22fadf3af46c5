"""Algorithms of convolutions by measurement: forced, measured, stored and used again."""

# pyright: reportUnknownMemberType=false
# (torch is not typed)

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nnefc
from nnefc.driver import tuning
from nnefc.driver.compile import compile_graph
from nnefc.ir import Graph, Op
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.cost.convolution import algorithms, operation_key
from nnefc.runtime.cache import tuning_store
from nnefc.runtime.machine import resources
from tests.helpers.command_line import Cli

SOURCE = """\
version 1.0;
extension KHR_enable_operator_expressions;
graph net( x ) -> ( y )
{
    x = external(shape = [1, 3, 16, 16]);
    first = conv(x, variable(shape = [16, 3, 3, 3], label = 'a'));
    a = relu(first);
    second = conv(a, variable(shape = [24, 16, 3, 3], label = 'b'));
    third = conv(second, variable(shape = [24, 24, 3, 3], label = 'c'), stride = [2, 2]);
    fourth = conv(third, variable(shape = [24, 24, 3, 3], label = 'd'));
    fifth = conv(fourth, variable(shape = [24, 24, 3, 3], label = 'e'));
    y = add(fifth, third);
}
"""
CHILD = """
import sys
from nnefc.api.importing import import_model
from nnefc.driver.compile import compile_graph
from nnefc.options.compile_config import CompileConfig

def look(graph, ran):
    if ran.name == "assign_layouts":
        print(*(op.attributes["algorithm"] for op in graph.ops if "algorithm" in op.attributes))
        sys.exit()

graph = import_model(sys.argv[1], random_weights=1)
compile_graph(graph, CompileConfig(int(sys.argv[2])), hook=look)
"""

METHODS = ("direct", "winograd2", "winograd3", "winograd4", "winograd6")
Algorithms = dict[str, tuple[str, ...]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "graph.nnef"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def graph(path: Path) -> Graph:
    return nnefc.import_model(path, random_weights=1)


def used(graph: Graph, **options: Any) -> dict[str, str]:
    """Algorithms by key, as the compiler takes them."""
    found: dict[str, str] = {}

    def look(working: Graph, ran: Any) -> None:
        if ran.name == "assign_layouts":
            for op in working.ops:
                if "algorithm" in op.attributes:
                    found[operation_key(op)] = str(op.attributes["algorithm"])

    compile_graph(graph, CompileConfig(1, **options), hook=look)
    return found


def _names(op: Op) -> tuple[str, ...]:
    """All algorithms of a convolution whose layout is assigned."""
    layout = op.output.type.layout
    assert layout is not None
    return tuple(map(str, algorithms(op, layout.block)))


def possible(graph: Graph) -> Algorithms:
    """All algorithms by key, of convolutions that have several."""
    found: Algorithms = {}

    def look(working: Graph, ran: Any) -> None:
        if ran.name == "assign_layouts":
            convolutions = [op for op in working.ops if "algorithm" in op.attributes]
            every = {operation_key(op): _names(op) for op in convolutions}
            found.update((key, names) for key, names in every.items() if len(names) > 1)

    compile_graph(graph, CompileConfig(1, algorithms={}), hook=look)
    return found


def test_alternatives_of_convolutions(graph: Graph) -> None:
    """Three channels or a stride leave one algorithm; equal tilings count as one algorithm."""
    found = list(possible(graph).values())
    assert found == [
        ("direct", "winograd2", "winograd3", "winograd4", "winograd6"),  # 16 outputs: 5 cuts as 4
        ("direct", "winograd2", "winograd3", "winograd4"),  # 8 outputs
        ("direct", "winograd2", "winograd3", "winograd4"),  # with an addition
    ]


def test_forced_algorithms_take_effect(graph: Graph) -> None:
    x = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)
    wanted = expected(graph, x)
    every = possible(graph)
    for i in range(5):
        forced = {key: names[i % len(names)] for key, names in every.items()}
        found = used(graph, algorithms=forced)
        assert {key: found[key] for key in forced} == forced
        model = compile_graph(graph, CompileConfig(1, algorithms=forced))
        used_winograd = any("_winograd_" in launch.kernel for launch in model.launches)
        assert used_winograd == (set(forced.values()) != {"direct"})
        np.testing.assert_allclose(model(x), wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


def expected(graph: Graph, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    weights = {key: torch.tensor(v.data, dtype=torch.float64) for key, v in graph.variables.items()}

    def convolve(y: torch.Tensor, label: str, stride: int = 1) -> torch.Tensor:
        # automatic padding puts the odd item at the end
        y = torch.nn.functional.pad(y, (2 - stride, 1, 2 - stride, 1))
        return torch.nn.functional.conv2d(y, weights[label], stride=stride)

    y = torch.relu(convolve(torch.from_numpy(x).double(), "a"))
    third = convolve(convolve(y, "b"), "c", 2)
    return (convolve(convolve(third, "d"), "e") + third).numpy()


def test_impossible_algorithms_are_ignored(graph: Graph) -> None:
    usual = used(graph, algorithms={})
    for algorithm in ("winograd5", "winograd9", "depthwise", "", "nothing"):
        assert used(graph, algorithms=dict.fromkeys(usual, algorithm)) == usual


def test_strict_accuracy_ignores_stored_algorithms(graph: Graph, store: Path) -> None:
    forced = {key: names[1] for key, names in possible(graph).items()}
    tuning_store.store_algorithms(1, forced)
    assert set(used(graph, accuracy="strict").values()) == {"direct"}
    assert set(used(graph, accuracy="strict", algorithms=forced).values()) == {"direct"}


def test_stored_algorithms_are_used_unless_disabled(graph: Graph, store: Path) -> None:
    usual, every = used(graph, algorithms={}), possible(graph)
    other = {key: next(m for m in names if m != usual[key]) for key, names in every.items()}
    assert tuning_store.store_algorithms(1, other)
    assert used(graph) == {**usual, **other}
    direct = dict.fromkeys(every, "direct")
    tuning_store.store_algorithms(1, direct)
    tuned, plain = (nnefc.compile(graph, threads=1, tuned=tuned) for tuned in (True, False))
    assert not any("winograd" in launch.kernel for launch in tuned.launches)
    kernels = [
        launch.kernel for launch in compile_graph(graph, CompileConfig(1, algorithms={})).launches
    ]
    assert [launch.kernel for launch in plain.launches] == kernels


def test_a_new_process_uses_stored_algorithms(graph: Graph, path: Path, tmp_path: Path) -> None:
    """The algorithms measured with its number of threads."""
    folder = tmp_path / "cache"
    environment = {**os.environ, "NNEFC_CACHE": str(folder)}
    keep = "import json, sys; from nnefc.runtime.cache import tuning_store as choices; "
    keep += "sys.exit(not choices.store_algorithms(1, json.loads(sys.argv[1])))"
    forced = {key: names[1] for key, names in possible(graph).items()}
    subprocess.run([sys.executable, "-c", keep, json.dumps(forced)], env=environment, check=True)
    usual = list(used(graph, algorithms={}).values())
    for threads, wanted in (
        (1, ["direct", "winograd2", "direct", "winograd2", "winograd2"]),
        (2, usual),
    ):
        command = [sys.executable, "-c", CHILD, str(path), str(threads)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.split() == wanted


# -- measuring


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Seconds that every convolution by an algorithm takes."""
    found: dict[str, float] = dict.fromkeys(METHODS, 1.0)

    def turn(network: Any) -> None:
        network._best = [found[c.algorithm] for c in network.convolutions]
        network.total = sum(network._best)

    monkeypatch.setattr(tuning._Network, "turn", turn)  # pyright: ignore[reportPrivateUsage]
    return found


def tune(graph: Graph) -> tuple[nnefc.Tuning, Mapping[str, str]]:
    found = nnefc.tune(graph, threads=1)
    return found, {c.operations[0]: c.after for c in found.choices}


def test_the_fastest_algorithm_is_chosen_and_stored(
    graph: Graph, store: Path, times: dict[str, float]
) -> None:
    usual = used(graph, algorithms={})
    times |= dict(zip(METHODS, (1.0, 4.0, 0.5, 2.0, 0.25), strict=True))
    found, after = tune(graph)
    assert after == {"second": "winograd6", "fourth": "winograd3", "y": "winograd3"}
    assert found.kept
    assert found.after_seconds == 0.25 + 0.5 + 0.5
    assert used(graph) == {**usual, **found.algorithms}
    for choice in found.choices:
        assert choice.before == usual[choice.key]
        assert choice.before_seconds == times[choice.before]
        assert choice.after_seconds == times[choice.after]


def test_small_gains_are_ignored(graph: Graph, store: Path, times: dict[str, float]) -> None:
    found, _ = tune(graph)
    assert found.changed == ()
    assert found.before_seconds == found.after_seconds
    usual = found.choices[0].before
    others = [algorithm for algorithm in times if algorithm != usual]
    times |= dict.fromkeys(others, 0.98)
    assert tune(graph)[0].changed == ()
    times |= dict.fromkeys(others, 0.96)
    assert tune(graph)[0].changed


def test_algorithms_that_are_no_longer_faster_are_removed(
    graph: Graph, store: Path, times: dict[str, float]
) -> None:
    times |= dict.fromkeys(METHODS, 2.0)
    others = [m for m in times if m not in used(graph, algorithms={}).values()]
    times |= dict.fromkeys(others, 1.0)
    assert tune(graph)[0].changed
    assert tuning_store.load_algorithms(1)
    times |= dict.fromkeys(others, 3.0)
    assert not tune(graph)[0].changed
    assert tuning_store.load_algorithms(1) == {}


def test_gains_that_do_not_repeat_are_not_stored(
    graph: Graph, store: Path, times: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An algorithm that was fast once must be so once more, with all else that was chosen."""
    monkeypatch.setattr(resources, "largest_cache", lambda: 0)  # estimates for large networks
    usual = used(graph, algorithms={})
    times |= {"winograd3": 0.5, "winograd6": 0.25}
    assert not {"winograd3", "winograd6"} & set(usual.values())

    def progress(done: int, total: int, label: str) -> None:
        times["winograd6"] = 0.25 if label == "algorithms" else 1.5

    found = nnefc.tune(graph, threads=1, progress=progress)
    after = {choice.operations[0]: choice.after for choice in found.choices}
    (second,) = (choice for choice in found.choices if choice.operations == ("second",))
    assert after == {"second": second.before, "fourth": "winograd3", "y": "winograd3"}
    assert second.after_seconds == second.before_seconds
    assert tuning_store.load_algorithms(1) == found.algorithms


def test_choices_that_slow_the_whole_call_are_not_stored(
    graph: Graph, store: Path, times: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other operations, such as changes of the layout, may take more than convolutions gain."""
    times |= dict.fromkeys(METHODS, 2.0)
    usual = used(graph, algorithms={})
    times |= dict.fromkeys((m for m in times if m not in usual.values()), 1.0)
    turn = tuning._Network.turn  # pyright: ignore[reportPrivateUsage]

    def with_other_operations(network: Any) -> None:
        turn(network)
        network.total = 100.0 - network.total

    monkeypatch.setattr(tuning._Network, "turn", with_other_operations)  # pyright: ignore[reportPrivateUsage]
    found, after = tune(graph)
    assert found.changed == ()
    assert found.after_seconds == found.before_seconds
    assert after
    assert tuning_store.load_algorithms(1) == {}


def test_rounds_measure_every_algorithm_once() -> None:
    convolutions = [
        tuning._Convolution("a", "k", "direct", ("direct", "winograd2", "winograd4")),  # pyright: ignore[reportPrivateUsage]
        tuning._Convolution("b", "l", "winograd2", ("direct", "winograd2")),  # pyright: ignore[reportPrivateUsage]
        tuning._Convolution("c", "k", "direct", ("direct", "winograd2", "winograd4")),  # pyright: ignore[reportPrivateUsage]
    ]
    rounds = tuning._rounds(convolutions)  # pyright: ignore[reportPrivateUsage]
    assert rounds == [{"k": "winograd2", "l": "direct"}, {"k": "winograd4"}]


def test_measuring_for_real(graph: Graph, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of an operation is the sum over its launches."""
    monkeypatch.setattr(tuning, "_SLICE", 0.002)
    seen: list[tuple[int, int, str]] = []

    def progress(done: int, total: int, label: str) -> None:
        seen.append((done, total, label))

    found = nnefc.tune(graph, threads=1, progress=progress)
    assert {c.operations for c in found.choices} == {("second",), ("fourth",), ("y",)}
    for choice in found.choices:
        assert 0 < choice.after_seconds < found.after_seconds
        assert 0 < choice.before_seconds < found.before_seconds
    assert [done for done, _, _ in seen] == list(range(len(seen)))
    assert {total for _, total, _ in seen} == {len(seen) - 1}
    x = np.random.default_rng(2).standard_normal((1, 3, 16, 16)).astype(np.float32)
    wanted = expected(graph, x)
    got = nnefc.compile(graph, threads=1)(x)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


def test_nothing_to_choose(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "plain.nnef"
    path.write_text(
        "version 1.0; graph g( x ) -> ( y ) "
        "{ x = external(shape = [1, 3, 4, 4]); y = multilinear_upsample(x, factor = [2, 2]); }"
    )
    found = nnefc.tune(path, threads=1)
    assert (found.choices, found.before_seconds, found.after_seconds) == ((), 0, 0)


def test_arguments_are_checked(graph: Graph) -> None:
    with pytest.raises(nnefc.NnefError, match="threads"):
        nnefc.tune(graph, threads=0)
    with pytest.raises(nnefc.NnefError, match="imported already"):
        nnefc.tune(graph, random_weights=1)


# -- the command


def test_command(cli: Cli, path: Path, store: Path, times: dict[str, float]) -> None:
    times |= dict(zip(METHODS, (4.0, 1.0, 2.0, 2.0, 2.0), strict=True))
    arguments = ("compile", path, "--random-weights", 1, "--threads", 1)
    result = cli(*arguments, "--tune")
    assert result.status == 0, result.err
    assert "second" in result.out
    assert "winograd2" in result.out
    assert "3 of 3 kinds of convolutions changed" in result.out
    facts = json.loads(cli(*arguments, "--tune", "--json").out)["tuning"]
    assert (facts["threads"], facts["kept"], facts["after_ms"]) == (1, True, 3000)
    assert [choice["after"] for choice in facts["choices"]] == ["winograd2"] * 3
    assert all(c["after_ms"] == 1000 < c["before_ms"] for c in facts["choices"])


def test_wrong_arguments_of_the_command(cli: Cli, path: Path) -> None:
    refused = cli("compile", path, "--tune", "--accuracy", "strict")
    assert refused.status == 1
    assert "leave one out" in refused.err
