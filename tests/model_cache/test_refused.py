"""Models that are not cached, and entries that count as missing."""

from __future__ import annotations

import mmap
import shutil
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.artifacts import content
from nnefc.frontends import read_model as frontend
from nnefc.model_cache import report
from nnefc.ops import custom
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.model_cache import archive, entries
from tests.helpers.artifacts.saved import COUNTER, LARGE, TRANSFORMED, results, same, write
from tests.helpers.disks import largest_file

pytestmark = pytest.mark.usefixtures("keep_models")

Compile = Callable[..., nnefc.Model]

CUSTOM = """\
version 1.0;
extension KHR_enable_fragment_definitions;
fragment scaled( x: tensor<scalar> ) -> ( y: tensor<scalar> );
graph custom( x ) -> ( y )
{
    x = external(shape = [1, 8]);
    y = scaled(x);
}
"""


def test_a_document_that_changes_during_compilation_is_not_cached(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    other, source = archive(tmp_path / "other", seed=4), archive(tmp_path)
    read = frontend.run_front_end

    def run_front_end(path: Any, *options: Any) -> Any:
        shutil.copy(other, source)
        return read(path, *options)

    with monkeypatch.context() as patch:
        patch.setattr(frontend, "run_front_end", run_front_end)
        found = nnefc.compile(source)
    assert not entries(folder)
    same(results(found), results(nnefc.compile(source)))


def test_a_folder_that_changes_during_compilation_is_not_cached(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(archive(tmp_path, LARGE)) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    file = tmp_path / "unpacked" / "w.dat"
    make = content.content_of_graph

    def content_of_graph(*arguments: Any) -> Any:
        made = make(*arguments)
        with file.open("r+b") as data:
            data.seek(2000)
            data.write(b"abcd")
        return made

    monkeypatch.setattr(content, "content_of_graph", content_of_graph)
    with pytest.raises(NnefError, match="modified since it was read"):
        nnefc.compile(tmp_path / "unpacked")
    assert not entries(folder)


def test_damaged_weights_are_removed(tmp_path: Path, folder: Path) -> None:
    source = archive(tmp_path, TRANSFORMED)
    expected = results(nnefc.compile(source))
    (file,) = entries(folder)
    for other in set((folder / "weights").iterdir()) - {file}:
        other.unlink()
    with file.open("r+b") as stream:
        stream.seek(100_000)
        byte = stream.read(1)
        stream.seek(100_000)
        stream.write(bytes([byte[0] ^ 1]))
    with pytest.raises(NnefError, match="checksum of the weights"):
        results(nnefc.compile(source))
    same(results(nnefc.compile(source)), expected)


@pytest.mark.parametrize("where", [0.0, 0.01, 0.9, 1.0])
@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_damaged_entries_count_as_missing(
    tmp_path: Path, folder: Path, where: float, damage: str
) -> None:
    source = archive(tmp_path)
    before = results(nnefc.compile(source))
    (file,) = entries(folder)
    data = bytearray(file.read_bytes())
    assert len(data) > 100_000
    at = min(int(where * len(data)), len(data) - 1)
    if damage == "flip":
        data[at] ^= 1
    else:
        del data[at:]
    file.unlink()
    file.write_bytes(data)
    file.chmod(0o600)
    same(results(nnefc.compile(source)), before)
    assert entries(folder) == [file]
    assert report.is_whole(_mapped(file), file.stem)


def _mapped(path: Path) -> Any:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def test_renamed_entries_count_as_missing(tmp_path: Path, folder: Path) -> None:
    source = archive(tmp_path)
    nnefc.compile(source, threads=1)
    (first,) = entries(folder)
    archive(tmp_path, seed=4)
    expected = results(nnefc.compile(source, threads=1))
    (second,) = set(entries(folder)) - {first}
    shutil.copy(first, second)
    same(results(nnefc.compile(source, threads=1)), expected)


def test_models_that_are_not_cached(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = archive(tmp_path)
    nnefc.compile(source, keep=False)
    nnefc.compile(nnefc.import_model(source))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "graph.nnef").symlink_to(tmp_path / "document" / "graph.nnef")
    (tmp_path / "linked" / "data").symlink_to(tmp_path)
    nnefc.compile(tmp_path / "linked", random_weights=3)
    monkeypatch.setenv("NNEFC_VERIFY", "1")
    nnefc.compile(source)
    monkeypatch.delenv("NNEFC_VERIFY")
    monkeypatch.setenv("NNEFC_KEEP", "OFF")
    nnefc.compile(source)
    monkeypatch.delenv("NNEFC_KEEP")
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "1 kB")
    nnefc.compile(source)
    assert not entries(folder)
    monkeypatch.setenv("NNEFC_CACHE", "off")
    nnefc.compile(source)


def test_custom_operations_are_not_cached(tmp_path: Path, folder: Path) -> None:
    place = tmp_path / "document"
    place.mkdir()
    write(place, CUSTOM)
    for factor in (2.0, 3.0):

        @nnefc.operation(
            "fragment scaled( x: tensor<scalar> ) -> ( y: tensor<scalar> )", replace=True
        )
        def _(emit: Any, op: Any, factor: float = factor) -> Any:
            return emit("mul", op.inputs[0], factor)

        try:
            model = nnefc.compile(place)
        finally:
            custom.unregister("scaled")
        np.testing.assert_array_equal(model(np.ones((1, 8), np.float32)), factor)
    assert not entries(folder)


def test_a_full_disk_stores_nothing(tmp_path: Path, folder: Path) -> None:
    source = archive(tmp_path)
    expected = results(nnefc.compile(source, keep=False))
    with largest_file(40_000):
        model = nnefc.compile(source)
    same(results(model), expected)
    assert not list((folder / "weights").iterdir())


def test_entries_larger_than_their_share_are_not_cached(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "document"
    place.mkdir()
    write(place, LARGE)
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "8MB")
    nnefc.compile(place, random_weights=3)
    assert not entries(folder)


def test_a_cache_removed_during_compilation(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = archive(tmp_path, COUNTER)
    expected = results(nnefc.compile(source, keep=False))
    real = content.content_of_graph

    def content_of_graph(*given: Any) -> Any:
        made = real(*given)
        shutil.rmtree(folder)
        folder.write_text("a file")
        return made

    monkeypatch.setattr(content, "content_of_graph", content_of_graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(results(nnefc.compile(source)), expected)
    assert folder.read_text() == "a file"
