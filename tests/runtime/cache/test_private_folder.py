"""The cache folder: ownership, permissions, and removal while in use."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nnefc.runtime.cache import entry_format as cache_entry
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.cache.lru_folder import ABANDONED_SECONDS, LruFolder, kernel_file_name
from nnefc.runtime.cache.private_folder import PARTIAL
from nnefc.support.errors import NnefError, NnefWarning
from tests.helpers.cache.entries import entry, key
from tests.helpers.cache.folders import age_to, left, name
from tests.helpers.disks import as_somebody, largest_file

# -- owner and permissions


def test_only_the_user_may_access_the_folder_and_its_entries(folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"code")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(folder).stat().st_mode) == 0o600


@contextmanager
def one_warning(match: str) -> Generator[None]:
    """Assert that the block gives exactly one warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 1, messages
    assert issubclass(caught[0].category, NnefWarning)
    assert caught[0].filename == __file__, "not a line of the package"
    for text in (match, "internal/cache", "hint: ", "stay in memory"):
        assert text in messages[0]


def assert_nothing_is_stored() -> None:
    for arguments in ("(1,)", "(2,)"):
        kernel_cache.store_kernel(key(arguments), b"code")
        assert kernel_cache.load_kernel(key(arguments)) is None
        assert not kernel_cache.write_file("other", b"")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_folders_that_others_can_write_to_are_refused(folder: Path, mode: int) -> None:
    folder.mkdir()
    kernel_cache.store_kernel(key("(1,)"), b"code")
    assert kernel_cache.load_kernel(key("(1,)")) == b"code"
    folder.chmod(mode)
    kernel_cache._opened.cache_clear()  # pyright: ignore[reportPrivateUsage]
    is_sticky = mode & stat.S_ISVTX  # one for all users must stay so
    with one_warning(f"such as {folder}/nnefc-" if is_sticky else "chmod go-w"):
        assert_nothing_is_stored()
    assert list(folder.iterdir()) == [entry(folder, "(1,)")]
    folder.chmod(0o755)
    kernel_cache._opened.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert kernel_cache.load_kernel(key("(1,)")) == b"code"


def test_folders_of_others_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with one_warning(f"belongs to user {owner}"):
        assert_nothing_is_stored()
    assert not list(folder.iterdir())


def test_files_that_others_own_or_can_write_to_are_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is checked, because the folder may have been replaced since it was opened."""
    kernel_cache.store_kernel(key(), b"code")
    assert kernel_cache.load_kernel(key()) == b"code"
    owner = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: owner + 1)
        assert kernel_cache.load_kernel(key()) is None
    entry(folder).chmod(0o622)
    assert kernel_cache.load_kernel(key()) is None
    entry(folder).chmod(0o644)
    assert kernel_cache.load_kernel(key()) == b"code"


def test_pipes_and_folders_are_not_entries(folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"code")
    entry(folder).unlink()
    os.mkfifo(entry(folder))  # opening a pipe to read would wait for a writer
    assert kernel_cache.load_kernel(key()) is None
    entry(folder).unlink()
    entry(folder).mkdir()
    assert kernel_cache.load_kernel(key()) is None
    with one_warning("cannot write"):
        kernel_cache.store_kernel(key(), b"code")
    assert kernel_cache.load_kernel(key()) is None


def test_huge_files_are_not_read(folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"code")
    with entry(folder).open("r+b") as file:
        file.truncate(1 << 40)
    assert kernel_cache.load_kernel(key()) is None


def test_a_file_in_place_of_the_folder_is_one_warning(folder: Path) -> None:
    folder.write_text("a file")
    with one_warning("File exists"):
        assert_nothing_is_stored()
    with pytest.raises(NnefError, match="internal/cache"):
        kernel_cache.open_kernel_folder()


def test_a_read_only_folder_is_read_but_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first write warns; entries are loaded without a warning."""
    with tempfile.TemporaryDirectory() as reachable:
        Path(reachable).chmod(0o755)
        place = Path(reachable) / "kernels"
        monkeypatch.setenv("NNEFC_CACHE", str(place))
        kernel_cache.store_kernel(key(), b"code")
        place.chmod(0o500)
        with as_somebody(place):
            kernel_cache._opened.cache_clear()  # pyright: ignore[reportPrivateUsage]
            os.utime(entry(place), (0, 0))
            assert kernel_cache.load_kernel(key()) == b"code"
            with one_warning("Permission denied"):
                assert_nothing_is_stored()
            monkeypatch.setenv("NNEFC_CACHE", str(place / "below"))
            monkeypatch.setattr(kernel_cache, "_complained", False)
            with one_warning("Permission denied"):
                assert_nothing_is_stored()
            place.chmod(0o000)  # hides the entries
            monkeypatch.setenv("NNEFC_CACHE", str(place))
            with pytest.raises(NnefError, match="Permission denied"):
                kernel_cache.open_kernel_folder()
        place.chmod(0o700)
        assert list(place.iterdir()) == [entry(place)]


