"""Full disks: saved files are whole or unchanged, and loaded models run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

import pytest

import nnefc
from nnefc.runtime.cache.lru_folder import LruFolder
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.saved import LARGE, TINY, compiled, results, same, transformed, write
from tests.helpers.command_line import Cli
from tests.helpers.disks import largest_file

Disk = Callable[[str], Path]
Place = tuple[Path, Callable[[], AbstractContextManager[None]]]
"""A folder, and a context in which a megabyte does not fit into it."""


@pytest.fixture(params=["disk", "limit"])
def narrow(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A full disk, or a process with a file size limit, which needs no permission to mount."""
    if request.param == "disk":
        disk: Disk = request.getfixturevalue("disk")
        return disk("512k"), nullcontext
    (tmp_path / "narrow").mkdir()
    return tmp_path / "narrow", lambda: largest_file(500_000)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> nnefc.Model:
    return compiled(tmp_path_factory.mktemp("large"), LARGE, threads=1)


def refused(write: Callable[[], object], needed: int = 0) -> None:
    """Assert that `write` fails with an error that reports the free and the required bytes."""
    with pytest.raises(NnefError) as caught:
        write()
    (error,) = caught.value.errors
    assert error.rule == "data/write"
    assert re.search("No space left on device|File too large", error.message)
    sizes = re.findall(r"([\d,]+) (?:bytes|are)", error.message)
    room, *least = (int(digits.replace(",", "")) for digits in sizes)
    assert 400_000 <= room <= 600_000
    assert least == ([needed] if needed else [])
    assert "make room" in error.hint


# -- artifacts


@pytest.mark.parametrize("is_loaded", [False, True], ids=["compiled", "loaded"])
def test_failed_saving_leaves_existing_files_unchanged(
    tmp_path: Path, narrow: Place, large: nnefc.Model, is_loaded: bool
) -> None:
    place, full = narrow
    model, needed = large, 600 * 1024 * 4
    if is_loaded:
        path = tmp_path / "large.nnefc"
        large.save(path)
        model, needed = nnefc.load(path), path.stat().st_size
    net = place / "net.nnefc"
    with full():
        refused(lambda: model.save(net), needed)
        assert list(place.iterdir()) == []
    tiny = compiled(tmp_path, TINY)
    with full():
        tiny.save(net)
        before = net.read_bytes()
        with pytest.raises(NnefError, match=f"at least {needed:,} are needed"):
            model.save(net)
        assert list(place.iterdir()) == [net]
        assert net.read_bytes() == before
        same(results(nnefc.load(net, verify=True)), results(tiny))
        tiny.save(place / "other.nnefc")  # there is room again
    assert (place / "other.nnefc").read_bytes() == before


def test_the_command_reports_a_full_disk(cli: Cli, tmp_path: Path, narrow: Place) -> None:
    place, full = narrow
    with full():
        result = cli(
            "compile", write(tmp_path, LARGE), "--random-weights", 3, "-o", place / "a.nnefc"
        )
    assert result.status == 1
    assert f"{place / 'a.nnefc'}: error: cannot write: " in result.err
    assert "at least 2,457,600 are needed [data/write]" in result.err
    assert "Traceback" not in result.err
    assert list(place.iterdir()) == []


def test_code_for_other_targets_needs_room_for_a_temporary_file(
    tmp_path: Path, narrow: Place, large: nnefc.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, full = narrow
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with full(), pytest.raises(NnefError, match="temporary file of 2,457,600 bytes") as caught:
        large.save(tmp_path / "net.nnefc", targets=["x86-64-v2"])
    assert caught.value.errors[0].rule == "data/write"
    assert "TMPDIR" in caught.value.errors[0].hint
    assert list(place.iterdir()) == []
    assert list(tmp_path.glob("*.nnefc")) == list(tmp_path.glob(".*")) == []
    monkeypatch.setattr(tempfile, "tempdir", str(place / "none"))
    with pytest.raises(NnefError, match="temporary file"):
        large.save(tmp_path / "net.nnefc", targets=["x86-64-v2"])


# -- weights that are packed at the first call


def test_weights_that_do_not_fit_stay_in_memory(
    tmp_path: Path, narrow: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, full = narrow
    path = transformed(tmp_path)
    expected = results(nnefc.load(path))
    monkeypatch.setenv("NNEFC_CACHE", str(place))
    tried = _begun(monkeypatch)
    with full(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (nnefc.load(path), nnefc.load(path)):
            for _ in range(2):
                same(results(model), expected)
    assert len(tried) == 2
    assert [p for p in place.rglob("*") if p.is_file()] == []


def _begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files of packed weights that are begun from now on."""
    names: list[str] = []
    real = LruFolder.writing

    def writing(self: LruFolder, name: str) -> AbstractContextManager[BinaryIO]:
        names.append(name)
        return real(self, name)

    monkeypatch.setattr(LruFolder, "writing", writing)
    return names


def test_saving_needs_no_room_for_cached_weights(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = transformed(tmp_path)
    model = nnefc.load(good)
    monkeypatch.setenv("NNEFC_CACHE", str(disk("512k")))
    tried = _begun(monkeypatch)
    model.save(tmp_path / "again.nnefc", targets=["native"])
    assert len(tried) == 1
    assert (tmp_path / "again.nnefc").read_bytes() == good.read_bytes()


# -- folders for programs in C


def test_folders_for_c_are_written_whole_or_not_at_all(
    cli: Cli, tmp_path: Path, narrow: Place, large: nnefc.Model
) -> None:
    place, full = narrow
    (place / "empty").mkdir()
    with full():
        for name in ("new", "empty"):
            refused(lambda name=name: large.emit_c(place / name))
        result = cli(
            *("compile", write(tmp_path, LARGE), "--random-weights", 3),
            *("--emit", "c", "-o", place / "new"),
        )
    assert result.status == 1
    assert f"{place / 'new'}: error: cannot write: " in result.err
    assert "Traceback" not in result.err
    assert list(place.rglob("*")) == [place / "empty"]


def test_a_full_disk_leaves_out_only_the_shared_library(tmp_path: Path, disk: Disk) -> None:
    """The linker writes the library last, after all other files."""
    model = compiled(tmp_path, TINY)
    names = model.emit_c(tmp_path / "c")
    if "libtiny.so" not in names:
        pytest.skip("there is no linker")
    others = [name for name in names if name != "libtiny.so"]
    pages = sum(-(-(tmp_path / "c" / name).stat().st_size // 4096) for name in others)
    place = disk(f"{4 * (pages + 1)}k")
    with pytest.warns(nnefc.NnefWarning, match=r"no libtiny\.so: .* failed: "):
        assert model.emit_c(place / "c") == others
    for name in others:
        assert (place / "c" / name).read_bytes() == (tmp_path / "c" / name).read_bytes()
    assert sorted(p.name for p in (place / "c").iterdir()) == others
    assert list(place.iterdir()) == [place / "c"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the tests above have mounted disks")
def test_ordinary_users_pass_these_tests_in_a_namespace(tmp_path: Path) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"]).returncode:
        pytest.skip("there are no namespaces for users here")
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inside'}"]
    tests = [sys.executable, "-m", "pytest", *options, __file__]
    done = subprocess.run([*alone, *tests], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout
