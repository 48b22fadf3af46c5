"""Weights that are made when a file is first used: once, whole, and wherever there is room."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.packing.inverse import Packed, View
from nnefc.runtime import cache
from nnefc.runtime.cache_folder import CacheFolder
from nnefc.runtime.derived import Derived
from nnefc.runtime.derived_weights import Wanted, find_or_make, is_whole

Array = np.ndarray[Any, Any]

SOURCE = np.arange(6 * 10, dtype=np.float32).reshape(6, 10)
WANTED = [
    Wanted(0, "", SOURCE.dtype, Packed(View(0, (6, 10), (10, 1)), "panels", (parts, 2)))
    for parts in (1, 3)
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of weights, not there yet."""
    monkeypatch.setenv("NNEFC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "weights"


class Maker:
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, wanted: Wanted) -> Derived:
        self.made += 1
        packed = wanted.packed
        return Derived(packed.view.of(SOURCE), packed.packing, packed.parameters)


def found(maker: Callable[[Wanted], Derived], origin: str = "origin") -> None:
    """What is found is right."""
    arrays = find_or_make(origin, WANTED, maker)
    for array, wanted in zip(arrays, WANTED, strict=True):
        np.testing.assert_array_equal(array, Maker()(wanted).array())
        assert array.ctypes.data % 64 == 0


def test_weights_are_made_once(folder: Path) -> None:
    maker = Maker()
    for origin, made in (("a", 2), ("a", 2), ("b", 4), ("a", 4), ("b", 4)):
        found(maker, origin)
        assert maker.made == made
    names = [path.name for path in folder.iterdir()]
    assert len(names) == 2
    for path in folder.iterdir():
        data = np.frombuffer(path.read_bytes(), np.uint8)
        assert is_whole(data, path.stem)
        assert not is_whole(data[:-1], path.stem)
        assert not is_whole(data[:10], path.stem)
        assert path.stat().st_mode & 0o777 == 0o600
    assert find_or_make("c", [], maker) == []


@pytest.mark.parametrize("damage", [b"", b"x", b"nnefc weights 1\n" * 40])
def test_other_files_are_replaced(folder: Path, damage: bytes) -> None:
    found(Maker())
    (path,) = folder.iterdir()
    path.unlink()
    path.write_bytes(damage)
    maker = Maker()
    found(maker)
    assert maker.made == 2
    assert is_whole(np.frombuffer(path.read_bytes(), np.uint8), path.stem)


def test_files_of_others_are_not_read(folder: Path) -> None:
    found(Maker())
    (path,) = folder.iterdir()
    path.chmod(0o666)
    maker = Maker()
    found(maker)
    assert maker.made == 2


def test_there_need_be_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNEFC_CACHE", "off")
    maker = Maker()
    found(maker)
    found(maker)
    assert maker.made == 4


def test_a_full_disk_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    found(Maker())
    assert list(folder.iterdir()) == []


def test_what_fails_leaves_nothing(folder: Path) -> None:
    def fail(_: Wanted) -> Derived:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_or_make("origin", WANTED, fail)
    assert list(folder.iterdir()) == []


def test_a_file_that_is_evicted_at_once_is_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CacheFolder, "map", nothing)
    found(Maker())


def nothing(_folder: CacheFolder, _name: str) -> None:
    """There is no such file."""


def test_weights_have_a_limit_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "3kB")
    kept: list[Array] = []
    for i in range(20):
        cache._opened_weights.cache_clear()  # pyright: ignore[reportPrivateUsage]
        kept += find_or_make(str(i), WANTED, Maker())
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 3000
    for array in kept:  # what is mapped stays
        assert array.sum() == SOURCE.sum()
