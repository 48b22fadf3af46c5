"""`nnefc cache`, as a user types it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nnefc.cli.cache import listing
from nnefc.cli.cache.command import parse_age
from nnefc.cli.cache.listing import age
from nnefc.cli.support import printing
from nnefc.cli.support.printing import size
from nnefc.kernels.target.isa import host
from nnefc.kernels.target.processor import model_name
from nnefc.packing.inverse import ArrayView, PackingSpec
from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.artifact import weight_cache as packed_weights
from nnefc.runtime.artifact.weight_cache import MissingWeight
from nnefc.runtime.cache import entry as cache_entry
from nnefc.runtime.cache import kernel_cache as cache
from nnefc.runtime.cache import key as cache_key
from nnefc.runtime.cache.key import Key
from nnefc.runtime.cache.private_folder import PARTIAL
from nnefc.runtime.cache.survey import survey
from nnefc.support.errors import NnefError
from tests.helpers.cache.entries import entry, key
from tests.helpers.command_line import Cli

NET = """\
version 1.0;
graph net( x ) -> ( y )
{
    x = external(shape = [1, 8]);
    scaled = mul(x, 0.8715243);
    y = relu(scaled);
}
"""
"""A number that no other test multiplies by: its kernel is not in memory yet."""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A model of one kernel."""
    path = tmp_path / "net.nnef"
    path.write_text(NET)
    return path


def wait_until_old(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.parametrize("command", ["path", "list", "explain", "verify", "clear", "warm"])
def test_help(cli: Cli, command: str) -> None:
    assert command in cli("cache", "--help").out
    shown = cli("cache", command, "--help")
    assert shown.status == 0
    assert "Examples:" in shown.out
    assert "--json" in shown.out


def test_path(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("cache", "path") == (0, f"{folder}\n", "")
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "3 MB")
    shown = json.loads(cli("cache", "path", "--json").out)
    assert shown == {"path": str(folder), "limit_bytes": 3_000_000}
    assert not folder.exists()
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "much")
    assert cli("cache", "list").status == 1


@pytest.mark.parametrize("command", ["path", "list", "verify", "clear"])
def test_a_folder_that_is_not_there_is_empty(cli: Cli, folder: Path, command: str) -> None:
    shown = cli("cache", command)
    assert (shown.status, shown.err) == (0, "")
    assert not folder.exists()


