"""`nnefc cache path | list | verify | clear`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from nnefc.cli.cache import listing
from nnefc.cli.cache.command import parse_age
from nnefc.cli.cache.listing import age
from nnefc.cli.support import printing
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.cache.private_folder import PARTIAL
from nnefc.runtime.cache.report import survey
from nnefc.support.errors import NnefError
from tests.helpers.cache.entries import entry, key
from tests.helpers.cache.folders import age_to
from tests.helpers.command_line import Cli


@pytest.mark.parametrize("command", ["path", "list", "explain", "verify", "clear", "warm"])
def test_every_sub_command_has_help_with_examples(cli: Cli, command: str) -> None:
    assert command in cli("cache", "--help").out
    shown = cli("cache", command, "--help")
    assert shown.status == 0
    assert "Examples:" in shown.out
    assert "--json" in shown.out


def test_path_shows_folder_and_limit(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("cache", "path") == (0, f"{folder}\n", "")
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "3 MB")
    shown = json.loads(cli("cache", "path", "--json").out)
    assert shown == {"path": str(folder), "limit_bytes": 3_000_000}
    assert not folder.exists()
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "much")
    assert cli("cache", "list").status == 1


@pytest.mark.parametrize("command", ["path", "list", "verify", "clear"])
def test_a_missing_folder_is_empty(cli: Cli, folder: Path, command: str) -> None:
    shown = cli("cache", command)
    assert (shown.status, shown.err) == (0, "")
    assert not folder.exists()


@pytest.mark.parametrize("command", ["path", "list", "verify", "clear", "warm"])
def test_sub_commands_fail_without_a_cache(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("NNEFC_CACHE", "off")
    result = cli("cache", command)
    assert result.status == 1
    assert result.out == ""
    assert "NNEFC_CACHE is off [internal/cache]" in result.err
    assert "hint: " in result.err


@pytest.mark.parametrize("command", ["list", "verify", "clear"])
@pytest.mark.parametrize("reason", ["Not a directory", "cannot be written to"])
def test_a_folder_that_cannot_be_created_is_an_error(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, reason: str
) -> None:
    """Such a folder does not count as empty."""
    parent = tmp_path / "parent"
    if reason == "Not a directory":
        parent.write_text("")
    else:
        parent.mkdir(0o500)
        if os.access(parent, os.W_OK):
            pytest.skip("this user can write everywhere")
    monkeypatch.setenv("NNEFC_CACHE", str(parent / "below" / "kernels"))
    result = cli("cache", command)
    assert (result.status, result.out) == (1, "")
    assert f"the cache of kernels cannot be at {parent}" in result.err
    assert f"{reason} [internal/cache]" in result.err


def test_a_folder_that_others_can_write_to_is_an_error(cli: Cli, folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    result = cli("cache", "list")
    assert result.status == 1
    assert "chmod go-w" in result.err


def test_a_cache_that_cannot_be_used_is_a_warning(tmp_path: Path, folder: Path) -> None:
    """In the form of other messages, without a line of Python; the command itself works."""
    folder.write_text("")
    graph = tmp_path / "graph.nnef"
    graph.write_text("version 1.0; graph g(x) -> (y) { x = external(shape = [2]); y = neg(x); }")
    # a process that has no kernels in memory
    command = [sys.executable, "-m", "nnefc", "compile", graph, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, hint, *_ = done.stderr.splitlines()
    wanted = f"warning: the cache of kernels cannot be at {folder}: File exists [internal/cache]"
    assert first == wanted
    assert hint.startswith("  hint: compiled kernels stay in memory; ")
    assert [each["rule"] for each in json.loads(done.stdout)["warnings"]] == ["internal/cache"]


def test_lock_files_of_killed_processes_are_no_entries(cli: Cli, folder: Path) -> None:
    kernel_cache.store_kernel(key("(2,)"), b"code")
    weights = kernel_cache.weight_folder()
    assert weights is not None
    for place in (folder, Path(weights.path)):
        (place / f"{key('(3,)').name}.lock").touch()
    assert "\n1 entry, " in cli("cache", "list").out
    (listed,) = json.loads(cli("cache", "list", "--json").out)
    assert listed["name"] == key("(2,)").name
    assert json.loads(cli("cache", "verify", "--json").out)["entries"] == 1
    assert json.loads(cli("cache", "clear", "--json").out)["removed"] == 1


def test_list_shows_whole_and_damaged_entries(cli: Cli, folder: Path) -> None:
    assert cli("cache", "list").out == f"0 entries, 0 B of at most 953.7 MiB in {folder}\n"
    kernel_cache.store_kernel(key("('a long', 'argument')"), bytes(5000))
    kernel_cache.store_kernel(key("(2,)"), b"code")
    entry(folder, "(2,)").write_bytes(b"something else")
    age_to(entry(folder, "('a long', 'argument')"), 3 * 86400)
    result = cli("cache", "list")
    assert result.status == 0
    assert "convolution.direct.convolve" in result.out
    assert "('a long', 'argument')" in result.out
    assert "3 d" in result.out
    assert "(damaged)" in result.out
    assert "2 entries, " in result.out
    damaged, whole = json.loads(cli("cache", "list", "--json").out)
    assert (damaged["state"], damaged["facts"], damaged["bytes"]) == ("damaged", None, 14)
    assert whole["state"] == "whole"
    assert whole["facts"]["family"] == "convolution.direct.convolve"
    assert whole["name"] == key("('a long', 'argument')").name
    assert abs(time.time() - whole["created"]) < 60
    assert whole["bytes"] > 5000


def test_long_tables_are_laid_out_like_short_ones(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in ("('a long', 'argument')", "(2,)", "(33,)"):
        kernel_cache.store_kernel(key(arguments), bytes(5000 * len(arguments)))
    now = time.time()
    monkeypatch.setattr(listing, "time", SimpleNamespace(time=lambda: now))  # ages stay
    short = cli("cache", "list").out
    monkeypatch.setattr(printing, "_MAX_RICH_ROWS", 2)
    assert cli("cache", "list").out == short
    assert short.count("\n") == 8


def test_long_lists_show_the_entries_used_last(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for days, arguments in enumerate(("(3,)", "(2,)", "(1,)")):
        kernel_cache.store_kernel(key(arguments), b"code")
        age_to(entry(folder, arguments), days * 86400)
    assert "more" not in cli("cache", "list").out
    monkeypatch.setattr(listing, "_ROWS", 2)
    short = cli("cache", "list").out
    assert "(3,)" in short
    assert "(1,)" not in short
    assert "… and 1 more: --all shows them" in short
    assert "3 entries, " in short
    assert "(1,)" in cli("cache", "list", "--all").out
    assert len(json.loads(cli("cache", "list", "--json").out)) == 3


def test_reading_entries_reports_progress(folder: Path) -> None:
    for arguments in ("(1,)", "(2,)", "(3,)"):
        kernel_cache.store_kernel(key(arguments), b"code")
    told: list[tuple[int, int, str]] = []

    def progress(done: int, total: int, label: str) -> None:
        told.append((done, total, label))

    opened = kernel_cache.open_kernel_folder()
    assert opened is not None
    found = list(survey(opened, progress))
    assert len(found) == 3
    assert told == [(0, 3, "entries"), (1, 3, "entries"), (2, 3, "entries")]


def test_listing_does_not_count_as_a_use(cli: Cli, folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"code")
    age_to(entry(folder), 3 * 86400)
    cli("cache", "list")
    cli("cache", "verify")
    assert time.time() - entry(folder).stat().st_mtime > 2 * 86400


def test_verify_reports_and_repairs_damaged_entries(cli: Cli, folder: Path) -> None:
    for number in range(4):
        kernel_cache.store_kernel(key(f"({number},)"), b"code")
    assert cli("cache", "verify") == (0, "4 entries: 4 whole\n", "")
    bad = entry(folder, "(1,)")
    bad.write_bytes(bad.read_bytes()[:-1])
    other = entry(folder, "(2,)")
    other.write_bytes(b"nnefc object 9\nwhat is to come")
    result = cli("cache", "verify")
    assert result.status == 1
    assert result.out == (f"damaged: {bad}\n4 entries: 2 whole, 1 damaged, 1 of another format\n")
    facts = json.loads(cli("cache", "verify", "--json").out)
    assert facts["damaged"] == [key("(1,)").name]
    assert (facts["whole"], facts["other_format"], facts["removed"]) == (2, 1, 0)
    mended = cli("cache", "verify", "--repair")
    assert mended.status == 0
    assert mended.out.endswith("1 damaged, 1 of another format, 1 removed\n")
    assert not bad.exists()
    assert other.exists()
    assert cli("cache", "verify").status == 0


def test_clear_removes_old_or_all_entries(cli: Cli, folder: Path) -> None:
    for number in range(3):
        kernel_cache.store_kernel(key(f"({number},)"), b"code")
    (folder / "algorithms-1.json").write_text("{}")
    abandoned, fresh = folder / f"{PARTIAL}old", folder / f"{PARTIAL}new"
    for path in (abandoned, fresh):
        path.touch()
    age_to(abandoned, 7200)
    age_to(entry(folder, "(1,)"), 40 * 86400)
    older = cli("cache", "clear", "--older-than", "30d")
    assert older.status == 0
    assert older.out.startswith("removed 1 entry, ")
    assert older.out.endswith(", 2 left\n")
    assert kernel_cache.load_kernel(key("(1,)")) is None
    assert kernel_cache.load_kernel(key("(2,)")) == b"code"
    assert not abandoned.exists()
    facts = json.loads(cli("cache", "clear", "--json").out)
    assert (facts["removed"], facts["left"]) == (2, 0)
    assert sorted(folder.iterdir()) == [fresh, folder / "algorithms-1.json"]
    assert cli("cache", "clear").out == "removed 0 entries, 0 B\n"


def test_clear_keeps_entries_from_the_future(cli: Cli, folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"code")
    age_to(entry(folder), -40 * 86400)
    assert cli("cache", "clear", "--older-than", "1s").out.startswith("removed 0 entries")


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1y", "1e3d", "inf d"])
def test_wrong_ages_are_refused(cli: Cli, folder: Path, text: str) -> None:
    kernel_cache.store_kernel(key(), b"code")
    result = cli("cache", "clear", f"--older-than={text}")
    assert result.status == 1
    assert "[input/option]" in result.err
    assert kernel_cache.load_kernel(key()) == b"code"


def test_ages_are_parsed_and_printed_with_units() -> None:
    texts = ("30s", "90 m", "1.5h", "2D", "1w")
    assert [parse_age(text) for text in texts] == [30, 5400, 5400, 172800, 604800]
    assert [age(s) for s in (-5, 0, 59, 61, 7200, 90000)] == [
        "in the future",
        "0 s",
        "59 s",
        "1 m",
        "2 h",
        "1 d",
    ]
    with pytest.raises(NnefError):
        parse_age("soon")
