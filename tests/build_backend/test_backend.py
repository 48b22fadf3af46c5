"""The hooks of the build backend that need no build."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import nnefc_build
from wheel_files import add_files

RECORD = "nnefc-1.dist-info/RECORD"


def wheel(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nnefc/__init__.py", "")
        archive.writestr(RECORD, f"nnefc/__init__.py,sha256=x,0\n{RECORD},,\n")
    return path


def test_added_files_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    path = wheel(tmp_path / "one.whl")
    add_files(path, {"nnefc/a.pack": b"a" * 300})
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["nnefc/__init__.py", "nnefc/a.pack", RECORD]
        assert archive.read("nnefc/a.pack") == b"a" * 300
        lines = archive.read(RECORD).decode().splitlines()
        assert {item.date_time for item in archive.infolist()} == {(2001, 9, 9, 1, 46, 40)}
    assert lines[0] == "nnefc/__init__.py,sha256=x,0"
    # the digest is that of `sha256sum`
    digest = "mDX6a_TiCpueqBJQYwLpiYJyGmz40srmevVxKb8hrpA"
    assert lines[1:] == [f"nnefc/a.pack,sha256={digest},300", f"{RECORD},,"]


def test_wheels_are_reproducible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    paths = [wheel(tmp_path / name) for name in ("one.whl", "two.whl")]
    for path in paths:
        add_files(path, {"nnefc/a.pack": b"a"})
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == paths


def test_other_sets_of_kernels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kernels=all: expected small or release"):
        nnefc_build.build_wheel(str(tmp_path), {"kernels": "all"})
    assert list(tmp_path.iterdir()) == []


def test_compiling_kernels_needs_the_dependencies() -> None:
    plain = nnefc_build.get_requires_for_build_wheel({})
    with_kernels = nnefc_build.get_requires_for_build_wheel({"kernels": "small"})
    assert {each.partition(">")[0] for each in with_kernels} - {*plain} >= {"numba", "llvmlite"}
    assert not any("numba" in each for each in plain)
