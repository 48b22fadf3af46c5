"""The kernel cache: entries are read back, damaged files are ignored, settings are checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from nnefc.runtime.cache import entry_format as cache_entry
from nnefc.runtime.cache import kernel_cache
from nnefc.support.errors import NnefError, NnefWarning
from tests.helpers.cache.entries import entry, key
from tests.helpers.command_line import SMALL

PROGRAM = """
from nnefc.kernels.tile.zero_halo import zero_halo
from nnefc.runtime.compile.kernel_compiler import compile_kernels
from nnefc.kernels.codegen import object_code as codegen
real, count = codegen.emit, []
codegen.emit = lambda *given: (count.append(1), real(*given))[1]
compile_kernels([zero_halo()])
print(len(count))
"""

MODEL = """
import sys
import numpy as np
import nnefc
model = nnefc.compile(nnefc.import_model("small.nnef", random_weights=1), threads=2)
print(model(np.ones((1, 3, 8, 8), np.float32)).ravel().tolist())
print([name for name in ("numba", "llvmlite.binding") if name in sys.modules])
"""
COMMAND = """
import sys
from nnefc.cli import main
try:
    main()
finally:
    print([name for name in ("numba", "llvmlite.binding") if name in sys.modules])
"""


def compiled(folder: Path | str) -> int:
    """The number of kernels that a new process compiles."""
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


def test_stored_code_is_loaded(folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"code")
    assert kernel_cache.load_kernel(key()) == b"code"
    assert kernel_cache.load_kernel(key("(1,)")) is None
    assert list(folder.iterdir()) == [entry(folder)]


def test_stored_empty_code_is_loaded(folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"")
    assert kernel_cache.load_kernel(key()) == b""


def test_headers_contain_the_facts_of_the_key(folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"code")
    data = entry(folder).read_bytes()
    header = cache_entry.header_of(data)
    assert header is not None
    assert header.facts == key().facts
    assert header.facts["family"] == "convolution.direct.convolve"
    assert abs(header.created - entry(folder).stat().st_mtime) < 60


def test_storing_a_key_again_replaces_its_entry(folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"one")
    kernel_cache.store_kernel(key(), b"two")
    assert kernel_cache.load_kernel(key()) == b"two"


@pytest.mark.parametrize("setting", ["off", "OFF", "Off", None, ""])
def test_the_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NNEFC_CACHE", raising=False)
    if setting is not None:
        monkeypatch.setenv("NNEFC_CACHE", setting)
    usual = (
        str(tmp_path / "nnefc" / "kernels")
        if sys.platform == "linux"
        else kernel_cache.kernels_path()
    )
    assert kernel_cache.kernels_path() == (usual if not setting else None)
    monkeypatch.setenv("NNEFC_CACHE", "/some/where")
    assert kernel_cache.kernels_path() == "/some/where"
    monkeypatch.setenv("NNEFC_CACHE", "~/where")
    assert kernel_cache.kernels_path() == str(Path.home() / "where")


def test_long_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNEFC_CACHE", "/tmp/" + "b" * 255)
    assert kernel_cache.kernels_path()
    monkeypatch.setenv("NNEFC_CACHE", f"/tmp/{'b' * 256}/x")
    with pytest.raises(NnefError, match=r"more than 255 bytes(.|\n)*NNEFC_CACHE"):
        kernel_cache.kernels_path()


@pytest.mark.parametrize("named", ["0", "no", "./here", "off/", " off", "~nobody-of-that-name/x"])
def test_relative_paths_are_refused(
    monkeypatch: pytest.MonkeyPatch, folder: Path, named: str
) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("NNEFC_CACHE", named)
    for _ in range(2):
        with pytest.raises(NnefError, match=r"not an absolute path(.|\n)*NNEFC_CACHE=off"):
            kernel_cache.kernels_path()
    with pytest.warns(NnefWarning, match="compiled kernels stay in memory") as caught:
        for _ in range(2):
            kernel_cache.store_kernel(key(), b"code")
            assert kernel_cache.load_kernel(key()) is None
            assert kernel_cache.weight_folder() is None
    assert [warning.filename for warning in caught] == [__file__]
    assert not list(folder.parent.iterdir())


@pytest.mark.parametrize("named", [None, "", " ", "relative", "/there", "/there/", "~/there"])
def test_the_default_folder_is_that_of_platformdirs(
    monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("NNEFC_CACHE", raising=False)
    if named is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert kernel_cache.kernels_path() == str(platformdirs.user_cache_path("nnefc") / "kernels")


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0", 0),
        ("1000000", 10**6),
        ("512MB", 512 * 10**6),
        ("512 mb", 512 * 10**6),
        ("1.5GiB", 3 << 29),
        ("64k", 64000),
        ("2KiB", 2048),
        (" 1 TB ", 10**12),
        ("7B", 7),
    ],
)
def test_limits_have_units(monkeypatch: pytest.MonkeyPatch, text: str, nbytes: int) -> None:
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", text)
    assert kernel_cache.size_limit() == nbytes


@pytest.mark.parametrize("text", ["much", "-1", "1e9", "1 XB", "inf", "1..5MB", "9" * 400, "MB"])
def test_invalid_limits_are_errors_or_warnings(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", text)
    with pytest.raises(NnefError, match="internal/cache"):
        kernel_cache.size_limit()
    with pytest.warns(NnefWarning, match="NNEFC_CACHE_LIMIT"):
        kernel_cache.store_kernel(key(), b"code")
    assert kernel_cache.load_kernel(key()) == b"code"


def test_the_default_limit_is_a_gigabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("", None):
        if setting is None:
            monkeypatch.delenv("NNEFC_CACHE_LIMIT")
        else:
            monkeypatch.setenv("NNEFC_CACHE_LIMIT", setting)
        assert kernel_cache.size_limit() == 10**9


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of the processor")
@pytest.mark.parametrize("program", [MODEL, COMMAND])
def test_a_warm_process_loads_no_compiler(tmp_path: Path, program: str) -> None:
    (tmp_path / "small.nnef").write_text(SMALL)
    arguments = ["run", "small.nnef", "--random-weights", "1", "--random-inputs", "1", "--json"]

    def lines() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, "NNEFC_CACHE": str(tmp_path / "kernels"), "NNEFC_JOBS": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    *cold, loaded = lines()
    assert loaded == "['numba', 'llvmlite.binding']"
    *warm, loaded = lines()
    assert loaded == "[]"
    assert warm == cold


# -- damaged and foreign files


def test_an_entry_with_any_changed_byte_is_ignored(folder: Path) -> None:
    sought = key()
    kernel_cache.store_kernel(sought, b"some object code")
    whole = entry(folder).read_bytes()
    with entry(folder).open("r+b", buffering=0) as file:
        for at, byte in enumerate(whole):
            os.pwrite(file.fileno(), bytes([byte ^ 1 << at % 8]), at)
            assert kernel_cache.load_kernel(sought) is None, at
            os.pwrite(file.fileno(), bytes([byte]), at)
    assert kernel_cache.load_kernel(sought) == b"some object code"


def test_truncated_and_extended_entries_are_ignored(folder: Path) -> None:
    sought = key()
    kernel_cache.store_kernel(sought, bytes(range(256)))
    whole = entry(folder).read_bytes()
    for size in (*range(0, len(whole), 64), *range(120), len(whole) - 1):
        entry(folder).write_bytes(whole[:size])
        assert kernel_cache.load_kernel(sought) is None, size
        assert cache_entry.examine(sought.name, whole[:size])[0] == "damaged"
    entry(folder).write_bytes(whole + b"\0")
    assert kernel_cache.load_kernel(sought) is None


def test_a_renamed_entry_is_ignored(folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"code")
    entry(folder).rename(entry(folder, "(1,)"))
    assert kernel_cache.load_kernel(key("(1,)")) is None


@pytest.mark.parametrize("format_", [1, 3, 10])
def test_entries_of_other_formats_are_ignored(
    folder: Path, monkeypatch: pytest.MonkeyPatch, format_: int
) -> None:
    """`examine` reports the other format; storing the key again replaces the file."""
    kernel_cache.store_kernel(key(), b"code")
    data = entry(folder).read_bytes()
    other = f"nnefc object {format_}\n".encode()
    entry(folder).write_bytes(other + data[len(cache_entry.MAGIC) :])
    assert kernel_cache.load_kernel(key()) is None
    changed = entry(folder).read_bytes()
    assert cache_entry.examine(key().name, changed)[0] == "of another format"
    kernel_cache.store_kernel(key(), b"code")
    assert kernel_cache.load_kernel(key()) == b"code"


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"facts": {}, "machine": 1, "created": 0}',
        b'{"facts": {"a": 1}, "machine": "", "created": 0}',
        b'{"facts": [], "machine": "", "created": 0}',
        b'{"facts": {}, "machine": ""}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_invalid_headers_count_as_damage(header: bytes) -> None:
    """`header_of` returns None for them, and raises nothing."""
    data = cache_entry.pack(key().name, cache_entry.Header({}, "", 0), b"code")
    start = data.index(b'{"facts"')
    made = data[: start - 4] + len(header).to_bytes(4, "little") + header + b"code"
    assert cache_entry.header_of(made) is None
    assert cache_entry.examine(key().name, made)[0] == "damaged"


def test_a_header_is_json(folder: Path) -> None:
    kernel_cache.store_kernel(key(), b"code")
    data = entry(folder).read_bytes()
    start = len(cache_entry.MAGIC) + 64
    size = int.from_bytes(data[start : start + 4], "little")
    values = json.loads(data[start + 4 : start + 4 + size])
    assert sorted(values) == ["created", "facts", "machine"]
    assert data[start + 4 + size :] == b"code"
