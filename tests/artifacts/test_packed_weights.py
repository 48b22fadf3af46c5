"""Packed weights of artifacts are cached at the first use: packed once, written atomically."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.kernels.packing.inverse import ArrayView, PackingSpec
from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.artifact import weight_cache
from nnefc.runtime.artifact.weight_cache import MissingWeight, is_whole, load_or_pack
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.cache.lru_folder import LruFolder
from nnefc.support.errors import NnefWarning

Array = np.ndarray[Any, Any]

DAY = 86400

SOURCE = np.arange(6 * 10, dtype=np.float32).reshape(6, 10)
WANTED = [
    MissingWeight(
        0, "", SOURCE.dtype, PackingSpec(ArrayView(0, (6, 10), (10, 1)), "panels", (parts, 2))
    )
    for parts in (1, 3)
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of cached weights, which does not exist yet."""
    monkeypatch.setenv("NNEFC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "weights"


class Maker:
    """Packs weights, and counts its calls."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, wanted: MissingWeight) -> PackedWeight:
        self.made += 1
        packed = wanted.packed
        return PackedWeight(packed.view.of(SOURCE), packed.packing, packed.parameters)


def check_weights(maker: Callable[[MissingWeight], PackedWeight], origin: str = "origin") -> None:
    """Load or pack the weights of an artifact; assert that they are correct and aligned."""
    arrays = load_or_pack(origin, WANTED, maker)
    for array, wanted in zip(arrays, WANTED, strict=True):
        np.testing.assert_array_equal(array, Maker()(wanted).array())
        assert array.ctypes.data % 64 == 0


def test_weights_are_packed_once(folder: Path) -> None:
    maker = Maker()
    for origin, made in (("a", 2), ("a", 2), ("b", 4), ("a", 4), ("b", 4)):
        check_weights(maker, origin)
        assert maker.made == made
    names = [path.name for path in folder.iterdir()]
    assert len(names) == 2
    for path in folder.iterdir():
        data = np.frombuffer(path.read_bytes(), np.uint8)
        assert is_whole(data, path.stem)
        assert not is_whole(data[:-1], path.stem)
        assert not is_whole(data[:10], path.stem)
        assert path.stat().st_mode & 0o777 == 0o600
    assert load_or_pack("c", [], maker) == []


@pytest.mark.parametrize("damage", [b"", b"x", b"nnefc weights 1\n" * 40])
def test_damaged_files_are_replaced(folder: Path, damage: bytes) -> None:
    check_weights(Maker())
    (path,) = folder.iterdir()
    path.unlink()
    path.write_bytes(damage)
    maker = Maker()
    check_weights(maker)
    assert maker.made == 2
    assert is_whole(np.frombuffer(path.read_bytes(), np.uint8), path.stem)


def test_files_that_others_can_write_to_are_not_read(folder: Path) -> None:
    check_weights(Maker())
    (path,) = folder.iterdir()
    path.chmod(0o666)
    maker = Maker()
    check_weights(maker)
    assert maker.made == 2


def test_weights_are_packed_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNEFC_CACHE", "off")
    maker = Maker()
    check_weights(maker)
    check_weights(maker)
    assert maker.made == 4


def test_a_full_disk_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    check_weights(Maker())
    assert list(folder.iterdir()) == []


def test_failed_packing_leaves_no_file(folder: Path) -> None:
    def fail(_: MissingWeight) -> PackedWeight:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_or_pack("origin", WANTED, fail)
    assert list(folder.iterdir()) == []


def test_a_file_evicted_at_once_counts_as_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LruFolder, "map", nothing)
    check_weights(Maker())


def nothing(_folder: LruFolder, _name: str) -> None:
    """The file does not exist."""


# -- changes by others meanwhile


def in_the_middle(do: Callable[[], object]) -> Callable[[MissingWeight], PackedWeight]:
    """A maker of weights that calls `do` before every weight but the first."""
    maker = Maker()

    def derive(wanted: MissingWeight) -> PackedWeight:
        if maker.made:
            do()
        return maker(wanted)

    return derive


def test_two_threads_may_pack_the_same_weights(folder: Path) -> None:
    check_weights(in_the_middle(lambda: check_weights(Maker())))
    (path,) = folder.iterdir()
    assert is_whole(np.frombuffer(path.read_bytes(), np.uint8), path.stem)


@pytest.mark.parametrize("what", ["weights", "cache"])
def test_the_folder_may_be_removed_while_weights_are_packed(folder: Path, what: str) -> None:
    removed = folder if what == "weights" else folder.parent
    check_weights(in_the_middle(lambda: shutil.rmtree(removed, ignore_errors=True)))
    maker = Maker()
    for made in (2, 2):
        check_weights(maker)
        assert maker.made == made
    assert [stat.S_IMODE(p.stat().st_mode) for p in (folder, folder.parent)] == [0o700] * 2


def test_a_folder_that_cannot_be_created_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights stay in memory, and the user gets one warning."""
    monkeypatch.setattr(kernel_cache, "_complained", False)
    check_weights(Maker())
    shutil.rmtree(folder.parent)
    folder.parent.write_text("a file")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            maker = Maker()
            check_weights(maker)
            assert maker.made == 2
    assert len(caught) == 1
    assert "File exists" in str(caught[0].message)


def test_a_folder_of_another_user_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_cache, "_complained", False)
    check_weights(Maker())
    shutil.rmtree(folder)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.warns(NnefWarning, match="belongs to user"):
        check_weights(Maker())
    assert not folder.exists()


