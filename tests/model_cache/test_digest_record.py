"""A record spares reading a document, exactly while no modification of its files is possible."""

from __future__ import annotations

import mmap
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.formats import fingerprints as fingerprint
from nnefc.formats.fingerprints import Fingerprint, large_digest, settled_files, take_fingerprint
from nnefc.formats.fingerprints.settled_files import is_settled
from nnefc.model_cache import digest_record
from nnefc.model_cache.digest_record import DigestRecord
from nnefc.runtime.cache.lru_folder import LruFolder
from tests.helpers.artifacts.model_cache import archive
from tests.helpers.onnx.models import ROWS, passing, save

X = np.ones((2, 3), np.float32)
DAY = 86400


def taken(path: Path) -> Fingerprint:
    document = take_fingerprint(path)
    assert document is not None
    return document


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record small and new documents on any file system."""

    def file_system(_: int) -> str:
        return "ext4"

    monkeypatch.setattr(digest_record, "_LARGE", 0)
    monkeypatch.setattr(settled_files, "_CLOCK", 0)
    monkeypatch.setattr(settled_files, "_WRITTEN", 0)
    monkeypatch.setattr(settled_files, "_file_system", file_system)


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of documents whose content is read, in order."""
    real, paths = Fingerprint.digest, list[str]()

    def digest(self: Fingerprint) -> str:
        paths.append(self.path)
        return real(self)

    monkeypatch.setattr(Fingerprint, "digest", digest)
    return paths


def model(kind: str, folder: Path) -> Path:
    if kind == "archive":
        return archive(folder)
    return save(passing(), folder / "net.onnx", external=kind.removeprefix("message"))


@pytest.mark.slow
@pytest.mark.usefixtures("keep_models", "recording")
@pytest.mark.parametrize("kind", ["archive", "message", "w.bin"])
def test_an_unchanged_document_is_read_once(
    kind: str, tmp_path: Path, digests: list[str], imported: list[Any], monkeypatch: Any
) -> None:
    path = model(kind, tmp_path)
    nnefc.compile(path)
    monkeypatch.setattr(fingerprint, "_external_files", None)
    imported.clear()
    nnefc.compile(path)
    assert digests == [str(path)]
    assert not imported


@pytest.mark.usefixtures("keep_models", "recording")
@pytest.mark.parametrize("external", ["", "w.bin"])
@pytest.mark.parametrize("seconds", [-DAY, DAY], ids=["past", "future"])
def test_a_modification_that_restores_size_and_time_is_noticed(
    external: str, seconds: int, tmp_path: Path
) -> None:
    path = save(passing(), tmp_path / "net.onnx", external=external)
    weights = tmp_path / (external or "net.onnx")
    at = weights.read_bytes().index(ROWS.tobytes())
    then = time.time_ns() + seconds * 10**9
    document = None
    for add in range(3):
        with weights.open("r+b") as file:
            file.seek(at)
            file.write((ROWS + add).tobytes())
        os.utime(weights, ns=(then, then))
        assert document is None or not document.is_unchanged
        document = taken(path)
        np.testing.assert_array_equal(nnefc.compile(path)(X)[1], ROWS + add)


@pytest.mark.usefixtures("keep_models", "recording")
def test_a_copy_is_read_and_found(tmp_path: Path, digests: list[str], imported: list[Any]) -> None:
    path = save(passing(), tmp_path / "net.onnx", external="w.bin")
    nnefc.compile(path)
    for name in ("net.onnx", "w.bin"):
        (tmp_path / "copy").write_bytes((tmp_path / name).read_bytes())
        (tmp_path / "copy").replace(tmp_path / name)
    imported.clear()
    for _ in range(2):
        nnefc.compile(path)
    assert len(digests) == 2
    assert not imported


