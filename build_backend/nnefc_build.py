"""The build backend: setuptools, and wheels that ship compiled kernels.

    python -m build --wheel -C kernels=release      # all kernels that common networks need
    python -m build --wheel -C kernels=small        # those of one network for this machine (tests)

Without the setting, wheels contain no compiled kernels.  With it, setuptools builds a wheel, whose
own modules then compile the kernels, so that code and sources belong together.  Nothing is written
into the source tree.
"""

# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# (setuptools' backend is not typed)

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from wheel_files import add_files

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, Any] | None

SETS: Final = ("small", "release")
"""Values of the setting `kernels`; see `kernel_packs.networks.SETS`."""
_ROOT: Final = Path(__file__).resolve().parents[1]
_OWN: Final = "kernels"
_EPOCH: Final = "315532800"
"""The first second that zip archives can store: 1 January 1980."""


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """The requirements of setuptools; with kernels, also those of the package itself."""
    kernels, others = _split(config_settings)
    requires: list[str] = build_meta.get_requires_for_build_wheel(others)
    if kernels is not None:
        project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
        requires += project["dependencies"]
    return requires


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel in a folder; returns the name of the file."""
    kernels, others = _split(config_settings)
    if kernels is None:
        return build_meta.build_wheel(wheel_directory, others, metadata_directory)
    os.environ.setdefault("SOURCE_DATE_EPOCH", _EPOCH)
    with TemporaryDirectory(prefix="nnefc-wheel-") as folder:
        # In a new folder, because setuptools would pack modules that an earlier build has left.
        new = ["build", "--build-base", folder, "egg_info", "--egg-base", folder]
        others["--global-option"] = [*_as_list(others.get("--global-option")), *new]
        name: str = build_meta.build_wheel(folder, others, metadata_directory)
        wheel = Path(folder, name)
        packs = _compile(wheel, kernels, Path(folder))
        add_files(wheel, {f"nnefc/runtime/shipped/{p.name}": p.read_bytes() for p in packs})
        shutil.copy(wheel, wheel_directory)
    return name


def _as_list(option: Any) -> list[str]:
    """The values of a setting, which may be given once or several times."""
    return [] if option is None else [option] if isinstance(option, str) else list(option)


def _compile(wheel: Path, kernels: str, folder: Path) -> Sequence[Path]:
    """The packs of a wheel, compiled by its own modules in another process."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "package")
    paths = [folder / "package", Path(__file__).parent, _ROOT]
    # -P: the checkout's own modules, in the current folder, must not come first.
    command = [sys.executable, "-P", "-m", "kernel_packs", kernels, str(folder / "packs")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    environment.pop("NNEFC_ISA", None)
    environment |= {"NNEFC_CACHE": "off", "NNEFC_SHIPPED": "off", "NNEFC_AHEAD": "off"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")  # not in the checkout
    subprocess.run(command, env=environment, check=True)
    return sorted((folder / "packs").iterdir())


def _split(settings: Settings) -> tuple[str | None, dict[str, Any]]:
    """(value of `kernels`, settings of setuptools); raises ValueError for an unknown value."""
    others = dict(settings or {})
    kernels = others.pop(_OWN, None)
    if kernels is not None and kernels not in SETS:
        raise ValueError(f"kernels={kernels}: expected {' or '.join(SETS)}")
    return kernels, others
