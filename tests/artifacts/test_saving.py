"""Loaded models compute the same as saved ones, in this process, in others, and saved again."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.kernels.convolution import direct
from nnefc.kernels.target import target_name
from nnefc.kernels.target.isa import host, row_of, variants
from nnefc.runtime.artifact.artifact_file import open_file
from nnefc.runtime.artifact.artifact_file_writer import with_changes
from nnefc.runtime.artifact.read_static import Artifact
from nnefc.support.errors import NnefError, NnefWarning
from nnefc.support.package import PACKING_VERSION
from tests.helpers.artifacts.saved import (
    COUNTER,
    MIXED,
    TINY,
    VOLUMES,
    compiled,
    inputs,
    python,
    results,
    same,
    transformed,
)


@pytest.mark.parametrize(
    "document", [TINY, MIXED, VOLUMES, COUNTER], ids=["tiny", "mixed", "volumes", "counter"]
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("accuracy", ["fast", "strict"])
def test_loaded_models_equal_saved_ones(
    tmp_path: Path, document: str, threads: int, accuracy: str
) -> None:
    model = compiled(tmp_path, document, threads=threads, accuracy=accuracy)
    model.save(tmp_path / "net.nnefc")
    loaded = nnefc.load(tmp_path / "net.nnefc", threads=threads, verify=True)
    assert loaded.inputs == model.inputs
    assert loaded.outputs == model.outputs
    assert loaded.launches == model.launches
    assert loaded.arena_bytes == model.arena_bytes
    assert loaded.constant_bytes == model.constant_bytes
    assert repr(loaded) == repr(model)
    for seed in range(3):
        same(results(loaded, seed), results(model, seed))
    for which in (loaded, model):
        which.reset()
    same(results(loaded), results(model))


def test_the_document_uses_the_kernels_under_test(tmp_path: Path) -> None:
    kernels = {f"nnefc_{each.kernel}" for each in compiled(tmp_path, VOLUMES, threads=1).launches}
    assert any("winograd" in kernel for kernel in kernels)
    halves = {
        direct.convolution("float32", "float32", 2, 8, "first").symbol,
        direct.convolution("float32", "float32", 2, 8, "last").symbol,
    }
    assert halves & kernels == (halves if host().float32_lanes == 16 else set())


def test_wrong_paths(tmp_path: Path) -> None:
    model = compiled(tmp_path, TINY)
    with pytest.raises(NnefError, match="expected a path"):
        model.save(None)  # pyright: ignore[reportArgumentType]


def test_the_file_is_the_same_each_time(tmp_path: Path) -> None:
    model = compiled(tmp_path, MIXED)
    for name in ("a", "b"):
        model.save(tmp_path / name)
    nnefc.load(tmp_path / "a").save(tmp_path / "c")
    assert len({(tmp_path / name).read_bytes() for name in "abc"}) == 1


_ALONE = """
import sys
for heavy in ("numba", "llvmlite"):
    sys.modules[heavy] = None
import numpy, nnefc
model = nnefc.load(sys.argv[1])
found = model(*numpy.load(sys.argv[2]).values())
numpy.savez(sys.argv[3], *(found if isinstance(found, tuple) else [found]))
late = ("passes", "lower", "syntax", "symbolic.traced_array", "artifacts.save")
ours = [f"nnefc.{name}" for name in late]
heavy = ("numba", "llvmlite", "typer", "rich", *ours)
if not model.variables:  # which are those of graphs
    heavy += ("dataclasses", "nnefc.ir", "nnefc.kernels.family", "sysconfig")
