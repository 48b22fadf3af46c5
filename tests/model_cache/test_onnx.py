"""Compiled ONNX models are cached with the files of their external data, and start without onnx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.formats.fingerprints import take_fingerprint
from nnefc.model_cache.entry import ModelCacheEntry
from nnefc.options.compile_config import CompileConfig
from nnefc.options.import_config import import_config
from nnefc.runtime.cache import key
from tests.helpers.artifacts.model_cache import entries
from tests.helpers.onnx.models import ROWS, passing, save
from tests.model_cache.test_start import PACKAGES, modules

X = np.ones((2, 3), np.float32)


def names(path: Path) -> list[str]:
    found = take_fingerprint(path)
    assert found is not None
    return [name for name, *_ in found.stamp]


def test_external_files_are_files_of_the_model(tmp_path: Path) -> None:
    path = save(passing(), tmp_path / "net.onnx", external="w.bin")
    (tmp_path / "other.bin").write_bytes(b"unrelated")
    assert names(path) == ["net.onnx", "w.bin"]
    before: Any = take_fingerprint(path)
    digest = before.digest()
    (tmp_path / "w.bin").write_bytes((ROWS + 1).tobytes())
    assert not before.is_unchanged
    after: Any = take_fingerprint(path)
    assert after.digest() != digest


@pytest.mark.parametrize("location", ["../w.bin", "missing.bin"])
def test_files_that_an_import_refuses_have_no_fingerprint(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = save(passing(), folder / "net.onnx", external="w.bin.onnx1")
    name = b"w.bin.onnx1"
    changed = path.read_bytes().replace(name, location.encode().ljust(len(name), b"x"))
    path.write_bytes(changed)
    assert take_fingerprint(path) is None


def test_a_damaged_file_has_no_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(passing().SerializeToString()[:-1000])
    assert take_fingerprint(path) is None


@pytest.mark.usefixtures("keep_models")
def test_a_changed_weight_is_another_model(tmp_path: Path, folder: Path) -> None:
    path = save(passing(), tmp_path / "net.onnx", external="w.bin")
    for add in (0, 1, 0):
        (tmp_path / "w.bin").unlink()
        (tmp_path / "w.bin").write_bytes((ROWS + add).tobytes())
        np.testing.assert_array_equal(nnefc.compile(path)(X)[1], ROWS + add)
    assert len(entries(folder)) == 2


@pytest.mark.usefixtures("keep_models")
@pytest.mark.parametrize("external", ["", "w.bin"])
def test_a_cached_model_needs_neither_onnx_nor_numba(
    tmp_path: Path, folder: Path, external: str
) -> None:
    path = save(passing(), tmp_path / "net.onnx", external=external)
    first, _ = modules(path)
    assert "onnx" in first
    assert len(entries(folder)) == 1
    compiled, called = modules(path)
    light = {"nnefc.driver.compile", "nnefc.driver.lower_graph"}
    for package in PACKAGES:
        assert not {name for name in called if name.startswith(f"nnefc.{package}.")} - light
    heavy = {"onnx", "google.protobuf", "numba", "llvmlite", "dataclasses", "hashlib"}
    assert not called & heavy
    assert "nnefc.formats.onnx.external_files" in compiled


@pytest.mark.usefixtures("keep_models")
def test_another_version_of_the_package_makes_another_model(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bodies of functions are its; a stored model serves where it is not installed."""
    path = save(passing(), tmp_path / "net.onnx")

    def is_stored() -> bool:
        importing, config = import_config(path, {}), CompileConfig.of(None)
        return ModelCacheEntry.of(path, importing, config).exists

    nnefc.compile(path)
    assert len(entries(folder)) == 1
    assert is_stored()
    real, installed = key.version_of, ""

    def version_of(package: str) -> str:
        return installed if package == "onnx" else real(package)

    monkeypatch.setattr(key, "version_of", version_of)
    for installed, expected in ((key.NOT_INSTALLED, True), ("0.1", False)):  # noqa: B007
        assert is_stored() is expected
    nnefc.compile(path)
    assert is_stored()
    assert len(entries(folder)) == 1