# -- writes that fail


def test_a_full_disk_is_one_warning(
    folder: Path, disk: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_disk = disk("64k")
    monkeypatch.setenv("NNEFC_CACHE", str(small_disk))
    kernel_cache.store_kernel(key(), b"code")
    with one_warning("No space left"):
        for number in range(3):
            kernel_cache.store_kernel(key(f"({number},)"), bytes(80_000))
            assert kernel_cache.load_kernel(key(f"({number},)")) is None
    assert kernel_cache.load_kernel(key()) == b"code"
    assert list(small_disk.iterdir()) == [entry(small_disk)]
    kernel_cache.store_kernel(key("(4,)"), bytes(10_000))
    assert kernel_cache.load_kernel(key("(4,)")) == bytes(10_000)


def test_a_file_size_limit_is_one_warning(folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"code")
    with largest_file(10_000), one_warning("too large"):
        kernel_cache.store_kernel(key("(1,)"), bytes(100_000))
    assert kernel_cache.load_kernel(key("(1,)")) is None
    assert list(folder.iterdir()) == [entry(folder)]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("step", ["mkstemp", "replace"])
def test_a_failed_system_call_is_one_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: int, step: str
) -> None:
    def fail(*_given: Any, **_options: Any) -> Any:
        raise OSError(error, os.strerror(error))

    kernel_cache.store_kernel(key(), b"code")
    monkeypatch.setattr(*((tempfile, step) if step == "mkstemp" else (os, step)), fail)
    with one_warning(os.strerror(error)):
        assert_nothing_is_stored()
    assert kernel_cache.load_kernel(key()) == b"code"
    assert list(folder.iterdir()) == [entry(folder)]


# -- removal while in use


def test_the_folder_may_be_removed_between_calls(folder: Path) -> None:
    for _ in range(3):
        kernel_cache.store_kernel(key(), b"code")
        assert kernel_cache.load_kernel(key()) == b"code"
        shutil.rmtree(folder)
        assert kernel_cache.load_kernel(key()) is None
    kernel_cache.store_kernel(key(), b"code")
    assert kernel_cache.load_kernel(key()) == b"code"


def test_the_folder_may_be_removed_while_it_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, made = os.makedirs, list[str]()

    def makedirs(path: str, *given: Any, **options: Any) -> None:
        real(path, *given, **options)
        made.append(path)
        if len(made) < 5:
            Path(path).rmdir()

    monkeypatch.setattr(os, "makedirs", makedirs)
    LruFolder(tmp_path / "kernels", 1000).write(kernel_file_name(name(1)), b"code")
    assert len(made) == 5
    assert left(tmp_path / "kernels") == [1]


def test_the_folder_may_be_removed_before_its_permissions_are_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access

    def remove_and_check(path: Any, *options: Any, **more: Any) -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return access(path, *options, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "access", remove_and_check)
        opened = LruFolder(folder, 1 << 20, make=True)
    assert not opened.exists()
    opened.write("file", b"content")
    assert opened.content("file") is not None


def test_a_folder_of_another_user_that_replaces_it_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel_cache.store_kernel(key(), b"code")
    shutil.rmtree(folder)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with one_warning("belongs to user"):
        assert_nothing_is_stored()


# -- killed writers


KILLED = """
import os, random, signal, sys, time
from nnefc.kernels.target.isa import host
from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.cache.key import key_of

keys = [key_of("convolution.direct.convolve", repr(i), host()) for i in range(4)]
random.seed(1)
found = 0
kernel_cache.store_kernel(keys[0], b"code" * 20_000)  # imports everything that children need
for i in range(120):
    child = os.fork()
    if not child:
        while True:
            for key in keys:
                kernel_cache.store_kernel(key, b"code" * 20_000)
    time.sleep(random.uniform(0, 0.004))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for key in keys:
        code = kernel_cache.load_kernel(key)
        assert code in (None, b"code" * 20_000)
        found += code is not None
print(found)
"""


@pytest.mark.slow
def test_killed_writers_leave_only_partial_files_which_are_removed_later(
    folder: Path, every_writer_checks: None
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
    files = sorted(path.name for path in folder.iterdir())
    partial = [file for file in files if file.startswith(PARTIAL)]
    assert partial, "no process was killed while it wrote"
    entries = list(LruFolder(folder, 0).entries())
    assert len(entries) == 4
    for one in entries:
        data = (folder / kernel_file_name(one.name)).read_bytes()
        assert cache_entry.examine(one.name, data)[0] == "whole"
    assert len(files) == len(partial) + 4
    kernel_cache.store_kernel(key(), b"code")
    assert sorted(path.name for path in folder.glob(f"{PARTIAL}*")) == partial, "still written?"
    for file in partial:
        age_to(folder / file, ABANDONED_SECONDS + 9)
    kernel_cache._opened.cache_clear()  # pyright: ignore[reportPrivateUsage]
    kernel_cache.store_kernel(key(), b"code")
    assert not list(folder.glob(f"{PARTIAL}*"))
