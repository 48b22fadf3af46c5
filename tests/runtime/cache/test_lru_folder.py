"""The cache folder: its limit, eviction, and files of other versions and processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nnefc.runtime.cache import entry_format as cache_entry
from nnefc.runtime.cache.lru_folder import LruFolder, kernel_file_name
from nnefc.runtime.cache.private_folder import PARTIAL
from tests.helpers.cache.folders import DAY, age_to, fill, left, name

# -- files of other versions

ONCE = {
    name(1): True,
    f"{name(2)}.o": True,
    name(3)[:32]: True,
    kernel_file_name(name(4)): False,
    name(5)[:31]: False,
    f"{name(6)}.kernel.txt": False,
    f"a{name(7)[1:63]}g": False,
    name(8).replace("0", "A"): False,
    "methods.json": False,
}
"""File names, and whether an earlier version may have named an entry like this."""


@pytest.mark.parametrize("tidy", [False, True])
def test_files_of_earlier_versions_are_removed_after_a_day(
    tmp_path: Path, tidy: bool, every_writer_checks: None
) -> None:
    place = tmp_path / "kernels"
    for days in (0.9, 1.1, -1.1):
        fill(place, {})
        for each in ONCE:
            (place / each).write_bytes(b"code")
            age_to(place / each, days * DAY)
        (place / name(9)).mkdir(exist_ok=True)
        folder = LruFolder(place, 1 << 20)
        if tidy:
            folder.write(kernel_file_name(name(10)), b"code")
            (place / kernel_file_name(name(10))).unlink()
        else:
            folder.sweep()
        stay = {each for each, goes in ONCE.items() if days == 0.9 or not goes}
        assert {path.name for path in place.iterdir()} == stay | {name(9)}


# -- whose turn it is to check the limit


def never(*_: object) -> bool:
    return False


def test_processes_that_write_little_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 writes of 1/10,000 of the limit, each in another process: 64 turns are expected."""
    checks: list[object] = []

    def put(*_: object) -> None:
        """Write nothing."""

    def enforce_limit(_: object, keep: object) -> None:
        checks.append(keep)

    monkeypatch.setattr(LruFolder, "put", put)
    monkeypatch.setattr(LruFolder, "_enforce_limit", enforce_limit)
    LruFolder(tmp_path / "kernels", 10_000)
    for i in range(10_000):
        process = LruFolder(tmp_path / "kernels", 10_000)
        process.write(kernel_file_name(name(i)), b"1")
    assert 40 <= len(checks) <= 90
    checks.clear()
    for i in range(100):
        LruFolder(tmp_path / "kernels", 10_000).write(name(i), bytes(157))
    assert len(checks) == 100, "whoever writes 1/64 of the limit checks it"
    checks.clear()
    process = LruFolder(tmp_path / "kernels", 160)
    monkeypatch.setattr(LruFolder, "_has_turn", never)
    for i in range(11):
        process.write(name(i), b"1")
    assert len(checks) == 1, "so does a process that has written 1/16 of it"


@pytest.mark.parametrize(("size", "flushes"), [(100, 0), (101, 1)])
def test_files_whose_checksums_are_compared_need_no_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, flushes: int
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    folder = LruFolder(tmp_path / "kernels", 1 << 20)
    with folder.writing(name(1), verified_bytes=100) as file:
        file.write(bytes(size))
    assert len(flushed) == flushes
    assert folder.peek(name(1)) == bytes(size)


# -- several processes


COMPILING = {
    "model": """
import numpy as np, nnefc
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.tools.build import build
graph = Graph("small")
x = graph.add_input(TensorType(DType.FLOAT32, (1, 8)), "x")
graph.add_output(build(graph, "exp", [x]).output, "y")
print(nnefc.compile(graph, threads=1)(np.ones((1, 8), np.float32)).ravel().tolist())
""",
    "kernel": """
from nnefc.kernels.tile.zero_halo import zero_halo
from nnefc.runtime.compile.kernel_compiler import object_code
print([object_code(zero_halo())])
""",
}


