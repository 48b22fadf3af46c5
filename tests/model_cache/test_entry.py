"""Cached models behave like newly compiled ones."""

from __future__ import annotations

import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.runtime.artifact.artifact_file import open_file
from nnefc.runtime.machine.resources import usable_cpus
from nnefc.support.errors import NnefError, NnefWarning
from tests.helpers.artifacts.model_cache import archive, entries
from tests.helpers.artifacts.saved import COUNTER, MIXED, TRANSFORMED, results, same, write

pytestmark = pytest.mark.usefixtures("keep_models")

Compile = Callable[..., nnefc.Model]

WARNED = """\
version 1.0;
graph warned( x ) -> ( y )
{
    x = external(shape = [1, 4, 8, 8]);
    y = max_pool(x, size = [1, 1, 2, 2], border = 'ignore');
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("document", [MIXED, COUNTER, TRANSFORMED])
@pytest.mark.parametrize("as_folder", [False, True])
def test_cached_models_equal_compiled_ones(
    tmp_path: Path, imported: list[Any], document: str, as_folder: bool
) -> None:
    source = archive(tmp_path, document)
    if as_folder:
        with tarfile.open(source) as tar:
            tar.extractall(tmp_path / "unpacked", filter="data")
        source = tmp_path / "unpacked"
    imported.clear()
    anew = nnefc.compile(source, threads=1, keep=False)
    assert len(imported) == 1
    first, second = (nnefc.compile(source, threads=1) for _ in range(2))
    assert len(imported) == 2
    for model in (first, second):
        assert model.inputs == anew.inputs
        assert model.outputs == anew.outputs
        assert model.launches == anew.launches
        for seed in range(2):
            same(results(model, seed), results(anew, seed))
        anew.reset()
        assert list(model.variables) == list(anew.variables)
        for label, value in anew.variables.items():
            model.reset()
            np.testing.assert_array_equal(model.variables[label], value)
        assert nnefc.ir.print_graph(model.graph) == nnefc.ir.print_graph(anew.graph)


def test_states_begin_with_their_initial_values(tmp_path: Path) -> None:
    source = archive(tmp_path, COUNTER)
    first = nnefc.compile(source)
    start = first.variables["Sum"]
    results(first)
    first.variables["Sum"] = start + 7
    np.testing.assert_array_equal(nnefc.compile(source).variables["Sum"], start)


def test_warnings_are_repeated(tmp_path: Path) -> None:
    place = tmp_path / "document"
    place.mkdir()
    write(place, WARNED)
    given: list[str] = []
    for _ in range(2):
        with pytest.warns(NnefWarning) as caught:
            nnefc.compile(place)
        (warning,) = caught
        assert warning.filename == __file__
        given.append(str(warning.message))
    assert "border = 'ignore'" in given[0]
    assert given[0] == given[1]
    for _ in range(2):
        with pytest.raises(NnefError, match="border"):
            nnefc.compile(place, strict=True)


def test_errors_are_those_of_compiling(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "graph.nnef").write_text("version 1.0; graph g( x ) -> ( y ) { y = nothing(x); }")
    for source in (tmp_path, tmp_path / "absent.tgz", "\0", 5, None):
        messages: list[str] = []
        for keep in (True, False):
            with pytest.raises(NnefError) as error:
                nnefc.compile(source, keep=keep)  # pyright: ignore[reportArgumentType]
            messages.append(str(error.value))
        assert messages[0] == messages[1]
    with pytest.raises(NnefError, match="keep"):
        nnefc.compile(tmp_path, keep="yes")  # pyright: ignore[reportArgumentType]
    assert not entries(folder)


@pytest.mark.slow
def test_the_graph_is_that_of_the_document(tmp_path: Path) -> None:
    source = archive(tmp_path)
    nnefc.compile(source)
    models = [nnefc.compile(source) for _ in range(3)]
    expected = nnefc.ir.print_graph(nnefc.import_model(source))
    os.utime(source)
    assert nnefc.ir.print_graph(models[0].graph) == expected
    archive(tmp_path, seed=9)
    with pytest.raises(NnefError, match="has been changed or removed since"):
        print(models[1].graph)
    source.unlink()
    with pytest.raises(NnefError, match="has been changed or removed since"):
        print(models[2].graph)
    assert nnefc.ir.print_graph(models[0].graph) == expected
    results(models[2])


@pytest.mark.slow
def test_cached_models_can_be_saved_pickled_and_rebuilt(tmp_path: Path) -> None:
    source = archive(tmp_path)
    expected = results(nnefc.compile(source, keep=False, threads=1))
    nnefc.compile(source, threads=1)
    model = nnefc.compile(source, threads=1)
    source.unlink()
    model.save(tmp_path / "net.nnefc")
    assert open_file(tmp_path / "net.nnefc").content["options"] == {
        "accuracy": "fast",
        "check_indices": True,
        "tuned": True,
        "precision": "float32",
    }
    same(results(nnefc.load(tmp_path / "net.nnefc", threads=1)), expected)
    model.save(tmp_path / "both.nnefc", targets=["native", "x86-64-v2"])
    same(results(nnefc.load(tmp_path / "both.nnefc", threads=1)), expected)
    same(results(pickle.loads(pickle.dumps(model))), expected)


@pytest.mark.parametrize("options", [{}, {"tuned": False, "threads": 1}])
def test_a_cached_model_is_saved_as_compiled(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnefc.driver import targets

    compile_: Compile = nnefc.compile
    build, how = targets.build_native, list[Any]()

    def build_native(*arguments: Any) -> Any:
        how.append(arguments[2])
        return build(*arguments)

    source = archive(tmp_path)
    compile_(source, **options)
    models = compile_(source, **options), compile_(source, **options, keep=False)
    monkeypatch.setattr(targets, "build_native", build_native)
    for model in models:
        model.save(tmp_path / "net.nnefc", targets=["native"])
    assert how[0].algorithms == how[1].algorithms
    assert how[0].threads in (how[1].threads, usable_cpus())


def test_compiling_a_cached_model_reports_progress(tmp_path: Path) -> None:
    source = archive(tmp_path)
    steps: list[tuple[int, int]] = []
    nnefc.compile(source, progress=lambda done, total, _: steps.append((done, total)))
    assert steps[-1][0] == steps[-1][1] > 3


def bare(folder: Path, seed: int) -> Path:
    """A bare document with the data of `archive` beside it."""
    folder.mkdir(exist_ok=True)
    with tarfile.open(archive(folder, seed=seed)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "graph.nnef"


def test_bare_documents_are_cached_with_the_data_beside_them(
    tmp_path: Path, folder: Path, imported: list[Any]
) -> None:
    source = bare(tmp_path / "first", 3)
    expected = results(nnefc.compile(source))
    imported.clear()
    same(results(nnefc.compile(source)), expected)
    assert not imported
    assert len(entries(folder)) == 1
    bare(tmp_path / "first", 4)
    imported.clear()
    changed = results(nnefc.compile(source))
    assert imported == [source]
    same(changed, results(nnefc.compile(source, keep=False)))
    assert not np.array_equal(changed[0], expected[0])


def test_linked_weights_are_cached(tmp_path: Path, imported: list[Any]) -> None:
    """Folders of model hubs hold links to files named by their content."""
    source = bare(tmp_path / "first", 3)
    (data, *_) = source.parent.rglob("*.dat")
    expected = results(nnefc.compile(source, keep=False))
    data.symlink_to(data.rename(tmp_path / "blob"))
    for times in (1, 0):
        imported.clear()
        same(results(nnefc.compile(source.parent)), expected)
        assert len(imported) == times


def test_random_weights_are_replaced_by_data(tmp_path: Path) -> None:
    """A file that appears beside a document counts."""
    place = tmp_path / "document"
    place.mkdir()
    document = write(place, TRANSFORMED)
    random = results(nnefc.compile(document, random_weights=3))
    same(results(nnefc.compile(document, random_weights=3)), random)
    with tarfile.open(archive(tmp_path, TRANSFORMED, seed=5)) as tar:
        tar.extractall(place, filter="data")
    stored = results(nnefc.compile(document, random_weights=3))
    assert not np.array_equal(stored[0], random[0])
