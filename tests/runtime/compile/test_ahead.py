"""Workers also compile relatives and expected kernels ahead of later models."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc.kernels
from nnefc import NnefError
from nnefc.driver import typical_graphs
from nnefc.driver.lower import lower_graph
from nnefc.driver.sketch import Sketch
from nnefc.ir import Graph
from nnefc.kernels import template
from nnefc.kernels.convolution import depthwise, direct, winograd
from nnefc.kernels.movement import layout, strided
from nnefc.kernels.reduce import softmax
from nnefc.kernels.target.isa import host
from nnefc.kernels.template import Kernel
from nnefc.kernels.vector.builder import lanes_of
from nnefc.kernels.window import pooling
from nnefc.options.compile_config import CompileConfig
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.compile import kernel_compiler
from nnefc.runtime.compile import pool as compile_pool
from nnefc.runtime.compile.kernel_compiler import compiling_ahead, object_codes
from nnefc.runtime.compile.unit import CompileUnit, key_of
from tests.helpers.cache.compile_pool import SOURCES, emitted, name_of, watched_pool

KERNELS = Path(nnefc.kernels.__file__).parent
RELATIVES = [layout.unblock("float32", lanes=8), softmax.rows("float32")]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start with no compiled kernels, and workers for any number; yields the started processes."""
    yield from watched_pool(monkeypatch)


