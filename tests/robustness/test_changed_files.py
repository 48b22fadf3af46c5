"""Changes of files from which a model is mapped are errors, and never give wrong results."""

from __future__ import annotations

import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.saved import LARGE, results, same, write

Model = nnefc.Model
CHANGED = "modified since it was read"


def _shorter(path: Path) -> None:
    os.truncate(path, 200)


def _other_numbers(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(2000)
        file.write(b"abcd" * 100)
    os.utime(path, (1, 1))


@pytest.fixture(params=["folder", "tar"])
def source(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """A document and the file of its weights."""
    place = tmp_path / "document"
    place.mkdir()
    graph = nnefc.import_model(write(place, LARGE), random_weights=3)
    path = tmp_path / "net.tar"
    nnefc.save_archive(path, graph)
    if request.param == "tar":
        return path, path
    with tarfile.open(path) as tar:
        tar.extractall(tmp_path / "net", filter="data")
    return tmp_path / "net", tmp_path / "net" / "w.dat"


def _save(model: Model, folder: Path) -> None:
    model.save(folder / "net.nnefc")


def _pickle(model: Model, _: Path) -> None:
    pickle.dumps(model)


def _emit(model: Model, folder: Path) -> None:
    model.emit_c(folder / "c")


def _read(model: Model, _: Path) -> None:
    print(model.variables["w"])


def _archive(model: Model, folder: Path) -> None:
    nnefc.save_archive(folder / "again.tar", model)


def _compile(model: Model, _: Path) -> None:
    nnefc.compile(model.graph)


@pytest.mark.parametrize("change", [_shorter, _other_numbers])
@pytest.mark.parametrize("use", [_save, _pickle, _emit, _read, _archive, _compile])
def test_reading_a_changed_file_is_an_error(
    tmp_path: Path,
    source: tuple[Path, Path],
    change: Callable[[Path], None],
    use: Callable[[Model, Path], None],
) -> None:
    document, file = source
    model = nnefc.compile(document, keep=False)
    expected = results(model)
    change(file)
    with pytest.raises(NnefError, match=CHANGED) as error:
        use(model, tmp_path)
    assert str(file) in str(error.value)
    same(results(model), expected)
    assert not (tmp_path / "net.nnefc").exists()


@pytest.mark.parametrize("how", ["replaced", "removed", "touched again"])
def test_replaced_removed_or_touched_files_do_not_matter(
    tmp_path: Path, source: tuple[Path, Path], how: str
) -> None:
    document, file = source
    model = nnefc.compile(document, keep=False)
    expected = results(model), model.variables["w"]
    if how == "replaced":
        (tmp_path / "new").write_bytes(bytes(5))
        (tmp_path / "new").replace(file)
    elif how == "removed":
        file.unlink()
    else:
        status = file.stat()
        os.utime(file, ns=(0, status.st_mtime_ns))
    model.save(tmp_path / "net.nnefc")
    same(results(nnefc.load(tmp_path / "net.nnefc")), expected[0])
    np.testing.assert_array_equal(model.variables["w"], expected[1])