with_paths = [n for n, m in sys.modules.items() if n.startswith("nnefc") and hasattr(m, "Path")]
print([name for name in heavy if sys.modules.get(name)] + with_paths)
"""


@pytest.mark.parametrize("document", [TINY, MIXED, COUNTER], ids=["tiny", "mixed", "counter"])
@pytest.mark.parametrize("cache", ["", "off"])
def test_loading_imports_numpy_only(tmp_path: Path, document: str, cache: str) -> None:
    model = compiled(tmp_path, document)
    model.save(tmp_path / "net.nnefc")
    np.savez(tmp_path / "in.npz", *inputs(model))
    names = [tmp_path / name for name in ("net.nnefc", "in.npz", "out.npz")]
    assert python(_ALONE, *names, NNEFC_CACHE=cache or str(tmp_path / "cache")) == "[]\n"
    expected = results(model)
    same(list(np.load(tmp_path / "out.npz").values()), expected)


def test_current_and_initial_values_of_states_are_saved(tmp_path: Path) -> None:
    model = compiled(tmp_path, COUNTER)
    first = model.variables["sum"]
    results(model)
    now = model.variables["sum"]
    model.save(tmp_path / "net.nnefc")
    loaded = nnefc.load(tmp_path / "net.nnefc")
    assert list(loaded.variables) == ["Sum"]
    np.testing.assert_array_equal(loaded.variables["sum"], now)
    results(loaded)
    later = loaded.variables["sum"]
    loaded.save(tmp_path / "later.nnefc")
    np.testing.assert_array_equal(nnefc.load(tmp_path / "later.nnefc").variables["sum"], later)
    loaded.reset()
    np.testing.assert_array_equal(loaded.variables["sum"], first)


def test_models_can_be_pickled(tmp_path: Path) -> None:
    for document in (MIXED, COUNTER):
        model = compiled(tmp_path, document, threads=2)
        results(model)
        for each in (model, pickle.loads(pickle.dumps(model))):
            copy = pickle.loads(pickle.dumps(each))
            assert copy.threads == model.threads
            same(results(copy), results(each))
        model.reset()


def test_models_pass_to_other_processes(tmp_path: Path) -> None:
    model = compiled(tmp_path, MIXED, threads=1)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (found,) = pool.map(results, [model])
    same(found, results(model))


@pytest.mark.parametrize("document", [TINY, MIXED, COUNTER], ids=["tiny", "mixed", "counter"])
def test_the_graph_computes_the_same(tmp_path: Path, document: str) -> None:
    model = compiled(tmp_path, document, accuracy="strict")
    model.save(tmp_path / "net.nnefc")
    graph = nnefc.load(tmp_path / "net.nnefc").graph
    again = nnefc.compile(graph, accuracy="strict")
    for x, y in zip(results(again), results(model), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


_ROW = """
import sys, numpy, nnefc, json, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = nnefc.load(sys.argv[1])
found = model(*numpy.load(sys.argv[2]).values())
numpy.savez(sys.argv[3], *(found if isinstance(found, tuple) else [found]))
print(json.dumps([str(each.message) for each in caught]))
"""


@pytest.mark.parametrize("document", [MIXED, COUNTER], ids=["mixed", "counter"])
def test_other_processors_compile_the_graph_in_the_file(tmp_path: Path, document: str) -> None:
    model = compiled(tmp_path, document)
    model.save(tmp_path / "net.nnefc")
    np.savez(tmp_path / "in.npz", *inputs(model))
    names = [tmp_path / name for name in ("net.nnefc", "in.npz", "out.npz")]
    (said,) = json.loads(python(_ROW, *names, NNEFC_ISA="x86-64-v2"))
    assert "there is no code for this processor (x86-64-v2)" in said
    for x, y in zip(np.load(tmp_path / "out.npz").values(), results(model), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4 * abs(y).max())


@pytest.mark.parametrize("document", [MIXED, COUNTER], ids=["mixed", "counter"])
def test_a_file_may_hold_code_for_several_processors(tmp_path: Path, document: str) -> None:
    model = compiled(tmp_path, document)
    model.save(tmp_path / "net.nnefc", targets=["native", "x86-64-v2", "aarch64"])
    targets = open_file(tmp_path / "net.nnefc").content["targets"]
    assert [target["isa"] for target in targets] == [host().name, "x86-64-v2", "aarch64"]
    assert [bool(target["cpu"]) for target in targets] == [True, False, False]
    assert len({tuple(target["code"]) for target in targets}) == 3
    same(results(nnefc.load(tmp_path / "net.nnefc")), results(model))
    model.reset()
    expected = results(model)
    np.savez(tmp_path / "in.npz", *inputs(model))
    names = [tmp_path / name for name in ("net.nnefc", "in.npz", "out.npz")]
    for cache in (str(tmp_path / "cache"), str(tmp_path / "cache"), "off"):
        assert python(_ALONE, *names, NNEFC_CACHE=cache, NNEFC_ISA="x86-64-v2") == "[]\n"
        for x, y in zip(np.load(tmp_path / "out.npz").values(), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4 * abs(y).max())


def test_code_with_extensions_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, (plain, name, *_) = tmp_path / "net.nnefc", variants(row_of(host().name))
    extension = name.partition("+")[2]
    model = compiled(tmp_path, TINY)
    model.save(path, targets=[name, plain])
    artifact = Artifact(open_file(path))
    assert [each.name for each in artifact.target_infos()] == [name, plain]
    for available, best, obstacle in (([extension], 0, ""), ([""], 1, f"it lacks {extension}")):
        for features in ("x86_features", "arm_features"):
            monkeypatch.setattr(target_name, features, partial(set[str], available))
        assert artifact.best_target() == best
        assert artifact.target_infos()[0].obstacle == obstacle
    model.save(path, targets=[name])
    said = f"\\({host().name} without {extension}\\), only {re.escape(name)}: compiling it now"
    with pytest.warns(NnefWarning, match=said):
        loaded = nnefc.load(path)
    same(results(loaded), results(model))


def test_a_failed_write_leaves_the_file_unchanged(tmp_path: Path) -> None:
    model = compiled(tmp_path, TINY)
    with pytest.raises(NnefError) as caught:
        model.save(tmp_path / "none" / "net.nnefc")
    assert caught.value.errors[0].rule == "data/write"
    model.save(tmp_path / "net.nnefc")
    before = (tmp_path / "net.nnefc").read_bytes()
    with pytest.raises(NnefError) as caught:
        model.save(tmp_path / "net.nnefc", targets=["pdp-11"])
    assert caught.value.errors[0].rule == "input/option"
    assert (tmp_path / "net.nnefc").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["graph.nnef", "net.nnefc"]


def test_weights_are_stored_once(tmp_path: Path) -> None:
    model = compiled(tmp_path, MIXED)
    model.save(tmp_path / "net.nnefc")
    file = open_file(tmp_path / "net.nnefc")
    weights = sum(variable.type.nbytes for variable in model.graph.variables.values())
    assert file.head_at < 1.05 * weights + (1 << 16)
    forms = [
        form for array in file.content["arrays"] for form in ("packed", "weights") if form in array
    ]
    assert {"packed", "weights"} == set(forms), "both ways are there"


def test_models_of_launches_cannot_be_saved(tmp_path: Path) -> None:
    from nnefc.driver.lower_graph import prepare
    from nnefc.lower import lower
    from nnefc.runtime.run.compiled_model import CompiledModel

    graph = compiled(tmp_path, TINY).graph
    model = CompiledModel.of(lower(prepare(graph)), graph)
    with pytest.raises(NnefError, match="compiled from launches"):
        model.save(tmp_path / "net.nnefc")


def test_loading_issues_no_warning(tmp_path: Path) -> None:
    compiled(tmp_path, TINY).save(tmp_path / "net.nnefc")
    with warnings.catch_warnings():
        warnings.simplefilter("error", NnefWarning)
        nnefc.load(tmp_path / "net.nnefc")


def test_the_first_calls_may_come_from_several_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that one call packs live as long as any call that uses them."""
    model = compiled(tmp_path, MIXED, threads=1)
    model.save(tmp_path / "net.nnefc")
    monkeypatch.setenv("NNEFC_CACHE", "off")
    expected = results(model)
    for _ in range(10):
        loaded = nnefc.load(tmp_path / "net.nnefc", threads=1)
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(partial(results, loaded), [0] * 16):
                same(found, expected)


