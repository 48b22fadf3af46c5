"""The file format of artifacts: written data is read back, changed files are errors."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.artifacts.artifact_origin import restored
from nnefc.formats import files
from nnefc.runtime.artifact.artifact_file import (
    COMPILE_AGAIN,
    FORMAT,
    FORMATS,
    ArtifactFile,
    open_bytes,
    open_file,
)
from nnefc.runtime.artifact.artifact_file_writer import Writer
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.saved import TINY, compiled


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    path = folder / "tiny.nnefc"
    compiled(folder, TINY, threads=1).save(path)
    return path


def rule(data: bytes) -> str:
    """The rule of the error that these bytes cause."""
    with pytest.raises(NnefError) as caught:
        restored(data, 1)
    (error,) = caught.value.errors
    assert error.file == "<bytes>"
    return error.rule


@given(
    st.lists(st.binary(max_size=300), max_size=5),
    st.lists(st.lists(st.floats(width=32)), max_size=5),
)
def test_written_pieces_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, heads: list[bytes], weights: list[list[float]]
) -> None:
    path = tmp_path_factory.mktemp("pieces") / "a"
    arrays = [np.array(items, np.float32) for items in weights]
    with path.open("wb") as file:
        writer = Writer(file)
        large = [writer.weights(array) for array in arrays]
        small = [writer.head(data) for data in heads]
        writer.finish({"large": large, "small": small})
    found = open_file(path, verify=True)
    assert found.content == {"large": [[*p] for p in large], "small": [[*p] for p in small]}
    for piece, array in zip(found.content["large"], arrays, strict=True):
        assert found.weights(piece).tobytes() == array.tobytes()
        assert not array.size or found.weights(piece).ctypes.data % 64 == 0
    for piece, data in zip(found.content["small"], heads, strict=True):
        assert found.head(piece).tobytes() == data


class Written(io.RawIOBase):
    """A file in memory that records where each write begins."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.starts.append(len(self.data))
        self.data += data
        return len(data)


@given(st.lists(st.binary(max_size=50), max_size=9))
def test_writes_are_aligned_to_the_buffer_size(pieces: list[bytes]) -> None:
    raw = Written()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "WRITE_BUFFER_BYTES", 16)
        buffered = io.BufferedWriter(raw, 16)
        for number, piece in enumerate(pieces):
            at = sum(map(len, pieces[:number]))
            files.write_evenly(cast(BinaryIO, buffered), memoryview(piece), at)
        buffered.flush()
    assert raw.data == b"".join(pieces)
    assert raw.starts == list(range(0, len(raw.data), 16))


@pytest.mark.slow
def test_every_flipped_byte_is_an_error(tiny: Path) -> None:
    data = bytearray(tiny.read_bytes())
    rules: set[str] = set()
    for i in range(len(data)):
        data[i] ^= 1 << i % 8
        rules.add(rule(bytes(data)))
        data[i] ^= 1 << i % 8
    assert rules == {"artifact/format", "artifact/damaged"}
    restored(bytes(data), 1)


def test_every_truncation_is_an_error(tiny: Path) -> None:
    data = tiny.read_bytes()
    rules = {rule(data[:size]) for size in range(0, len(data), 64)} | {rule(data + b"\0")}
    assert rules == {"artifact/format", "artifact/damaged"}


@pytest.mark.parametrize(
    ("version", "made", "hint"),
    [
        (max(FORMATS) + 1, "a newer", f"update nnefc, or {COMPILE_AGAIN}"),
        (FORMAT - 1, "an older", COMPILE_AGAIN),
        (1 << 31, "a newer", f"update nnefc, or {COMPILE_AGAIN}"),
    ],
)
def test_other_formats_are_refused(tiny: Path, version: int, made: str, hint: str) -> None:
    data = bytearray(tiny.read_bytes())
    struct.pack_into("<I", data, 16, version)
    with pytest.raises(NnefError, match=f"of format {version}, of {made} nnefc") as caught:
        restored(bytes(data), 1)
    (error,) = caught.value.errors
    assert (error.rule, error.hint) == ("artifact/format", hint)


@pytest.mark.parametrize(
    ("content", "hint"),
    [(b"", ""), (b"version 1.0;\ngraph", "compile"), (b"\x1f\x8b" + bytes(200), "compile")],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, hint: str) -> None:
    path = tmp_path / "net.nnefc"
    path.write_bytes(content.ljust(200 if content else 0, b" "))
    with pytest.raises(NnefError) as caught:
        open_file(path)
    assert caught.value.errors[0].rule == "artifact/format"
    assert hint in caught.value.errors[0].hint


def test_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", tmp_path / "a\0b"):
        with pytest.raises(NnefError) as caught:
            open_file(path)
        assert caught.value.errors[0].rule == "data/file"


def test_another_digest_than_the_required_one_is_an_error(tiny: Path) -> None:
    digest = open_file(tiny).digest
    assert open_file(tiny, digest=digest.upper()).digest == digest
    with pytest.raises(NnefError, match=digest) as caught:
        open_file(tiny, digest="00")
    assert caught.value.errors[0].rule == "artifact/digest"


def test_weights_are_verified_on_request(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        writer = Writer(file)
        offset, _ = writer.weights(np.zeros(1 << 19, np.float32))
        writer.finish({})
    digest = open_file(path, verify=True).digest
    with path.open("r+b") as file:
        file.seek(offset + 12345)
        file.write(b"\1")
    open_file(path)
    for options in ({"verify": True}, {"digest": digest}):
        with pytest.raises(NnefError, match="checksum of the weights"):
            open_file(path, **options)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("piece", [[-1, 4], [0, 4], [4096, 1 << 40], [0.5, 1], [1], "ab", None])
def test_pieces_outside_the_file_are_refused(tiny: Path, piece: object) -> None:
    file: ArtifactFile = open_bytes(tiny.read_bytes())
    with pytest.raises((ValueError, TypeError)):
        file.weights(piece)
    if piece != [0, 4]:
        with pytest.raises((ValueError, TypeError)):
            file.head(piece)


def test_a_manifest_of_another_shape_is_damage(tmp_path: Path) -> None:
    for content in ({}, {"name": "x"}, {"name": 1, "nnefc": 2, "inputs": 3}):
        path = tmp_path / "a"
        with path.open("wb") as file:
            Writer(file).finish(content)
        assert rule(path.read_bytes()) == "artifact/damaged"
