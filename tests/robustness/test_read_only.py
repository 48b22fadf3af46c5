"""Loaded models run with read-only homes and caches, and write nowhere else."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.saved import TINY, compiled, inputs, python, results, same, transformed
from tests.helpers.command_line import Cli
from tests.helpers.disks import make_read_only

PROGRAM = """
import json, os, sys

begun = []
CHANGES = ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate", "os.chmod")


def note(event, arguments):
    opened = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if (opened or event in CHANGES) and not isinstance(arguments[0], int):
        begun.append(os.fspath(arguments[0]))


import warnings, numpy, nnefc

arrays = list(numpy.load(sys.argv[2]).values())
sys.addaudithook(note)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        model = nnefc.load(sys.argv[1], threads=1)
        results = [model(*arrays).tobytes().hex() for _ in range(2)]
print(json.dumps([results, [str(each.message) for each in caught], begun]))
"""

CACHE = Path(".cache") / "nnefc" / "kernels"


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """An empty folder, which `seal` makes read-only."""
    if os.geteuid() == 0:  # root may write regardless of modes
        disk: Callable[[str], Path] = request.getfixturevalue("disk")
        return disk("16m")
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def seal(home: Path) -> None:
    """Make the folder read-only."""
    if os.path.ismount(home):
        make_read_only(home)
        return
    for path in (home, *home.rglob("*")):
        path.chmod(0o500 if path.is_dir() else 0o400)


def unseal(home: Path) -> None:
    """Make the folder writable, so that it can be removed."""
    if not os.path.ismount(home):
        for path in (home, *home.rglob("*")):
            path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR)


@pytest.mark.parametrize("variable", ["HOME", "NNEFC_CACHE"])
@pytest.mark.parametrize(
    ("there", "warned"), [("", "kernels"), ("kernels", "weights"), ("weights", ""), ("entry", "")]
)
def test_loaded_models_run_with_a_read_only_cache(
    tmp_path: Path, home: Path, variable: str, there: str, warned: str
) -> None:
    """`there`: the innermost part of the cache that exists; `warned`: the folder in a warning."""
    path = transformed(tmp_path)
    model = nnefc.load(path, threads=1)
    np.savez(tmp_path / "in.npz", *inputs(model))
    right = results(model)[0].tobytes().hex()
    place = home / CACHE
    environment = {"HOME": str(home), "XDG_CACHE_HOME": "", "NNEFC_CACHE": ""}
    if variable == "NNEFC_CACHE":
        environment = {variable: str(place)}
    if there:
        weights = place / "weights"
        (place if there == "kernels" else weights).mkdir(parents=True, mode=0o700)
    if there == "entry":
        python(PROGRAM, path, tmp_path / "in.npz", **environment)
        assert list((place / "weights").glob("*.weights"))
    seal(home)
    before = sorted(home.rglob("*"))
    try:
        found, said, begun = json.loads(python(PROGRAM, path, tmp_path / "in.npz", **environment))
    finally:
        unseal(home)
    assert found == [right] * 2
    assert sorted(home.rglob("*")) == before
    assert len(said) == bool(warned)
    assert all(f"{place if warned == 'kernels' else place / warned}: " in text for text in said)
    assert all("stay in memory" in text for text in said)
    assert begun, "no attempt to write"
    assert [name for name in begun if not Path(name).is_relative_to(home)] == []


def test_failed_writes_are_errors(tmp_path: Path, home: Path) -> None:
    model = compiled(tmp_path, TINY)
    model.save(home / "net.nnefc")
    (home / "c").mkdir()
    seal(home)
    try:
        for write in (
            lambda: model.save(home / "net.nnefc"),
            lambda: model.save(home / "other.nnefc"),
            lambda: model.emit_c(home / "c"),
            lambda: model.emit_c(home / "new"),
        ):
            with pytest.raises(NnefError, match=r"Read-only|Permission denied") as caught:
                write()
            assert [error.rule for error in caught.value.errors] == ["data/write"]
        same(results(nnefc.load(home / "net.nnefc", verify=True)), results(model))
    finally:
        unseal(home)
    assert sorted(path.name for path in home.rglob("*")) == ["c", "net.nnefc"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("compile", "-o", "net.nnefc"),
        ("compile", "--emit", "c", "-o", "net"),
        ("run", "-o", "y.npy"),
        ("run", "-o", "."),
        ("inspect", "--html", "net.html"),
        ("profile", "--trace", "trace.json"),
    ],
)
def test_outputs_that_cannot_be_written_are_told_before_the_work(
    cli: Cli, home: Path, arguments: tuple[str, ...]
) -> None:
    """The model does not exist, which nobody gets to know."""
    command, *options, name = arguments
    seal(home)
    try:
        result = cli(command, "none.nnef", *options, home / name)
    finally:
        unseal(home)
    assert result.status == 1
    assert str(home) in result.err
    assert "cannot write: " in result.err
    assert "none.nnef" not in result.err
    assert not list(home.iterdir())