def test_a_full_or_read_only_cache_is_silent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_weights(Maker(), "before")
    before = list(folder.iterdir())
    for error in (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES):

        def fail(*_: Any, error: int = error, **__: Any) -> Any:
            raise OSError(error, os.strerror(error))

        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("error")
            patch.setattr(tempfile, "mkstemp", fail)
            check_weights(Maker())
        assert list(folder.iterdir()) == before


# -- the limit


def made(origin: str) -> int:
    """The number of weights that a new process would pack."""
    kernel_cache._opened_weights.cache_clear()  # pyright: ignore[reportPrivateUsage]
    maker = Maker()
    check_weights(maker, origin)
    return maker.made


def aged(folder: Path, origin: str, seconds: float) -> Path:
    """The file of new weights, last used `seconds` ago."""
    before = set(folder.glob("*"))
    assert made(origin) == 2
    (path,) = set(folder.iterdir()) - before
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def limit_to(patch: pytest.MonkeyPatch, path: Path, files: float) -> None:
    """Limit the cache to `files` times the size of this file."""
    patch.setenv("NNEFC_CACHE_LIMIT", str(int(files * path.stat().st_size)))


def made_after_a_jump(
    folder: Path, patch: pytest.MonkeyPatch, jump: float, room: float
) -> list[Path]:
    """Store four entries, jump the clock by `jump` seconds and store a fifth; the cache has `room`
    for so many entries.  Returns the files of the four, the oldest first.
    """
    paths = [aged(folder, str(i), 1000 - i) for i in range(4)]
    limit_to(patch, paths[0], room)
    real = time.time
    patch.setattr(time, "time", lambda: real() + jump)
    assert made("new") == 2
    return paths


@pytest.mark.parametrize("jump", [-400 * DAY, 400 * DAY])
def test_a_jump_of_the_clock_evicts_no_more_than_the_limit_requires(
    folder: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    """The least recently used files are evicted; new files stay, whatever their time."""
    real = time.time
    paths = made_after_a_jump(folder, monkeypatch, jump, 4.5)
    assert [path.exists() for path in paths] == [False, True, True, True]
    assert len(list(folder.iterdir())) == 4
    for back in (lambda: real() + jump, real):
        monkeypatch.setattr(time, "time", back)
        assert [made(origin) for origin in ("new", "1", "2", "3")] == [0] * 4


@pytest.mark.parametrize("jump", [-400 * DAY, 400 * DAY])
def test_a_jump_of_the_clock_evicts_nothing_within_the_limit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    paths = made_after_a_jump(folder, monkeypatch, jump, 5.5)
    assert all(path.exists() for path in paths)


def test_files_of_this_process_are_not_evicted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_to(monkeypatch, aged(folder, "other", 1000), 1.5)
    for origin in ("a", "b", "c"):
        check_weights(Maker(), origin)
    for origin, count in (("a", 0), ("b", 0), ("c", 0), ("other", 2)):
        assert made(origin) == count


def test_future_times_do_not_protect_weights(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files used at a future time, by a wrong clock, are evicted first."""
    future, past = aged(folder, "future", -400 * DAY), aged(folder, "past", 400 * DAY)
    limit_to(monkeypatch, past, 2.5)
    made("new")
    assert (future.exists(), past.exists()) == (False, True)
    assert len(list(folder.iterdir())) == 2


def test_damaged_weights_are_packed_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are compared with their checksums; large ones if the user verifies a model."""
    check_weights(Maker())
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    damaged = whole[:-3] + bytes([whole[-3] ^ 0x40]) + whole[-2:]
    path.write_bytes(damaged)
    check_weights(maker := Maker())
    assert maker.made == 2
    assert path.read_bytes() == whole
    monkeypatch.setattr(weight_cache, "ALWAYS_VERIFIED", 0)
    path.write_bytes(damaged)
    load_or_pack("origin", WANTED, maker)
    assert maker.made == 2
    load_or_pack("origin", WANTED, maker, verify=True)
    assert maker.made == 4


@pytest.mark.parametrize("wrong", [-400 * DAY, 400 * DAY])
def test_a_use_corrects_a_wrong_time(folder: Path, wrong: float) -> None:
    path = aged(folder, "a", wrong)
    assert made("a") == 0
    assert abs(path.stat().st_mtime - time.time()) < DAY / 2


def test_weights_count_towards_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "3kB")
    kept: list[Array] = []
    for i in range(20):
        kernel_cache._opened_weights.cache_clear()  # pyright: ignore[reportPrivateUsage]
        kept += load_or_pack(str(i), WANTED, Maker())
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 3000
    for array in kept:  # mapped weights stay readable after eviction
        assert array.sum() == SOURCE.sum()