@pytest.mark.parametrize(("count", "what"), [(2, "model"), (8, "kernel")])
def test_processes_may_compile_the_same_kernels_at_the_same_time(
    tmp_path: Path, count: int, what: str
) -> None:
    """The limit is so small that each process evicts entries of the others."""
    place = tmp_path / "kernels"
    environment = {**os.environ, "NNEFC_CACHE": str(place), "NNEFC_CACHE_LIMIT": "20kB"}
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", COMPILING[what]],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    results = [process.communicate() for process in running]
    assert [errors for _, errors in results] == [""] * count
    assert len({output for output, _ in results}) == 1
    assert results[0][0].startswith("[")
    for one in LruFolder(place, 0).entries():
        data = (place / kernel_file_name(one.name)).read_bytes()
        assert cache_entry.examine(one.name, data)[0] == "whole"
    assert not list(place.glob(f"{PARTIAL}*"))


EVICTING = """
import sys
from pathlib import Path
from nnefc.runtime.cache.lru_folder import LruFolder, kernel_file_name
folder = LruFolder(Path(sys.argv[1]), 20_000)
for i in range(300):
    folder.write(kernel_file_name(f"{int(sys.argv[2]) * 1000 + i:064x}"), bytes(1000))
    if i % 3 == 0:
        folder = LruFolder(folder.path, folder.limit)
"""


def test_processes_may_evict_at_the_same_time(tmp_path: Path) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", EVICTING, str(tmp_path / "kernels"), str(i)])
        for i in range(4)
    ]
    assert [process.wait() for process in running] == [0] * 4
    folder = LruFolder(tmp_path / "kernels", 20_000)
    folder.write(kernel_file_name(name(0)), bytes(2000))  # so much that it checks the limit
    assert sum(entry.size for entry in folder.entries()) <= 20_000


# -- the limit


def test_least_recently_used_entries_are_evicted_first(tmp_path: Path) -> None:
    fill(tmp_path, {number: 1000 - number for number in range(1, 21)})
    folder = LruFolder(tmp_path, 2000)
    folder.write(kernel_file_name(name(0)), bytes(100))
    assert left(tmp_path) == [0, *range(4, 21)], "down to nine tenths"


def test_nothing_is_evicted_within_the_limit(tmp_path: Path) -> None:
    fill(tmp_path, dict.fromkeys(range(1, 20), 500 * DAY))
    LruFolder(tmp_path, 2000).write(kernel_file_name(name(0)), bytes(100))
    assert left(tmp_path) == list(range(20))


def test_reading_evicts_nothing(tmp_path: Path) -> None:
    fill(tmp_path, dict.fromkeys(range(20), 500 * DAY))
    folder = LruFolder(tmp_path, 0)
    for number in range(20):
        assert folder.read(kernel_file_name(name(number))) is not None
    assert left(tmp_path) == list(range(20))


def test_a_use_is_recorded_once_a_day(tmp_path: Path) -> None:
    hour = DAY / 24
    fill(tmp_path, {1: 30 * DAY, 2: DAY - hour, 3: -30 * DAY, 4: hour - DAY})
    before = {item.name: item.used for item in LruFolder(tmp_path, 0).entries()}
    folder, now = LruFolder(tmp_path, 0), time.time()
    for number in range(1, 5):
        folder.read(kernel_file_name(name(number)))
    after = {item.name: item.used for item in folder.entries()}
    for number in (1, 3):
        assert abs(after[name(number)] - now) < 60
    for number in (2, 4):
        assert after[name(number)] == before[name(number)]


