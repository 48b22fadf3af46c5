"""A cached model is found exactly if the facts that it depends on are unchanged."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.model_cache import facts
from tests.helpers.artifacts.model_cache import archive
from tests.helpers.artifacts.saved import results, same

pytestmark = pytest.mark.usefixtures("keep_models")

Compile = Callable[..., nnefc.Model]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*products of bfloat16")
@pytest.mark.parametrize(
    "options",
    [
        {"threads": 1},
        {"accuracy": "strict"},
        {"precision": "bfloat16"},
        {"scalar": "float64"},
        {"integer": "int64"},
        {"shapes": {"x": (2, 3, 26, 24)}},
        {"shapes": {"x": np.array([2, 3, 28, 24])}},
        {"random_weights": 8},
        {"quantize": False},
        {"strict": True},
        {"tuned": False},
        {"limits": nnefc.Limits(errors=7)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_change_the_entry(
    tmp_path: Path, imported: list[Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnefc.runtime.cache import tuning_store

    stored = {"conv": "direct"} if "tuned" in options else {}

    def find(_: int) -> dict[str, str]:
        return stored

    monkeypatch.setattr(tuning_store, "load_algorithms", find)
    compile_: Compile = nnefc.compile
    source = archive(tmp_path)
    compile_(source, threads=2)
    imported.clear()
    for _ in range(2):
        compile_(source, **{"threads": 2, **options})
        assert len(imported) == 1


@pytest.mark.slow
def test_the_document_changes_the_entry(tmp_path: Path, imported: list[Any]) -> None:
    source = archive(tmp_path)
    before = results(nnefc.compile(source))
    status = source.stat()
    imported.clear()
    os.utime(source)
    same(results(nnefc.compile(source)), before)
    assert not imported
    archive(tmp_path, seed=4)
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    imported.clear()
    after = results(nnefc.compile(source))
    assert len(imported) == 1
    assert not np.array_equal(after[0], before[0])


@pytest.mark.slow
@pytest.mark.parametrize("change", ["nnefc", "machine", "threads", "kernels", "plans"])
def test_versions_and_machine_change_the_entry(
    tmp_path: Path, imported: list[Any], change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnefc.kernels.target.isa import Isa
    from nnefc.runtime.cache import key
    from nnefc.runtime.compile import support_code
    from nnefc.runtime.machine import resources

    source = archive(tmp_path)
    nnefc.compile(source)
    imported.clear()
    facts._environment.cache_clear()  # pyright: ignore[reportPrivateUsage]
    if change == "nnefc":
        monkeypatch.setattr(facts, "_sources", lambda: [facts.SourceFile("a.py", 1, 2, 3)])
    elif change == "machine":
        monkeypatch.setattr(resources, "largest_cache", lambda: 12345)
    elif change == "kernels":  # processor, instruction set, numba, LLVM, Python

        def others(_: Isa) -> dict[str, str]:
            return {"numba": "other"}

        monkeypatch.setattr(key, "environment_facts", others)
    elif change == "plans":
        monkeypatch.setattr(support_code, "abi_digest", lambda: "other")
    else:
        from nnefc.runtime.run import team

        monkeypatch.setattr(team, "usable_cpus", lambda: 5)
    nnefc.compile(source)
    # Keys of kernels were made from the changed facts.
    key.module_dependencies.cache_clear()
    facts._environment.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert len(imported) == 1


def test_the_facts_include_all_sources_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.py").write_text("1")
    before = facts.sources_in(str(tmp_path))
    (tmp_path / "notes.txt").write_text("1")
    assert facts.sources_in(str(tmp_path)) == before
    (tmp_path / "below" / "a.py").write_text("12")
    assert facts.sources_in(str(tmp_path)) != before
    own = {Path(source.name).name for source in facts._sources()}  # pyright: ignore[reportPrivateUsage]
    assert {"entry.py", "register_tile.py", "fold_affine.py", "plan.py"} < own


def test_fractions_of_a_second_of_file_times_are_ignored(tmp_path: Path) -> None:
    """Layers of container images may not keep them."""
    source = tmp_path / "a.py"
    source.write_text("1")
    names: set[str] = set()
    for nanoseconds in (5_000_000_000, 5_400_000_000, 6_000_000_000):
        os.utime(source, ns=(nanoseconds, nanoseconds))
        names.add(str([each[:3] for each in facts.sources_in(str(tmp_path))]))
    assert len(names) == 2


def test_sources_changed_since_the_process_began_disable_the_cache(
    tmp_path: Path, imported: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may have loaded older sources, so it neither stores nor loads models."""
    source = archive(tmp_path)
    nnefc.compile(source)
    imported.clear()
    monkeypatch.setattr(facts, "_BEGAN", 0)
    nnefc.compile(source)
    assert len(imported) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"scalar": "float32"},
        {"integer": "int32", "quantize": True},
        {"limits": nnefc.Limits()},
        {"random_weights": None, "shapes": None, "symbols": None},
    ],
    ids=lambda options: next(iter(options)),
)
def test_explicit_defaults_have_the_same_entry(
    tmp_path: Path, imported: list[Any], options: dict[str, Any]
) -> None:
    compile_: Compile = nnefc.compile
    source = archive(tmp_path)
    compile_(source)
    imported.clear()
    compile_(source, **options)
    assert not imported


def test_other_files_in_a_folder_are_ignored(tmp_path: Path, imported: list[Any]) -> None:
    with tarfile.open(archive(tmp_path)) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    nnefc.compile(tmp_path / "unpacked")
    imported.clear()
    (tmp_path / "unpacked" / "log.txt").write_text("began")
    nnefc.compile(tmp_path / "unpacked")
    assert not imported
    (tmp_path / "unpacked" / "more.dat").write_text("a tensor, perhaps")
    nnefc.compile(tmp_path / "unpacked")
    assert imported


def test_the_path_changes_the_entry(
    tmp_path: Path, imported: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = archive(tmp_path)
    nnefc.compile(source)
    monkeypatch.chdir(tmp_path)
    imported.clear()
    nnefc.compile(source.name)
    assert imported == [source.name]
    model = nnefc.compile(source.name)
    monkeypatch.chdir("/")
    assert len(model.graph.inputs) == 1


def test_shapes_may_be_arrays(tmp_path: Path, imported: list[Any]) -> None:
    compile_: Compile = nnefc.compile
    source = archive(tmp_path)
    imported.clear()
    for _ in range(2):
        model = compile_(source, shapes={"x": np.array([2, 3, 26, 24])})
        assert model.inputs[0].shape == (2, 3, 26, 24)
    assert len(imported) == 1
