"""The file of measured algorithms: merged, bounded, and ignored if foreign or damaged."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from nnefc.runtime.cache import kernel_cache, tuning_store
from tests.conftest import ChoiceFiles


def test_stored_algorithms_are_merged(store: Path) -> None:
    assert tuning_store.load_algorithms(1) == {}
    tuning_store.store_algorithms(1, {"a": "direct", "b": "winograd4"})
    tuning_store.store_algorithms(1, {"b": None, "c": "winograd2", "d": None})
    assert tuning_store.load_algorithms(1) == {"a": "direct", "c": "winograd2"}
    assert tuning_store.load_algorithms(2) == {}


def test_processes_that_tune_at_once_lose_no_result(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks exclude threads like processes."""
    load = tuning_store.load_algorithms

    def slow_load(threads: int) -> dict[str, str]:
        loaded = load(threads)
        time.sleep(0.05)
        return loaded

    monkeypatch.setattr(tuning_store, "load_algorithms", slow_load)
    workers = [
        threading.Thread(target=tuning_store.store_algorithms, args=(1, {name: "direct"}))
        for name in "abcd"
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert load(1) == dict.fromkeys("abcd", "direct")


def test_a_file_that_stays_claimed_is_written(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that hangs must not keep others from storing."""
    monkeypatch.setattr(tuning_store, "_PATIENCE_SECONDS", 0.05)

    def claim_file(_: object, name: str) -> None:
        del name

    monkeypatch.setattr(ChoiceFiles, "claim_file", claim_file)
    assert tuning_store.store_algorithms(1, {"a": "direct"})


@pytest.mark.parametrize("algorithms", [["direct"], None, {"a": 1, "b": None}])
def test_damaged_tunings_are_ignored(store: Path, algorithms: object) -> None:
    tuning_store.store_algorithms(1, {"a": "direct"})
    (file,) = store.iterdir()
    facts = json.loads(file.read_text())
    facts["tunings"][0]["algorithms"] = algorithms
    file.write_text(json.dumps(facts))
    assert tuning_store.load_algorithms(1) == {}


def test_algorithms_are_those_of_the_same_kernels(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two versions of nnefc can be tuned on one machine; the oldest tunings are forgotten."""
    tuning_store.store_algorithms(1, {"a": "direct"})
    for version in range(8):
        with monkeypatch.context() as patch:
            patch.setattr(tuning_store, "_kernels", lambda version=version: [f"{version}"])
            assert tuning_store.load_algorithms(1) == {}
            tuning_store.store_algorithms(1, {"a": f"winograd{version}"})
            assert tuning_store.load_algorithms(1) == {"a": f"winograd{version}"}
        assert tuning_store.load_algorithms(1) == ({"a": "direct"} if version < 7 else {})


def test_sources_are_read_only_on_a_machine_that_was_tuned(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning_store, "_kernels", lambda: pytest.fail("sources are read"))
    assert tuning_store.load_algorithms(1) == {}


def test_nothing_is_stored_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_store, "kernel_cache", kernel_cache)
    monkeypatch.setattr(kernel_cache, "_folder", lambda: None)
    assert not tuning_store.store_algorithms(1, {"a": "direct"})
    assert tuning_store.load_algorithms(1) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"version": 4},
        {"version": None},
        {"machine": {"processor": "another"}},
        {"machine": None},
        {"tunings": {"algorithms": {"a": "direct"}}},
        {"tunings": None},
        {"tunings": [1, {"algorithms": {"a": "direct"}}]},
        {"tunings": [{"kernels": ["other"], "algorithms": {"a": "direct"}}]},
    ],
    ids=str,
)
def test_foreign_files_are_ignored(store: Path, change: dict[str, Any]) -> None:
    tuning_store.store_algorithms(1, {"a": "direct"})
    (file,) = store.iterdir()
    facts = json.loads(file.read_text())
    file.write_text(json.dumps({**facts, **change}))
    assert tuning_store.load_algorithms(1) == {}
    tuning_store.store_algorithms(1, {"a": "direct"})
    assert tuning_store.load_algorithms(1) == {"a": "direct"}


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"1", b"\xff\xfe", b"[" * 100_000, b'{"version": 3}']
)
def test_damaged_files_are_ignored(store: Path, data: bytes) -> None:
    tuning_store.store_algorithms(1, {"a": "direct"})
    (file,) = store.iterdir()
    file.write_bytes(data)
    assert tuning_store.load_algorithms(1) == {}
    file.write_bytes(json.dumps(None).encode())
    assert tuning_store.load_algorithms(1) == {}