def test_entries_used_by_this_process_are_evicted_last(tmp_path: Path) -> None:
    fill(tmp_path, {number: 1000 - number for number in range(1, 21)})
    folder = LruFolder(tmp_path, 500)
    folder.read(kernel_file_name(name(1)))
    folder.write(kernel_file_name(name(2)), bytes(300))
    assert left(tmp_path) == [1, 2]
    fill(tmp_path, {21: 0})
    folder.write(kernel_file_name(name(30)), bytes(40))
    assert left(tmp_path) == [1, 2, 30]
    folder.write(kernel_file_name(name(31)), bytes(100))
    assert left(tmp_path) == [2, 30, 31]


def test_a_single_process_stays_within_the_limit(tmp_path: Path) -> None:
    folder = LruFolder(tmp_path, 10_000)
    for number in range(100):
        folder.write(kernel_file_name(name(number)), bytes(1000))
        assert number in left(tmp_path)
        assert sum(entry.size for entry in folder.entries()) <= 10_000


def test_mapped_entries_are_not_evicted(tmp_path: Path) -> None:
    """Evicting a mapped entry would free no space."""
    fill(tmp_path, {1: 1000, 2: 900, 3: 800})
    folder = LruFolder(tmp_path, 250)
    assert folder.map(kernel_file_name(name(1))) is not None
    assert folder.map(kernel_file_name(name(2)), use=False) is not None
    with folder.writing(kernel_file_name(name(4))) as file:
        file.write(bytes(200))
    assert left(tmp_path) == [1, 4]
    with folder.writing(kernel_file_name(name(5))) as file:
        file.write(bytes(200))
    assert left(tmp_path) == [1, 5]


@pytest.mark.parametrize("jump", [-400 * DAY, 400 * DAY])
def test_a_jump_of_the_clock_evicts_no_more_than_the_limit_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    fill(tmp_path, {number: 1000 - number for number in range(1, 21)})
    folder = LruFolder(tmp_path, 2000)
    folder.read(kernel_file_name(name(2)))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    folder.write(kernel_file_name(name(0)), bytes(100))
    assert left(tmp_path) == [0, 2, *range(5, 21)]


def test_entries_with_future_times_are_evicted_first(tmp_path: Path) -> None:
    fill(tmp_path, {1: -400 * DAY, 2: -500 * DAY, 3: 3 * DAY, 4: 2 * DAY, 5: -DAY / 2})
    LruFolder(tmp_path, 400).write(kernel_file_name(name(0)), bytes(100))
    assert left(tmp_path) == [0, 4, 5]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    others = [name(1), f"{name(1)}.kernel.old", "methods-1.json", "f" * 63 + ".kernel", ".hidden"]
    for other in others:
        (tmp_path / other).write_bytes(bytes(1000))
    (tmp_path / kernel_file_name(name(2))).mkdir()
    (tmp_path / kernel_file_name(name(3))).symlink_to(tmp_path / "methods-1.json")
    LruFolder(tmp_path, 0).write("other", b"")
    assert {path.name for path in tmp_path.iterdir()} >= set(others)
    assert left(tmp_path) == []


def test_the_limit_is_checked_repeatedly_while_a_process_writes(tmp_path: Path) -> None:
    """Entries that others write meanwhile count too."""
    folder = LruFolder(tmp_path / "kernels", 16_000)
    folder.write(kernel_file_name(name(0)), bytes(100))
    fill(tmp_path / "kernels", dict.fromkeys(range(100, 140), 3 * DAY), size=1000)
    for number in range(1, 30):
        folder.write(kernel_file_name(name(number)), bytes(100))
    assert sum(item.size for item in folder.entries()) <= 16_000
    assert set(range(30)) <= set(left(tmp_path / "kernels"))


def test_the_folder_is_not_listed_for_each_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Path] = []
    real = os.scandir

    def scandir(path: Path) -> Any:
        listed.append(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    folder = LruFolder(tmp_path, 1_000_000)
    for number in range(100):
        folder.write(kernel_file_name(name(number)), bytes(1000))
    assert len(listed) <= 3
