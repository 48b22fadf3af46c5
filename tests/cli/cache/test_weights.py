"""`nnefc cache` and the packed weights of artifacts."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from nnefc.cli.support.printing import size
from nnefc.kernels.packing.inverse import ArrayView, PackingSpec
from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.artifact import weight_cache
from nnefc.runtime.artifact.weight_cache import MissingWeight
from nnefc.runtime.cache import kernel_cache
from tests.helpers.cache.entries import key
from tests.helpers.cache.folders import age_to
from tests.helpers.command_line import Cli


def store_weights(folder: Path, origin: str) -> Path:
    """Store packed weights as an artifact does; returns the file of the entry."""
    source = np.arange(60, dtype=np.float32).reshape(6, 10)
    packed = PackingSpec(ArrayView(0, (6, 10), (10, 1)), "panels", (3, 2))
    before = set((folder / "weights").glob("*"))
    weight_cache.load_or_pack(
        origin,
        [MissingWeight(0, "", source.dtype, packed)],
        lambda _: PackedWeight(source, packed.packing, packed.parameters),
    )
    (path,) = set((folder / "weights").glob("*")) - before
    return path


def test_weights_are_listed(cli: Cli, folder: Path) -> None:
    assert "of weights" not in cli("cache", "list").out
    kernel_cache.store_kernel(key(), b"code")
    sizes = {path.name: path.stat().st_size for path in (store_weights(folder, o) for o in "ab")}
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
    kernel_cache.store_kernel(key(), b"code")
    bad, good, empty = (store_weights(folder, origin) for origin in "abc")
    assert cli("cache", "verify") == (0, "4 entries: 4 whole\n", "")
    data = bytearray(bad.read_bytes())
    data[-1] ^= 1
    bad.write_bytes(data)
    empty.write_bytes(b"")
    for path in (bad, good):
        age_to(path, 3 * 86400)
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
    kernel_cache.store_kernel(key(), b"code")
    old, new = (store_weights(folder, origin) for origin in "ab")
    age_to(old, 40 * 86400)
    nbytes = old.stat().st_size
    facts = json.loads(cli("cache", "clear", "--older-than", "30d", "--json").out)
    assert facts == {"removed": 1, "removed_bytes": nbytes, "left": 2}
    assert new.exists()
    assert cli("cache", "clear").out.startswith("removed 2 entries, ")
    assert list((folder / "weights").iterdir()) == []
    assert store_weights(folder, "a") == old


def test_kernels_and_weights_have_limits_of_their_own(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_weights(folder, "a")
    assert "weights" in cli("cache", "path", "--help").out
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "3 MiB")
    assert cli("cache", "list").out.count("of at most 3 MiB in ") == 2
