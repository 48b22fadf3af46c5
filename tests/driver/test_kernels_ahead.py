"""Compiling a model is followed by compiling the kernels of usual graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import nnefc
from nnefc import NnefError
from nnefc.driver import typical_graphs
from nnefc.driver.lower_graph import lower_graph
from nnefc.driver.small_graph_builder import Sketch
from nnefc.ir import Graph
from nnefc.options.compile_config import CompileConfig
from nnefc.runtime.compile.ahead_process import compile_missing
from tests.helpers.cache.compile_ahead import (
    Process,
    cached_in_memory,
    one_started,
    watched_processes,
)
from tests.helpers.cache.compile_pool import name_of


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """An empty cache in memory."""
    return cached_in_memory(monkeypatch)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Process]]:
    """The processes that would be started, one at a time."""
    yield from watched_processes(monkeypatch)


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
    cached: dict[str, bytes], processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph that cannot be built ends the list without an error."""
    monkeypatch.setattr(typical_graphs, "usual_graphs", usual)
    nnefc.compile(of_two_kernels(), threads=1)
    assert name_of(USUAL) not in cached
    compile_missing(one_started(processes))
    assert name_of(USUAL) in cached


def test_compiling_a_cached_model_is_followed_by_kernels_of_the_usual_graphs(
    cached: dict[str, bytes],
    processes: list[Process],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(typical_graphs, "usual_graphs", usual)
    monkeypatch.delenv("NNEFC_KEEP", raising=False)
    monkeypatch.setenv("NNEFC_CACHE", str(tmp_path / "cache"))
    archive = tmp_path / "two.tgz"
    nnefc.save_archive(archive, of_two_kernels())
    nnefc.compile(archive, threads=1)
    assert any((tmp_path / "cache").rglob("*"))
    compile_missing(one_started(processes))
    assert name_of(USUAL) in cached


def test_dumps_of_passes_exclude_the_usual_graphs(
    cached: dict[str, bytes],
    processes: list[Process],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(typical_graphs, "usual_graphs", usual)
    monkeypatch.setenv("NNEFC_DUMP", str(tmp_path / "dump"))
    nnefc.compile(of_two_kernels(), threads=1)
    compile_missing(one_started(processes))
    dumped = [file.read_text() for file in (tmp_path / "dump").iterdir()]
    assert dumped
    assert all("graph two" in text for text in dumped)
    assert name_of(USUAL) not in cached


def test_a_wrong_setting_is_an_error_before_anything_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NNEFC_AHEAD", "later")
    with pytest.raises(NnefError, match="NNEFC_AHEAD is 'later'") as caught:
        nnefc.compile(of_one_op("sqrt"))
    assert caught.value.errors[0].rule == "input/environment"