@pytest.mark.usefixtures("keep_models", "recording")
def test_small_documents_are_always_read(
    tmp_path: Path, digests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(passing(), tmp_path / "net.onnx")
    monkeypatch.setattr(digest_record, "_LARGE", path.stat().st_size)
    for _ in range(2):
        nnefc.compile(path)
    assert len(digests) == 2


@pytest.mark.usefixtures("keep_models", "recording")
def test_a_document_that_changes_while_it_is_read_is_not_recorded(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(passing(), tmp_path / "net.onnx")
    real = Fingerprint.digest

    def digest(self: Fingerprint) -> str:
        os.utime(path)
        return real(self)

    monkeypatch.setattr(Fingerprint, "digest", digest)
    nnefc.compile(path)
    assert not list((folder / "weights").glob("*.document"))


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("reason", ["new", "future", "tmpfs", "overlay", None, "many"])
def test_status_is_trusted_only_where_every_modification_changes_it(
    reason: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = taken(save(passing(), tmp_path / "net.onnx"))
    assert is_settled(document)
    now = document.stamp[0][-1]
    if reason == "new":
        monkeypatch.setattr(settled_files, "_CLOCK", 2 * 10**9)
        monkeypatch.setattr(time, "time_ns", lambda: now + 2 * 10**9 - 1)
    elif reason == "future":
        monkeypatch.setattr(time, "time_ns", lambda: now - 1)
    elif reason == "many":
        monkeypatch.setattr(settled_files, "_MAX_FILES", 0)
    else:

        def file_system(_: int) -> str | None:
            return reason

        monkeypatch.setattr(settled_files, "_file_system", file_system)
    assert not is_settled(document)


def test_the_type_of_a_file_system_is_that_of_the_mount() -> None:
    for path, expected in (("/proc/version", "proc"), ("/sys/kernel", "sysfs")):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            assert settled_files._file_system(descriptor) == expected  # pyright: ignore[reportPrivateUsage]
        finally:
            os.close(descriptor)


def test_a_new_file_is_settled_when_no_program_may_write_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled_files, "_CLOCK", 0)
    document = taken(save(passing(), tmp_path / "net.onnx"))
    if not is_settled(document):
        pytest.skip("the temporary folder is on a file system without leases, or not trusted")
    with Path(document.path).open("r+b") as file:
        assert not is_settled(document)
        mapped = mmap.mmap(file.fileno(), 0)
    assert not is_settled(document)
    with monkeypatch.context() as patch:
        patch.setattr(settled_files, "_WRITTEN", 0)
        assert is_settled(document)
    mapped.close()
    assert is_settled(document)


def test_writes_to_a_mapped_page_change_the_status_of_a_settled_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first write does by itself; later ones only after the page has been flushed."""
    monkeypatch.setattr(settled_files, "_CLOCK", 0)
    monkeypatch.setattr(settled_files, "_WRITTEN", 0)
    path = save(passing(), tmp_path / "net.onnx")
    mapped = np.memmap(path, np.uint8, "r+")
    mapped[-1] = mapped[-1]
    document = taken(path)
    if not is_settled(document):
        pytest.skip("the temporary folder is on a file system that is not trusted")
    assert document.is_unchanged
    time.sleep(0.05)  # the clock of the file system is coarser than that of programs
    mapped[-1] = mapped[-1]
    assert not document.is_unchanged


@pytest.mark.usefixtures("keep_models", "recording")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\xff",
        b"[]",
        b"{}",
        b'{"stamp": 5, "digest": ""}',
        b'{"stamp": [["net.onnx", 1]], "digest": ""}',
        b'{"stamp": [["net.onnx", 1, 2, 3, 4, "x"]], "digest": ""}',
        b'{"stamp": [], "digest": "00"}',
        b"[" * 100_000,
    ],
    ids=range(9),
)
def test_damaged_records_are_replaced(
    content: bytes, tmp_path: Path, folder: Path, digests: list[str]
) -> None:
    path = save(passing(), tmp_path / "net.onnx")
    nnefc.compile(path)
    (record,) = (folder / "weights").glob("*.document")
    record.write_bytes(content)
    for _ in range(2):
        np.testing.assert_array_equal(nnefc.compile(path)(X)[1], ROWS)
    assert len(digests) == 2


@pytest.mark.usefixtures("keep_models", "recording")
def test_a_record_that_cannot_be_written_is_no_error(
    tmp_path: Path, digests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> None:
        raise PermissionError

    path = save(passing(), tmp_path / "net.onnx")
    monkeypatch.setattr(LruFolder, "write", write)
    for _ in range(2):
        nnefc.compile(path)
    assert len(digests) == 2


@pytest.mark.parametrize("days", [0, 2])
def test_records_that_are_not_used_are_removed_with_old_files(tmp_path: Path, days: int) -> None:
    folder = LruFolder(tmp_path / "cache", 1000)
    record = DigestRecord([("net.onnx", 1, 2, 3, 4, 5)], "00")
    record.store(folder, "net.onnx")
    assert DigestRecord.load(folder, "net.onnx") == record
    assert DigestRecord.load(folder, "other.onnx") is None
    (file,) = (tmp_path / "cache").iterdir()
    then = time.time() - days * DAY
    os.utime(file, (then, then))
    folder.sweep()
    assert file.exists() is (days == 0)


@pytest.mark.parametrize("can_start", [True, False])
def test_large_documents_are_read_in_the_background(
    can_start: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    file = tmp_path / "net.tgz"
    file.write_bytes(np.random.default_rng(0).bytes((1 << 20) + 1))
    document = taken(file)
    if not can_start:
        monkeypatch.setattr(large_digest.threading.Thread, "start", start)
    assert document.digesting()() == document.digest()
    file.unlink()
    digesting = document.digesting()
    with pytest.raises(nnefc.NnefError, match="no such file"):
        digesting()