def test_the_compiled_graph_is_saved(tmp_path: Path) -> None:
    model = compiled(tmp_path, TINY)
    expected = results(model)
    model.graph.variables["weights"].data = np.zeros((3, 4), np.float32)
    model.save(tmp_path / "net.nnefc")
    same(results(nnefc.load(tmp_path / "net.nnefc")), expected)


def test_a_loaded_model_can_be_saved_for_other_processors(tmp_path: Path) -> None:
    model = compiled(tmp_path, COUNTER)
    results(model)
    model.save(tmp_path / "net.nnefc")
    loaded = nnefc.load(tmp_path / "net.nnefc")
    loaded.save(tmp_path / "more.nnefc", targets=["native", "x86-64-v2"])
    targets = open_file(tmp_path / "more.nnefc").content["targets"]
    assert [target["isa"] for target in targets] == [host().name, "x86-64-v2"]
    again = nnefc.load(tmp_path / "more.nnefc")
    same(results(again), results(loaded))
    for each in (again, loaded):
        each.reset()
    same(results(again), results(loaded))
    for each, targets in itertools.product(
        (model, loaded), (["pdp-11"], [], "native", [["native"]])
    ):
        with pytest.raises(NnefError) as caught:
            each.save(tmp_path / "x.nnefc", targets=targets)  # pyright: ignore[reportArgumentType]
        assert caught.value.errors[0].rule == "input/option"