@pytest.mark.parametrize("command", ["path", "list", "verify", "clear", "warm"])
def test_without_a_cache(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("NNEFC_CACHE", "off")
    result = cli("cache", command)
    assert result.status == 1
    assert result.out == ""
    assert "NNEFC_CACHE is off [internal/cache]" in result.err
    assert "hint: " in result.err


@pytest.mark.parametrize("command", ["list", "verify", "clear"])
@pytest.mark.parametrize("reason", ["Not a directory", "cannot be written to"])
def test_a_folder_that_cannot_be_created(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, reason: str
) -> None:
    """It is not the same as an empty one."""
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


def test_a_folder_that_is_refused(cli: Cli, folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    result = cli("cache", "list")
    assert result.status == 1
    assert "chmod go-w" in result.err


def test_list(cli: Cli, folder: Path) -> None:
    assert cli("cache", "list").out == f"0 entries, 0 B of at most 953.7 MiB in {folder}\n"
    cache.store_kernel(key("('a long', 'argument')"), bytes(5000))
    cache.store_kernel(key("(2,)"), b"code")
    entry(folder, "(2,)").write_bytes(b"something else")
    wait_until_old(entry(folder, "('a long', 'argument')"), 3 * 86400)
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


def test_long_lists_look_like_short_ones(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in ("('a long', 'argument')", "(2,)", "(33,)"):
        cache.store_kernel(key(arguments), bytes(5000 * len(arguments)))
    now = time.time()
    monkeypatch.setattr(listing, "time", SimpleNamespace(time=lambda: now))  # ages stay
    short = cli("cache", "list").out
    monkeypatch.setattr(printing, "_MAX_RICH_ROWS", 2)
    assert cli("cache", "list").out == short
    assert short.count("\n") == 8


def test_of_many_entries_the_last_used_are_listed(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for days, arguments in enumerate(("(3,)", "(2,)", "(1,)")):
        cache.store_kernel(key(arguments), b"code")
        wait_until_old(entry(folder, arguments), days * 86400)
    assert "more" not in cli("cache", "list").out
    monkeypatch.setattr(listing, "_ROWS", 2)
    short = cli("cache", "list").out
    assert "(3,)" in short
    assert "(1,)" not in short
    assert "… and 1 more: --all shows them" in short
    assert "3 entries, " in short
    assert "(1,)" in cli("cache", "list", "--all").out
    assert len(json.loads(cli("cache", "list", "--json").out)) == 3


def test_how_far_reading_has_come_is_told(folder: Path) -> None:
    for arguments in ("(1,)", "(2,)", "(3,)"):
        cache.store_kernel(key(arguments), b"code")
    told: list[tuple[int, int, str]] = []

    def progress(done: int, total: int, label: str) -> None:
        told.append((done, total, label))

    opened = cache.open_kernel_folder()
    assert opened is not None
    found = list(survey(opened, progress))
    assert len(found) == 3
    assert told == [(0, 3, "entries"), (1, 3, "entries"), (2, 3, "entries")]


def test_listing_is_no_use(cli: Cli, folder: Path) -> None:
    cache.store_kernel(key(), b"code")
    wait_until_old(entry(folder), 3 * 86400)
    cli("cache", "list")
    cli("cache", "verify")
    assert time.time() - entry(folder).stat().st_mtime > 2 * 86400


def test_verify(cli: Cli, folder: Path) -> None:
    for number in range(4):
        cache.store_kernel(key(f"({number},)"), b"code")
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


def test_clear(cli: Cli, folder: Path) -> None:
    for number in range(3):
        cache.store_kernel(key(f"({number},)"), b"code")
    (folder / "methods-1.json").write_text("{}")
    abandoned, fresh = folder / f"{PARTIAL}old", folder / f"{PARTIAL}new"
    for path in (abandoned, fresh):
        path.touch()
    wait_until_old(abandoned, 7200)
    wait_until_old(entry(folder, "(1,)"), 40 * 86400)
    older = cli("cache", "clear", "--older-than", "30d")
    assert older.status == 0
    assert older.out.startswith("removed 1 entry, ")
    assert older.out.endswith(", 2 left\n")
    assert cache.load_kernel(key("(1,)")) is None
    assert cache.load_kernel(key("(2,)")) == b"code"
    assert not abandoned.exists()
    facts = json.loads(cli("cache", "clear", "--json").out)
    assert (facts["removed"], facts["left"]) == (2, 0)
    assert sorted(folder.iterdir()) == [fresh, folder / "methods-1.json"]
    assert cli("cache", "clear").out == "removed 0 entries, 0 B\n"


def test_clear_with_a_clock_that_was_wrong(cli: Cli, folder: Path) -> None:
    cache.store_kernel(key(), b"code")
    wait_until_old(entry(folder), -40 * 86400)
    assert cli("cache", "clear", "--older-than", "1s").out.startswith("removed 0 entries")


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1y", "1e3d", "inf d"])
def test_ages_that_are_none(cli: Cli, folder: Path, text: str) -> None:
    cache.store_kernel(key(), b"code")
    result = cli("cache", "clear", f"--older-than={text}")
    assert result.status == 1
    assert "[input/option]" in result.err
    assert cache.load_kernel(key()) == b"code"


def test_ages() -> None:
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


# -- explain


def explained(cli: Cli, net: Path) -> dict[str, Any]:
    """What there is to say of the kernel that a model is."""
    shown = json.loads(cli("cache", "explain", net, "--json").out)
    rows = [row for row in shown if row["kind"] == "kernel"]
    assert any(row["family"].startswith("executor.") for row in rows)
    (row,) = (row for row in rows if not row["family"].startswith("executor."))
    return row


def pretend(folder: Path, wanted: Key, changes: dict[str, str], machine: str = "This one") -> None:
    """An entry of the same kernel that differs in some facts; "" stands for no such fact."""
    facts = {k: v for k, v in {**wanted.facts, **changes}.items() if v}
    name = f"{abs(hash(str(changes))):064x}"
    header = cache_entry.Header(facts, machine, time.time())
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.kernel").write_bytes(cache_entry.pack(name, header, b"code"))


@pytest.fixture
def wanted(cli: Cli, net: Path, folder: Path) -> Key:
    """The key of the kernel of the model, of which the cache has nothing."""
    row = explained(cli, net)
    found = cache_key.key_of(row["family"], row["arguments"], host())
    assert found is not None
    assert found.name == row["name"]
    assert not row["hit"]
    return found


def test_what_is_there(cli: Cli, net: Path, wanted: Key) -> None:
    cache.store_kernel(wanted, b"code")
    row = explained(cli, net)
    assert row["hit"]
    assert row["reasons"] == []
    assert " yes" in cli("cache", "explain", net).out


def test_what_was_never_compiled(cli: Cli, net: Path, folder: Path, wanted: Key) -> None:
    assert not folder.exists()
    row = explained(cli, net)
    assert not row["hit"]
    assert row["reasons"] == ["never compiled, or evicted"]
    assert not folder.exists()
    shown = cli("cache", "explain", net)
    assert shown.status == 0
    assert "no: never compiled, or evicted" in shown.out
    assert "kernels in the cache" in shown.out


def test_what_is_damaged(cli: Cli, net: Path, folder: Path, wanted: Key) -> None:
    folder.mkdir()
    (folder / f"{wanted.name}.kernel").write_bytes(b"nonsense")
    assert explained(cli, net)["reasons"] == ["the entry is damaged"]


NUMBERS = "instruction set: vector_bits"


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"numba": "0.61"}, ["numba 0.61 -> {numba}"]),
        ({"numba": "0.61", "nnefc": "0.0"}, ["numba 0.61 -> {numba}", "nnefc 0.0 -> {nnefc}"]),
        ({"python": "cpython-38"}, ["python cpython-38 -> {python}"]),
        ({"format": "0"}, ["format 0 -> {format}"]),
        ({"source kernels/target/isa.py": "0"}, ["source kernels/target/isa.py changed"]),
        (
            {"source kernels/target/isa.py": "", "source kernels/gone.py": "1"},
            ["sources kernels/target/isa.py, kernels/gone.py changed"],
        ),
        ({"processor": "0"}, ["processor differs: This one, here {machine}"]),
        (
            {"instruction set: name": "older", NUMBERS: "64", "processor": "0"},
            ["instruction set older -> {instruction set: name}"],
        ),
        ({NUMBERS: "64"}, ["instruction set is described otherwise: vector_bits 64 -> {bits}"]),
        ({"new": "1"}, ["new 1 -> none"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,  # pyright: ignore
)
def test_what_differs(
    cli: Cli, net: Path, folder: Path, wanted: Key, changes: dict[str, str], reasons: list[str]
) -> None:
    pretend(folder, wanted, changes)
    facts = {**wanted.facts, "machine": model_name(), "bits": wanted.facts[NUMBERS]}
    expected = [_filled(reason, facts) for reason in reasons]
    assert explained(cli, net)["reasons"] == expected


def _filled(text: str, facts: dict[str, str]) -> str:
    for name, value in facts.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def test_the_nearest_entry_counts(cli: Cli, net: Path, folder: Path, wanted: Key) -> None:
    pretend(
        folder, wanted, {"numba": "0.1", "llvmlite": "0.1", "source kernels/target/isa.py": "0"}
    )
    pretend(folder, wanted, {"llvmlite": "0.2"})
    pretend(folder, wanted, {"family": "of.another", "numba": "0"})
    expected = [f"llvmlite 0.2 -> {wanted.facts['llvmlite']}"]
    assert explained(cli, net)["reasons"] == expected


def test_a_source_that_changes(
    cli: Cli, net: Path, wanted: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing pretended: the kernel is kept, then a source is another."""
    cache.store_kernel(wanted, b"code")
    real = cache_key._source  # pyright: ignore[reportPrivateUsage]

    def source(module: str) -> Any:
        found = real(module)
        if found is not None and module == "kernels.vector.scalar":
            return found._replace(digest="other")
        return found

    monkeypatch.setattr(cache_key, "_source", source)
    cache_key.module_dependencies.cache_clear()
    try:
        row = explained(cli, net)
    finally:
        cache_key.module_dependencies.cache_clear()
    assert row["reasons"] == ["source kernels/vector/scalar.py changed"]


# -- warm


def test_warm_for_a_model(cli: Cli, net: Path, folder: Path) -> None:
    first = json.loads(cli("cache", "warm", net, "--json").out)
    assert first["kernels"] == first["compiled"] > 1
    assert explained(cli, net)["hit"]
    again = json.loads(cli("cache", "warm", "-m", net, "--json").out)
    assert again["kernels"] == first["kernels"]
    assert again["compiled"] < first["compiled"]


# -- weights


def keep_weights(folder: Path, origin: str) -> Path:
    """An entry of weights, as an artifact has it made; its file."""
    source = np.arange(60, dtype=np.float32).reshape(6, 10)
    packed = PackingSpec(ArrayView(0, (6, 10), (10, 1)), "panels", (3, 2))
    before = set((folder / "weights").glob("*"))
    packed_weights.load_or_pack(
        origin,
        [MissingWeight(0, "", source.dtype, packed)],
        lambda _: PackedWeight(source, packed.packing, packed.parameters),
    )
    (path,) = set((folder / "weights").glob("*")) - before
    return path


def test_weights_are_listed(cli: Cli, folder: Path) -> None:
    assert "of weights" not in cli("cache", "list").out
    cache.store_kernel(key(), b"code")
    sizes = {path.name: path.stat().st_size for path in (keep_weights(folder, o) for o in "ab")}
    shown = cli("cache", "list").out
    assert "1 entry, " in shown
    total = size(sum(sizes.values()))
    assert f"2 entries of models and weights, {total} of at most 7.451 GiB in " in shown
    kernel, *weights = json.loads(cli("cache", "list", "--json").out)
    assert kernel["kind"] == "kernel"
    assert {w["kind"] for w in weights} == {"weights"}
    assert {f"{w['name']}.weights": w["bytes"] for w in weights} == sizes
    assert set(weights[0]) == set(kernel)


def test_weights_are_verified(cli: Cli, folder: Path) -> None:
    cache.store_kernel(key(), b"code")
    bad, good, empty = (keep_weights(folder, origin) for origin in "abc")
    assert cli("cache", "verify") == (0, "4 entries: 4 whole\n", "")
    data = bytearray(bad.read_bytes())
    data[-1] ^= 1
    bad.write_bytes(data)
    empty.write_bytes(b"")
    for path in (bad, good):
        wait_until_old(path, 3 * 86400)
    result = cli("cache", "verify")
    assert result.status == 1
    assert f"damaged: {bad}\n" in result.out
    assert f"damaged: {empty}\n" in result.out
    assert result.out.endswith("4 entries: 2 whole, 2 damaged\n")
    assert time.time() - good.stat().st_mtime > 2 * 86400
    facts = json.loads(cli("cache", "verify", "--repair", "--json").out)
    assert (facts["entries"], facts["whole"], facts["removed"]) == (4, 2, 2)
    assert list((folder / "weights").iterdir()) == [good]
    assert cli("cache", "verify").status == 0


def test_weights_are_cleared(cli: Cli, folder: Path) -> None:
    cache.store_kernel(key(), b"code")
    old, new = (keep_weights(folder, origin) for origin in "ab")
    wait_until_old(old, 40 * 86400)
    nbytes = old.stat().st_size
    facts = json.loads(cli("cache", "clear", "--older-than", "30d", "--json").out)
    assert facts == {"removed": 1, "removed_bytes": nbytes, "left": 2}
    assert new.exists()
    assert cli("cache", "clear").out.startswith("removed 2 entries, ")
    assert list((folder / "weights").iterdir()) == []
    assert keep_weights(folder, "a") == old


def test_each_of_the_two_is_bounded(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_weights(folder, "a")
    assert "weights" in cli("cache", "path", "--help").out
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "3 MiB")
    assert cli("cache", "list").out.count("of at most 3 MiB in ") == 2
