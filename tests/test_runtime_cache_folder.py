"""The folder of the cache: whose it is, how full it gets, and what happens to it meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nnefc.errors import NnefError, NnefWarning
from nnefc.runtime import cache, cache_entry
from nnefc.runtime.cache_folder import ABANDONED_SECONDS, PARTIAL, CacheFolder, file_name
from tests.cached import entry, key
from tests.disks import as_somebody, largest_file

DAY = 86400


def name(number: int) -> str:
    return f"{number:064x}"


def age_to(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def fill(place: Path, ages: dict[int, float], size: int = 100) -> None:
    """Entries of another process that were used so many seconds ago."""
    place.mkdir(mode=0o700, exist_ok=True)
    for number, age in ages.items():
        path = place / file_name(name(number))
        path.write_bytes(bytes(size))
        age_to(path, age)


def left(place: Path) -> list[int]:
    return sorted(int(item.name, 16) for item in CacheFolder(place, 0).entries())


# -- whose it is


def test_it_is_made_for_the_user_alone(folder: Path) -> None:
    cache.keep(key(), b"code")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(folder).stat().st_mode) == 0o600


@contextmanager
def one_warning(match: str) -> Generator[None]:
    """Inside there is one warning, and no more."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 1, messages
    assert issubclass(caught[0].category, NnefWarning)
    assert caught[0].filename == __file__, "not a line of the package"
    for text in (match, "internal/cache", "hint: ", "stay in memory"):
        assert text in messages[0]


def keep_and_find_nothing() -> None:
    for arguments in ("(1,)", "(2,)"):
        cache.keep(key(arguments), b"code")
        assert cache.find(key(arguments)) is None
        assert not cache.write("other", b"")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_folders_that_others_can_write_to_are_refused(folder: Path, mode: int) -> None:
    folder.mkdir()
    cache.keep(key("(1,)"), b"code")
    assert cache.find(key("(1,)")) == b"code"
    folder.chmod(mode)
    cache._opened.cache_clear()  # pyright: ignore[reportPrivateUsage]
    with one_warning("chmod go-w"):
        keep_and_find_nothing()
    assert list(folder.iterdir()) == [entry(folder, "(1,)")]
    folder.chmod(0o755)
    cache._opened.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert cache.find(key("(1,)")) == b"code"


def test_folders_of_others_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with one_warning(f"belongs to user {owner}"):
        keep_and_find_nothing()
    assert not list(folder.iterdir())


def test_files_of_others_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in our folder, too: somebody may have put it in the place of ours since."""
    cache.keep(key(), b"code")
    assert cache.find(key()) == b"code"
    owner = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: owner + 1)
        assert cache.find(key()) is None
    entry(folder).chmod(0o622)
    assert cache.find(key()) is None
    entry(folder).chmod(0o644)
    assert cache.find(key()) == b"code"


def test_what_is_no_file_is_no_entry(folder: Path) -> None:
    cache.keep(key(), b"code")
    entry(folder).unlink()
    os.mkfifo(entry(folder))  # whoever opens one to read waits for a writer
    assert cache.find(key()) is None
    entry(folder).unlink()
    entry(folder).mkdir()
    assert cache.find(key()) is None
    with one_warning("cannot write"):
        cache.keep(key(), b"code")
    assert cache.find(key()) is None


def test_files_beyond_all_kernels_are_not_read(folder: Path) -> None:
    cache.keep(key(), b"code")
    with entry(folder).open("r+b") as file:
        file.truncate(1 << 40)
    assert cache.find(key()) is None


def test_where_no_folder_can_be(folder: Path) -> None:
    folder.write_text("a file")
    with one_warning("File exists"):
        keep_and_find_nothing()
    with pytest.raises(NnefError, match="internal/cache"):
        cache.opened()


def test_a_folder_that_is_read_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds is found, and more does not come to it."""
    with tempfile.TemporaryDirectory() as reachable:
        Path(reachable).chmod(0o755)
        place = Path(reachable) / "kernels"
        monkeypatch.setenv("NNEFC_CACHE", str(place))
        cache.keep(key(), b"code")
        place.chmod(0o500)
        with as_somebody(place):
            cache._opened.cache_clear()  # pyright: ignore[reportPrivateUsage]
            os.utime(entry(place), (0, 0))
            assert cache.find(key()) == b"code"
            with one_warning("Permission denied"):
                keep_and_find_nothing()
            monkeypatch.setenv("NNEFC_CACHE", str(place / "below"))
            monkeypatch.setattr(cache, "_complained", False)
            with one_warning("Permission denied"):
                keep_and_find_nothing()
        place.chmod(0o700)
        assert list(place.iterdir()) == [entry(place)]


# -- writes that fail


def test_a_full_disk(
    folder: Path, disk: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_disk = disk("64k")
    monkeypatch.setenv("NNEFC_CACHE", str(small_disk))
    cache.keep(key(), b"code")
    with one_warning("No space left"):
        for number in range(3):
            cache.keep(key(f"({number},)"), bytes(80_000))
            assert cache.find(key(f"({number},)")) is None
    assert cache.find(key()) == b"code"
    assert list(small_disk.iterdir()) == [entry(small_disk)]
    cache.keep(key("(4,)"), bytes(10_000))
    assert cache.find(key("(4,)")) == bytes(10_000)


def test_a_file_that_may_not_grow(folder: Path) -> None:
    cache.keep(key(), b"code")
    with largest_file(10_000), one_warning("too large"):
        cache.keep(key("(1,)"), bytes(100_000))
    assert cache.find(key("(1,)")) is None
    assert list(folder.iterdir()) == [entry(folder)]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("step", ["mkstemp", "replace"])
def test_errors_of_the_system(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: int, step: str
) -> None:
    def fail(*_given: Any, **_options: Any) -> Any:
        raise OSError(error, os.strerror(error))

    cache.keep(key(), b"code")
    monkeypatch.setattr(*((tempfile, step) if step == "mkstemp" else (Path, step)), fail)
    with one_warning(os.strerror(error)):
        keep_and_find_nothing()
    assert cache.find(key()) == b"code"
    assert list(folder.iterdir()) == [entry(folder)]


# -- removed while it is used


def test_it_may_be_cleared_at_any_time(folder: Path) -> None:
    for _ in range(3):
        cache.keep(key(), b"code")
        assert cache.find(key()) == b"code"
        shutil.rmtree(folder)
        assert cache.find(key()) is None
    cache.keep(key(), b"code")
    assert cache.find(key()) == b"code"


def test_it_may_be_removed_while_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, made = Path.mkdir, list[Path]()

    def mkdir(self: Path, *given: Any, **options: Any) -> None:
        real(self, *given, **options)
        made.append(self)
        if len(made) < 5:
            self.rmdir()

    monkeypatch.setattr(Path, "mkdir", mkdir)
    CacheFolder(tmp_path / "kernels", 1000).write(file_name(name(1)), b"code")
    assert len(made) == 5
    assert left(tmp_path / "kernels") == [1]


def test_a_folder_of_others_in_its_place_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.keep(key(), b"code")
    shutil.rmtree(folder)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with one_warning("belongs to user"):
        keep_and_find_nothing()


# -- killed


KILLED = """
import os, random, signal, sys, time
from nnefc.kernels.isa import host
from nnefc.runtime import cache
from nnefc.runtime.cache_key import key_of

keys = [key_of("direct.convolve", repr(i), host()) for i in range(4)]
random.seed(1)
found = 0
cache.keep(keys[0], b"code" * 20_000)  # all is imported that children need
for i in range(120):
    child = os.fork()
    if not child:
        while True:
            for key in keys:
                cache.keep(key, b"code" * 20_000)
    time.sleep(random.uniform(0, 0.004))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for key in keys:
        code = cache.find(key)
        assert code in (None, b"code" * 20_000)
        found += code is not None
print(found)
"""


def test_writers_that_are_killed_leave_nothing_that_is_seen(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
    files = sorted(path.name for path in folder.iterdir())
    partial = [file for file in files if file.startswith(PARTIAL)]
    assert partial, "no process was killed while it wrote"
    entries = list(CacheFolder(folder, 0).entries())
    assert len(entries) == 4
    for one in entries:
        data = (folder / file_name(one.name)).read_bytes()
        assert cache_entry.state_of(one.name, data) == "whole"
    assert len(files) == len(partial) + 4
    cache.keep(key(), b"code")
    assert sorted(path.name for path in folder.glob(f"{PARTIAL}*")) == partial, "still written?"
    for file in partial:
        age_to(folder / file, ABANDONED_SECONDS + 9)
    cache._opened.cache_clear()  # pyright: ignore[reportPrivateUsage]
    cache.keep(key(), b"code")
    assert not list(folder.glob(f"{PARTIAL}*"))


# -- what other versions have left

ONCE = {
    name(1): True,
    f"{name(2)}.o": True,
    name(3)[:32]: True,
    file_name(name(4)): False,
    name(5)[:31]: False,
    f"{name(6)}.kernel.txt": False,
    f"a{name(7)[1:63]}g": False,
    name(8).replace("0", "A"): False,
    "methods.json": False,
}
"""Names, and whether a version may have called an entry so that no version reads now."""


@pytest.mark.parametrize("tidy", [False, True])
def test_files_that_no_version_reads_go_after_a_day(tmp_path: Path, tidy: bool) -> None:
    place = tmp_path / "kernels"
    for days in (0.9, 1.1, -1.1):
        fill(place, {})
        for each in ONCE:
            (place / each).write_bytes(b"code")
            age_to(place / each, days * DAY)
        (place / name(9)).mkdir(exist_ok=True)
        folder = CacheFolder(place, 1 << 20)
        if tidy:
            folder.write(file_name(name(10)), b"code")
            (place / file_name(name(10))).unlink()
        else:
            folder.sweep()
        stay = {each for each, goes in ONCE.items() if days == 0.9 or not goes}
        assert {path.name for path in place.iterdir()} == stay | {name(9)}


# -- several processes


COMPILING = {
    "model": """
import numpy as np, nnefc
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.build import build
graph = Graph("small")
x = graph.add_input(TensorType(DType.FLOAT32, (1, 8)), "x")
graph.add_output(build(graph, "exp", [x]).output, "y")
print(nnefc.compile(graph, threads=1)(np.ones((1, 8), np.float32)).ravel().tolist())
""",
    "kernel": """
from nnefc.kernels.template import Kernel
from nnefc.runtime.objects import object_code
print([object_code(Kernel("blocked.zero_halo"))])
""",
}


@pytest.mark.parametrize(("count", "what"), [(2, "model"), (8, "kernel")])
def test_processes_that_compile_the_same(tmp_path: Path, count: int, what: str) -> None:
    """At the same time, with a limit that lets them evict what the others write."""
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
    for one in CacheFolder(place, 0).entries():
        data = (place / file_name(one.name)).read_bytes()
        assert cache_entry.state_of(one.name, data) == "whole"
    assert not list(place.glob(f"{PARTIAL}*"))


EVICTING = """
import sys
from pathlib import Path
from nnefc.runtime.cache_folder import CacheFolder, file_name
folder = CacheFolder(Path(sys.argv[1]), 20_000)
for i in range(300):
    folder.write(file_name(f"{int(sys.argv[2]) * 1000 + i:064x}"), bytes(1000))
    if i % 3 == 0:
        folder = CacheFolder(folder.path, folder.limit)
"""


def test_processes_that_evict_at_the_same_time(tmp_path: Path) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", EVICTING, str(tmp_path / "kernels"), str(i)])
        for i in range(4)
    ]
    assert [process.wait() for process in running] == [0] * 4
    folder = CacheFolder(tmp_path / "kernels", 20_000)
    folder.write(file_name(name(0)), b"1")  # the last of all, which sees what the others left
    assert sum(entry.size for entry in folder.entries()) <= 20_000


# -- the limit


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    fill(tmp_path, {number: 1000 - number for number in range(1, 21)})
    folder = CacheFolder(tmp_path, 2000)
    folder.write(file_name(name(0)), bytes(100))
    assert left(tmp_path) == [0, *range(4, 21)], "down to nine tenths"


def test_nothing_goes_within_the_limit(tmp_path: Path) -> None:
    fill(tmp_path, dict.fromkeys(range(1, 20), 500 * DAY))
    CacheFolder(tmp_path, 2000).write(file_name(name(0)), bytes(100))
    assert left(tmp_path) == list(range(20))


def test_reading_evicts_nothing(tmp_path: Path) -> None:
    fill(tmp_path, dict.fromkeys(range(20), 500 * DAY))
    folder = CacheFolder(tmp_path, 0)
    for number in range(20):
        assert folder.read(file_name(name(number))) is not None
    assert left(tmp_path) == list(range(20))


def test_a_use_is_noted_once_a_day(tmp_path: Path) -> None:
    hour = DAY / 24
    fill(tmp_path, {1: 30 * DAY, 2: DAY - hour, 3: -30 * DAY, 4: hour - DAY})
    before = {item.name: item.used for item in CacheFolder(tmp_path, 0).entries()}
    folder, now = CacheFolder(tmp_path, 0), time.time()
    for number in range(1, 5):
        folder.read(file_name(name(number)))
    after = {item.name: item.used for item in folder.entries()}
    for number in (1, 3):
        assert abs(after[name(number)] - now) < 60
    for number in (2, 4):
        assert after[name(number)] == before[name(number)]


def test_what_this_process_uses_stays(tmp_path: Path) -> None:
    fill(tmp_path, {number: 1000 - number for number in range(1, 21)})
    folder = CacheFolder(tmp_path, 500)
    folder.read(file_name(name(1)))
    folder.write(file_name(name(2)), bytes(300))
    assert left(tmp_path) == [1, 2]
    folder.write(file_name(name(30)), bytes(300))
    assert left(tmp_path) == [1, 2, 30]


@pytest.mark.parametrize("jump", [-400 * DAY, 400 * DAY])
def test_a_clock_that_jumps_costs_no_more_than_the_limit_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    fill(tmp_path, {number: 1000 - number for number in range(1, 21)})
    folder = CacheFolder(tmp_path, 2000)
    folder.read(file_name(name(2)))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    folder.write(file_name(name(0)), bytes(100))
    assert left(tmp_path) == [0, 2, *range(5, 21)]


def test_times_to_come_do_not_keep_an_entry(tmp_path: Path) -> None:
    fill(tmp_path, {1: -400 * DAY, 2: -500 * DAY, 3: 3 * DAY, 4: 2 * DAY, 5: -DAY / 2})
    CacheFolder(tmp_path, 400).write(file_name(name(0)), bytes(100))
    assert left(tmp_path) == [0, 4, 5]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    others = [name(1), f"{name(1)}.kernel.old", "methods-1.json", "f" * 63 + ".kernel", ".hidden"]
    for other in others:
        (tmp_path / other).write_bytes(bytes(1000))
    (tmp_path / file_name(name(2))).mkdir()
    (tmp_path / file_name(name(3))).symlink_to(tmp_path / "methods-1.json")
    CacheFolder(tmp_path, 0).write("other", b"")
    assert {path.name for path in tmp_path.iterdir()} >= set(others)
    assert left(tmp_path) == []


def test_the_limit_is_looked_at_again_while_a_process_writes(tmp_path: Path) -> None:
    """Also at what others write meanwhile."""
    folder = CacheFolder(tmp_path / "kernels", 16_000)
    folder.write(file_name(name(0)), bytes(100))
    fill(tmp_path / "kernels", dict.fromkeys(range(100, 140), 3 * DAY), size=1000)
    for number in range(1, 30):
        folder.write(file_name(name(number)), bytes(100))
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
    folder = CacheFolder(tmp_path, 1_000_000)
    for number in range(100):
        folder.write(file_name(name(number)), bytes(1000))
    assert len(listed) <= 3