@pytest.fixture
def kept(pool: list[Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """An empty cache in memory; `copy` has relatives, one of which does not compile."""
    entries: dict[str, bytes] = {}

    def keep(key: Any, code: bytes) -> None:
        entries[key.name] = code

    relatives = [*RELATIVES, SOURCES[1], Kernel(strided.copy.name, ("no size",))]
    monkeypatch.setattr(strided.copy, "relatives", lambda itemsize: relatives)  # pyright: ignore
    monkeypatch.setattr(kernel_cache, "is_writable", lambda: True)  # pyright: ignore
    monkeypatch.setattr(kernel_cache, "load_kernel", lambda key: entries.get(key.name))  # pyright: ignore
    monkeypatch.setattr(kernel_cache, "store_kernel", keep)  # pyright: ignore
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


def test_cached_relatives_are_not_compiled_again(kept: dict[str, bytes], pool: list[Any]) -> None:
    kept.update({name_of(relative): b"code" for relative in RELATIVES})
    object_codes(SOURCES)
    assert len(pool) == 2
    assert len(kept) == len(SOURCES) + len(RELATIVES)
    assert all(kept[name_of(relative)] == b"code" for relative in RELATIVES)


def hinder(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent compilation ahead for this reason."""
    if reason == "one job":
        monkeypatch.setenv("NNEFC_JOBS", "1")
    elif reason == "no cache":
        monkeypatch.setattr(kernel_cache, "is_writable", lambda: False)  # pyright: ignore
    elif reason == "another machine":
        monkeypatch.setattr(kernel_compiler, "NATIVE", "")
    else:
        monkeypatch.setattr(compile_pool, "_MIN_WORKER_SECONDS", 1e9)


@pytest.mark.parametrize("reason", ["one job", "no cache", "another machine", "little to do"])
def test_relatives_are_not_compiled_without_workers_or_cache(
    kept: dict[str, bytes], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hinder(reason, monkeypatch)
    object_codes(SOURCES)
    assert kept.keys() == {name_of(source) for source in SOURCES}


def test_relatives_of_all_families_are_kernels() -> None:
    lanes = lanes_of("float32")
    kernels = [
        direct.convolution("float32", "float32", 3, channels=1),
        depthwise.convolution("float32", "float32", lanes, 1, taps=5, residual=True),
        strided.copy(4),
        pooling.window("sum", "float32", "float32", lanes, None),
        winograd.transform_input("float32", "float32", (1, 7), 4),
        winograd.transform_output("float32", (1, 7), 4),
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
    families = template._families.values()  # pyright: ignore
    have_relatives = {family.name for family in families if family.relatives is not None}
    assert {kernel.family for kernel in kernels} >= have_relatives


# -- kernels that callers expect


EXPECTED = [strided.strided(4), strided.transpose(4)]


class ExpectedKernels:
    """A source of expected kernels, which may end with an error; counts how often it is called."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.times = 0
        self._error = error

    def __call__(self) -> Iterator[Kernel]:
        self.times += 1
        yield from [RELATIVES[0], *EXPECTED, SOURCES[0]]  # pyright: ignore
        if self._error is not None:
            raise self._error


def test_expected_kernels_are_compiled_last(
    kept: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def workers_for(sources: Iterable[CompileUnit]) -> int:
        return 1

    monkeypatch.setattr(compile_pool, "workers_for", workers_for)
    totals: set[int] = set()
    with compiling_ahead(ExpectedKernels()):
        found = object_codes(SOURCES, lambda done, total, label: totals.add(total))
    assert found == [emitted(source) for source in SOURCES]
    names = [{name_of(each) for each in group} for group in (SOURCES, RELATIVES, EXPECTED)]
    order = list(kept)
    assert [set(order[:4]), set(order[4:6]), set(order[6:])] == names
    assert kept[name_of(EXPECTED[0])] == emitted(EXPECTED[0])
    assert totals == {9}  # with the relative that does not compile


def test_an_error_in_expected_kernels_does_not_reach_the_model(kept: dict[str, bytes]) -> None:
    with compiling_ahead(ExpectedKernels(ValueError("no graph"))):
        assert object_codes(SOURCES) == [emitted(source) for source in SOURCES]
    assert kept.keys() == {name_of(source) for source in [*SOURCES, *RELATIVES, *EXPECTED]}


def test_an_interrupt_while_workers_start_stops_them(
    kept: dict[str, bytes], pool: list[Any]
) -> None:
    with pytest.raises(KeyboardInterrupt), compiling_ahead(ExpectedKernels(KeyboardInterrupt())):
        object_codes(SOURCES)
    assert len(pool) == 2
    assert not kept


def test_nothing_is_expected_after_the_block(kept: dict[str, bytes]) -> None:
    asked = ExpectedKernels()
    with pytest.raises(KeyError), compiling_ahead(asked):
        raise KeyError
    object_codes(SOURCES)
    assert not asked.times


@pytest.mark.parametrize("reason", ["one job", "no cache", "another machine", "little to do"])
def test_expected_kernels_are_not_requested_without_workers_or_cache(
    kept: dict[str, bytes], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ExpectedKernels()
    hinder(reason, monkeypatch)
    with compiling_ahead(asked):
        object_codes(SOURCES)
    assert not asked.times


# -- models


def of_one_op(name: str) -> Graph:
    sketch = Sketch(name)
    sketch.op(name, sketch.input(4, 64))
    return sketch.finish()


def usual() -> Iterator[Graph]:
    yield of_one_op("exp")
    raise NnefError.of("internal/ir", "a graph that cannot be made")


(USUAL,) = lower_graph(of_one_op("exp"), CompileConfig(1)).kernels


def test_models_are_compiled_with_kernels_of_the_usual_graphs(
    kept: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph that cannot be built ends the list without an error."""
    monkeypatch.setattr(typical_graphs, "usual_graphs", usual)
    model = nnefc.compile(of_one_op("sqrt"), threads=1)
    assert (model(np.full((4, 64), 9, np.float32)) == 3).all()
    assert name_of(USUAL) in kept


def test_cached_models_are_compiled_with_kernels_of_the_usual_graphs_too(
    kept: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typical_graphs, "usual_graphs", usual)
    monkeypatch.setattr("nnefc.model_cache.entry.LEAST_BYTES", 0)
    monkeypatch.setenv("NNEFC_CACHE", str(tmp_path / "cache"))
    archive = tmp_path / "sqrt.tgz"
    nnefc.save_archive(archive, of_one_op("sqrt"))
    nnefc.compile(archive, threads=1)
    assert any((tmp_path / "cache").rglob("*"))
    assert name_of(USUAL) in kept


def test_dumps_of_passes_disable_the_usual_graphs(
    kept: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typical_graphs, "usual_graphs", usual)
    monkeypatch.setenv("NNEFC_DUMP", str(tmp_path / "dump"))
    nnefc.compile(of_one_op("sqrt"), threads=1)
    dumped = [file.read_text() for file in (tmp_path / "dump").iterdir()]
    assert dumped
    assert all("graph sqrt" in text for text in dumped)
    assert kept
    assert name_of(USUAL) not in kept
