"""The wheel contains all packages and data of the checkout."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_listed() -> None:
    """An explicit list is needed (the finder builds a nearly empty wheel): keep it complete."""
    found = {
        ".".join(Path(folder).relative_to(ROOT).parts)
        for folder, _, files in os.walk(ROOT / "nnefc", followlinks=True)
        if "__init__.py" in files
    }
    assert set(_project()["tool"]["setuptools"]["packages"]) == found


def test_every_mapped_folder_has_its_link() -> None:
    mapping: dict[str, str] = _project()["tool"]["setuptools"]["package-dir"]
    for package, folder in mapping.items():
        if package == "nnefc":
            continue
        link = ROOT.joinpath(*package.split("."))
        assert link.is_symlink()
        assert link.resolve() == (ROOT / folder).resolve()


@pytest.mark.parametrize("package", ["nnefc.cli.digits"])
def test_package_data_exists(package: str) -> None:
    folder = ROOT.joinpath(*package.split("."))
    for pattern in _project()["tool"]["setuptools"]["package-data"][package]:
        assert list(folder.glob(pattern)), pattern


def test_version_is_written_once() -> None:
    import nnefc

    assert nnefc.__version__ == _project()["project"]["version"]
