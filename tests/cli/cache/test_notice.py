"""Commands that store a model or weights say so once per cache folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import nnefc
from nnefc.runtime.cache.kernel_cache import weights_path
from tests.helpers.artifacts.model_cache import archive, entries
from tests.helpers.command_line import Cli

pytestmark = pytest.mark.usefixtures("keep_models")

NOTE = "note: compiled models and packed weights are kept in "


@pytest.fixture(autouse=True)
def no_other_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes no time worth a line."""
    monkeypatch.setattr("nnefc.cli.support.printing._COMPILING_SECONDS", 1e9)


def test_the_first_command_that_stores_a_model_says_where(
    tmp_path: Path, folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, document = archive(tmp_path), tmp_path / "document" / "graph.nnef"
    assert cli("check", source).err == ""
    assert cli("cache", "explain", source, "--random-weights", "3").err == ""
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "512MiB")
    first = cli("cache", "warm", source, "--json")
    assert first.err.startswith(f"{NOTE}{weights_path()}, ")
    assert " KiB now and at most 512 MiB; NNEFC_CACHE_LIMIT limits them" in first.err
    assert first.err.count("\n") == 1
    assert NOTE not in first.out
    assert cli("cache", "warm", document, "--random-weights", "3").err == ""
    assert len(entries(folder)) == 2
    assert cli("cache", "clear").status == 0
    assert cli("cache", "warm", source).err == "", "told before"
    shutil.rmtree(folder)
    assert cli("cache", "warm", source).err.startswith(NOTE)


def test_programs_and_commands_that_store_nothing_are_silent(
    tmp_path: Path,
    folder: Path,
    cli: Cli,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = archive(tmp_path)
    monkeypatch.setenv("NNEFC_KEEP", "off")
    assert NOTE not in cli("cache", "warm", source).err
    monkeypatch.delenv("NNEFC_KEEP")
    nnefc.compile(source)
    assert capsys.readouterr().err == ""
    assert len(entries(folder)) == 1
