"""`nnefc cache explain | warm`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from nnefc.kernels.target.isa import host
from nnefc.kernels.target.processor import model_name
from nnefc.runtime.cache import entry_format as cache_entry
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.cache import key as cache_key
from nnefc.runtime.cache.key import Key
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
"""No other test multiplies by this number, so its kernel is not in memory yet."""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A model of one kernel."""
    path = tmp_path / "net.nnef"
    path.write_text(NET)
    return path


def explained(cli: Cli, net: Path) -> dict[str, Any]:
    """The record of the only kernel of a model besides the executor."""
    shown = json.loads(cli("cache", "explain", net, "--json").out)
    rows = [row for row in shown if row["kind"] == "kernel"]
    assert any(row["family"].startswith("executor.") for row in rows)
    (row,) = (row for row in rows if not row["family"].startswith("executor."))
    return row


def store_changed(
    folder: Path, wanted: Key, changes: dict[str, str], machine: str = "This one"
) -> None:
    """Store an entry of the same kernel with some facts changed; "" removes a fact."""
    facts = {k: v for k, v in {**wanted.facts, **changes}.items() if v}
    name = f"{abs(hash(str(changes))):064x}"
    header = cache_entry.Header(facts, machine, time.time())
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.kernel").write_bytes(cache_entry.pack(name, header, b"code"))


@pytest.fixture
def wanted(cli: Cli, net: Path, folder: Path) -> Key:
    """The key of the kernel of the model, which is not in the cache."""
    row = explained(cli, net)
    found = cache_key.key_of(row["family"], row["arguments"], host())
    assert found is not None
    assert found.name == row["name"]
    assert not row["hit"]
    return found


def test_hits_are_explained(cli: Cli, net: Path, wanted: Key) -> None:
    kernel_cache.store_kernel(wanted, b"code")
    row = explained(cli, net)
    assert row["hit"]
    assert row["reasons"] == []
    assert " yes" in cli("cache", "explain", net).out


def test_kernels_that_were_never_compiled_are_explained(
    cli: Cli, net: Path, folder: Path, wanted: Key
) -> None:
    assert not folder.exists()
    row = explained(cli, net)
    assert not row["hit"]
    assert row["reasons"] == ["never compiled, or evicted"]
    assert not folder.exists()
    shown = cli("cache", "explain", net)
    assert shown.status == 0
    assert "no: never compiled, or evicted" in shown.out
    assert "kernels in the cache" in shown.out


def test_damaged_entries_are_explained(cli: Cli, net: Path, folder: Path, wanted: Key) -> None:
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
        ({NUMBERS: "64"}, ["instruction set differs: vector_bits 64 -> {bits}"]),
        ({"new": "1"}, ["new 1 -> none"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,  # pyright: ignore
)
def test_differences_to_the_nearest_entry_are_explained(
    cli: Cli, net: Path, folder: Path, wanted: Key, changes: dict[str, str], reasons: list[str]
) -> None:
    store_changed(folder, wanted, changes)
    facts = {**wanted.facts, "machine": model_name(), "bits": wanted.facts[NUMBERS]}
    expected = [_filled(reason, facts) for reason in reasons]
    assert explained(cli, net)["reasons"] == expected


def _filled(text: str, facts: dict[str, str]) -> str:
    for name, value in facts.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def test_the_nearest_entry_is_compared(cli: Cli, net: Path, folder: Path, wanted: Key) -> None:
    store_changed(
        folder, wanted, {"numba": "0.1", "llvmlite": "0.1", "source kernels/target/isa.py": "0"}
    )
    store_changed(folder, wanted, {"llvmlite": "0.2"})
    store_changed(folder, wanted, {"family": "of.another", "numba": "0"})
    expected = [f"llvmlite 0.2 -> {wanted.facts['llvmlite']}"]
    assert explained(cli, net)["reasons"] == expected


def test_changed_sources_are_explained(
    cli: Cli, net: Path, wanted: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel is stored, then a source changes."""
    kernel_cache.store_kernel(wanted, b"code")
    real = cache_key._source  # pyright: ignore[reportPrivateUsage]

    def source(module: str) -> Any:
        found = real(module)
        if found is not None and module == "kernels.vector.expression_argument":
            return found._replace(digest="other")
        return found

    monkeypatch.setattr(cache_key, "_source", source)
    cache_key.module_dependencies.cache_clear()
    try:
        row = explained(cli, net)
    finally:
        cache_key.module_dependencies.cache_clear()
    assert row["reasons"] == ["source kernels/vector/expression_argument.py changed"]


def test_warm_for_a_model(cli: Cli, net: Path, folder: Path) -> None:
    first = json.loads(cli("cache", "warm", net, "--json").out)
    assert first["kernels"] == first["compiled"] > 1
    assert explained(cli, net)["hit"]
    again = json.loads(cli("cache", "warm", "-m", net, "--json").out)
    assert again["kernels"] == first["kernels"]
    assert again["compiled"] < first["compiled"]