def test_damaged_weights_are_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = transformed(tmp_path)
    monkeypatch.setenv("NNEFC_CACHE", str(tmp_path / "cache"))
    good = path.read_bytes()
    damaged = bytearray(good)
    damaged[5000:5004] = b"\x7f\x7f\x7f\x7f"
    (tmp_path / "damaged.nnefc").write_bytes(damaged)
    model = nnefc.load(tmp_path / "damaged.nnefc")
    with pytest.raises(NnefError, match="checksum of the weights"):
        results(model)
    assert not list((tmp_path / "cache" / "weights").glob("*.weights"))


def test_overwriting_a_file_in_use_crashes_nothing(tmp_path: Path) -> None:
    """The results are wrong, but calls access no other memory."""
    path = transformed(tmp_path)
    model = nnefc.load(path)
    results(model)
    with path.open("r+b") as file:
        file.write(b"\xff" * path.stat().st_size)
    results(model)
    assert model.launches


def of_another_version(folder: Path, **changes: int) -> Path:
    """An artifact as another version of nnefc may write it, in the same format."""
    compiled(folder, MIXED).save(folder / "net.nnefc")
    file = open_file(folder / "net.nnefc")
    file.content.update(nnefc="0.0.7", **changes)
    for target in file.content["targets"]:
        target["interface"] = "0" * 32
    path = folder / "other.nnefc"
    path.write_bytes(b"".join(with_changes(file, {}, file.content)))
    return path


def test_code_of_another_version_is_compiled_again(tmp_path: Path) -> None:
    path = of_another_version(tmp_path)
    with pytest.warns(NnefWarning) as caught:
        model = nnefc.load(path)
    (said,) = (str(warning.message) for warning in caught)
    assert caught[0].filename == __file__
    assert f"{path}: warning: its code is of another version of nnefc (0.0.7)" in said
    assert said.endswith("hint: save the model again with this version")
    same(results(model), results(nnefc.load(tmp_path / "net.nnefc")))
    model.save(path, targets=["native"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nnefc.load(path)


def test_weights_that_another_version_has_packed_are_refused(tmp_path: Path) -> None:
    """They would be restored in another order."""
    path = of_another_version(tmp_path, packing=PACKING_VERSION + 1)
    with pytest.warns(NnefWarning), pytest.raises(NnefError) as caught:
        nnefc.load(path)
    (error,) = caught.value.errors
    assert (error.rule, error.file) == ("artifact/format", str(path))
    assert "nnefc 0.0.7 packed the weights" in error.message
    assert error.hint == "compile the model again with this version"


def test_views_beyond_an_array_are_damage(tmp_path: Path) -> None:
    compiled(tmp_path, TINY).save(tmp_path / "net.nnefc")
    file = open_file(tmp_path / "net.nnefc")
    artifact = Artifact(file)
    views: list[Any] = [
        [0, [3, 4], [-4, 1]],
        [1 << 33, [3, 4], [4, 1]],
        [0, [4, 4], [4, 1]],
        [0, [], []],
    ]
    for view in views:
        packed = {"array": 0, "view": view, "packing": "panels", "parameters": [1, 1]}
        for array in file.content["arrays"]:
            array.pop("weights", None)
            array["packed"] = [{**packed, "head": [0, 48]}]
        with pytest.raises(NnefError, match="manifest is not as expected"):
            _ = artifact.graph


@pytest.mark.parametrize("options", [{"digest": 5}, {"verify": "no"}, {"threads": 0}])
def test_arguments_of_load_are_checked(tmp_path: Path, options: dict[str, Any]) -> None:
    compiled(tmp_path, TINY).save(tmp_path / "net.nnefc")
    with pytest.raises(NnefError):
        nnefc.load(tmp_path / "net.nnefc", **options)
