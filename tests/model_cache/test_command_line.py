"""Cached models in the commands `nnefc cache list | verify | clear | explain | warm`."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

import nnefc
from nnefc.model_cache import facts
from tests.helpers.artifacts.model_cache import archive, entries
from tests.helpers.command_line import Cli

pytestmark = pytest.mark.usefixtures("keep_models")


def test_models_are_verified_listed_and_cleared(tmp_path: Path, folder: Path, cli: Cli) -> None:
    nnefc.compile(archive(tmp_path))
    (file,) = entries(folder)
    assert cli("cache", "verify").status == 0
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert cli("cache", "verify").status == 1
    assert file.stem in cli("cache", "list", "--json").out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cli("cache", "clear").status == 0
    assert not entries(folder)


def explained(cli: Cli, source: Path, *options: str) -> dict[str, Any]:
    """`nnefc cache explain` for whole models."""
    shown = cli("cache", "explain", source, *options, "--json")
    (row,) = (row for row in json.loads(shown.out) if row["kind"] == "model")
    return row


def test_hits_are_explained(tmp_path: Path, folder: Path, cli: Cli) -> None:
    source = archive(tmp_path)
    nnefc.compile(source, threads=1)
    (file,) = entries(folder)
    os.utime(file, (1e9, 1e9))
    row = explained(cli, source, "-t", "1")
    assert row["hit"]
    assert row["name"] == file.stem
    assert row["reasons"] == []
    assert "the compiled model is in the cache" in cli("cache", "explain", source, "-t", "1").out
    assert file.stat().st_mtime == 1e9, "that is no use of it"


def test_misses_are_explained(
    tmp_path: Path, folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = archive(tmp_path)
    (never,) = explained(cli, source)["reasons"]
    assert never.startswith("nnefc.compile or nnefc cache warm has never stored it")
    assert not (folder / "weights").exists()
    nnefc.compile(source, threads=1)
    assert explained(cli, source, "-t", "2")["reasons"] == ["threads 1 -> 2"]
    assert explained(cli, source, "-t", "1", "--accuracy", "strict")["reasons"] == [
        "accuracy fast -> strict"
    ]
    shape = explained(cli, source, "-t", "1", "-s", "x=2,3,28,24")
    assert shape["reasons"] == ["shapes None -> {'x': (2, 3, 28, 24)}"]
    copy = source.rename(tmp_path / "copy.nnef.tgz")
    assert explained(cli, copy, "-t", "1")["reasons"] == [f"path {source} -> {copy}"]
    archive(tmp_path, seed=4)
    (reason,) = explained(cli, source, "-t", "1")["reasons"]
    assert reason.startswith("document ")
    with monkeypatch.context() as patch:
        facts._environment.cache_clear()  # pyright: ignore[reportPrivateUsage]
        patch.setattr(facts, "_sources", lambda: [facts.SourceFile("a.py", 1, 2, 3)])
        row = explained(cli, copy, "-t", "1")
    facts._environment.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert row["reasons"] == [f"path {source} -> {copy}", "source nnefc changed"]
    assert not row["hit"]
    nnefc.compile(copy, threads=2)
    (folder / "weights" / "README").write_text("no entry")
    assert explained(cli, copy, "-t", "1")["reasons"] == ["threads 2 -> 1"], "the nearest"
    shown = cli("cache", "explain", copy, "-t", "1").out
    assert "the compiled model is not in the cache: threads 2 -> 1" in shown


def test_models_that_are_never_cached_are_explained(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = archive(tmp_path)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "graph.nnef").symlink_to(tmp_path / "document" / "graph.nnef")
    (linked / "data").symlink_to(tmp_path)
    for path, environment, expected in (
        (linked, {}, "links to other things than files"),
        (source, {"NNEFC_CACHE_LIMIT": "1 kB"}, "more than 1/4 of the limit of the cache"),
        (source, {"NNEFC_VERIFY": "1"}, "NNEFC_VERIFY or NNEFC_DUMP is set"),
        (source, {"NNEFC_KEEP": "off"}, "NNEFC_KEEP is off"),
    ):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            row = explained(cli, path, "--random-weights", "3")
        assert not row["hit"]
        assert row["name"] is None
        assert expected in row["reasons"][0]


def test_warm_stores_models(
    tmp_path: Path, folder: Path, cli: Cli, imported: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnefc.cli.support.printing._COMPILING_SECONDS", 1e9)  # tell of no delay
    source = archive(tmp_path)
    shown = cli("cache", "warm", source, "-t", "1", "--json")
    assert json.loads(shown.out)["models_kept"] == 1
    assert shown.err.count("\n") == 1, "it says where models are kept"
    assert len(entries(folder)) == 1
    imported.clear()
    nnefc.compile(source, threads=1)
    assert not imported
    assert "; 1 model stored" in cli("cache", "warm", source, "-t", "1").out
    assert len(entries(folder)) == 1
    how = ("--shape", "x=2,3,28,24", "--dialect", "nnef")
    assert "; 1 model stored" in cli("cache", "warm", source, "-t", "1", *how).out
    assert len(entries(folder)) == 2
    assert explained(cli, source, "-t", "1", *how)["hit"]
    imported.clear()
    nnefc.compile(source, threads=1, shapes={"x": (2, 3, 28, 24)}, dialect="nnef")
    assert not imported
    monkeypatch.setenv("NNEFC_KEEP", "off")
    shown = cli("cache", "warm", source, "-t", "1")
    assert "kept" not in shown.out
    assert shown.status == 0
