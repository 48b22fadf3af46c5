"""Object code on disk: found again, and never believed blindly."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnefc.kernels.isa import host
from nnefc.runtime import cache

PROGRAM = """
from nnefc.kernels.template import Kernel
from nnefc.runtime import code
from nnefc.kernels import codegen
real, count = codegen.emit, []
codegen.emit = lambda *given: (count.append(1), real(*given))[1]
code.compile_kernels([Kernel("blocked.zero_halo")])
print(len(count))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "kernels"
    monkeypatch.setenv("NNEFC_CACHE", str(place))
    cache._folder.cache_clear()  # pyright: ignore[reportPrivateUsage]
    yield place
    cache._folder.cache_clear()  # pyright: ignore[reportPrivateUsage]


def compiled(folder: Path | str) -> int:
    """How many kernels a new process compiles."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "NNEFC_CACHE": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert [compiled(tmp_path / "a") for _ in range(2)] == [1, 0]
    assert compiled("off") == 1


def test_entries_come_back(folder: Path) -> None:
    cache.keep("k", b"code")
    assert cache.find("k") == b"code"
    assert cache.find("other") is None
    assert [p.name for p in folder.iterdir()] == ["k"]


@pytest.mark.parametrize("size", [0, 5, 20, -1])
def test_damaged_entries_are_none(folder: Path, size: int) -> None:
    cache.keep("k", b"code")
    entry = folder / "k"
    entry.write_bytes(entry.read_bytes()[:size])
    assert cache.find("k") is None
    cache.keep("k", b"code")
    changed = bytearray(entry.read_bytes())
    changed[-1] ^= 1
    entry.write_bytes(changed)
    assert cache.find("k") is None


def test_folders_of_others_are_not_used(folder: Path) -> None:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    cache.keep("k", b"code")
    assert cache.find("k") is None
    assert not list(folder.iterdir())


def test_folders_that_cannot_be(folder: Path) -> None:
    folder.write_text("a file")
    cache.keep("k", b"code")
    assert cache.find("k") is None


def test_names_depend_on_what_the_code_does() -> None:
    isa = host()
    name = cache.key_of("direct", "kernel", isa)
    assert name is not None
    assert name == cache.key_of("direct", "kernel", isa)
    assert name != cache.key_of("direct", "other", isa)
    assert name != cache.key_of("tile", "kernel", isa)
    assert cache.key_of("no_module_of_ours", "kernel", isa) is None
