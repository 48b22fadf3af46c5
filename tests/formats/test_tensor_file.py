"""Reading and writing tensor files: conformance cases, damaged files, mapping, streams."""

from __future__ import annotations

import io
import json
import math
import os
import struct
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from nnefc.formats.tensor_file import decode_tensor, read_tensor, write_tensor
from nnefc.support.errors import NnefError, NnefWarning
from nnefc.support.limits import Limits
from tests.helpers.nnef.conformance import CONFORMANCE, needs_conformance
from tests.helpers.nnef.hostile import mutate, random_tensor_file, tensor_file
from tests.helpers.nnef.tensor_files import tensor_bytes

DAT = CONFORMANCE / "dat" if CONFORMANCE else Path()


def _index(name: str) -> dict[str, dict[str, Any]]:
    return json.loads((DAT / name).read_text()) if CONFORMANCE else {}


def _rules(content: bytes) -> set[str]:
    with pytest.raises(NnefError) as caught:
        read_tensor(io.BytesIO(content))
    return {error.rule for error in caught.value.errors}


@needs_conformance
@pytest.mark.filterwarnings("ignore::nnefc.support.errors.NnefWarning")
@pytest.mark.parametrize("name", _index("index.json"))
def test_conformance_files_have_the_expected_values(name: str) -> None:
    case = _index("index.json")[name]
    order = case.get("bit_order")
    actual = read_tensor(DAT / f"{name}.dat", bit_order=order if order in ("lsb", "msb") else None)
    expected = np.load(DAT / f"{name}.npy")
    assert actual.shape == expected.shape
    rtol = 1e-6 if case["encoding"] in ("linear", "log", "log-signed") else 0
    np.testing.assert_allclose(actual, expected, rtol=rtol)


@needs_conformance
@pytest.mark.parametrize("name", _index("malformed.json"))
def test_malformed_conformance_files_are_refused(name: str) -> None:
    path = DAT / "malformed" / f"{name}.dat"
    with pytest.raises(NnefError) as caught:
        read_tensor(path)
    assert all(error.rule.startswith("data/") for error in caught.value.errors)
    assert all(error.file == str(path) for error in caught.value.errors)


@pytest.mark.parametrize(
    ("content", "rules"),
    [
        (tensor_file(bits=33), {"data/bits"}),
        (tensor_file(bits=65, code=4), {"data/bits"}),
        (tensor_file(bits=2, code=5), {"data/bits"}),
        (tensor_file(code=6), {"data/code"}),
        (tensor_file(code=0x2040, vendor=0x5452), {"data/vendor"}),
        (tensor_file(version=(0, 9)), {"data/version"}),
        (tensor_file(rank=9), {"data/rank"}),
        (tensor_file(rank=1, data=bytes(8)), {"data/extent"}),
        (tensor_file((2, 0, 2), bits=99), {"data/extent", "data/bits"}),
        (tensor_file(length=31), {"data/length"}),
        (tensor_file(data=bytes(31), length=32), {"data/size"}),
        (tensor_file() + b"\0", {"data/size"}),
        (tensor_file(code=0x10, parameters=struct.pack("<2f", 1, 0)), {"data/range"}),
        (tensor_file(code=0x11, parameters=struct.pack("<2f", 1, 2)), {"data/range"}),
        (tensor_file(code=0x11, parameters=struct.pack("<2f", 0, math.inf)), {"data/range"}),
        (b"\x4e", {"data/truncated"}),
        (b"version 1.0;", {"data/magic"}),
    ],
)
def test_invalid_files_are_refused_with_a_rule(content: bytes, rules: set[str]) -> None:
    assert _rules(content) == rules


def test_messages_name_the_values() -> None:
    with pytest.raises(NnefError) as caught:
        decode_tensor(tensor_file(length=31), "net.tgz/w.dat")
    (error,) = caught.value.errors
    assert error.file == "net.tgz/w.dat"
    assert "31 bytes" in error.message and "(2, 4)" in error.message and "32" in error.message


def test_irregular_files_are_read_with_a_warning() -> None:
    reserved = bytearray(tensor_file())
    reserved[127] = 1
    with pytest.warns(NnefWarning, match="reserved") as caught:
        decode_tensor(bytes(reserved), "reserved")
    assert caught[0].filename == __file__
    with pytest.warns(NnefWarning, match="padded"):
        decode_tensor(tensor_file((3,), 1, 5, data=b"\x07"), "padding")


@pytest.mark.parametrize(
    ("array", "options", "rule"),
    [
        (np.zeros((0, 3)), {}, "data/shape"),
        (np.zeros((1,) * 9), {}, "data/shape"),
        (np.array(["a"]), {}, "data/type"),
        (np.array([1j]), {}, "data/type"),
        (np.array([None]), {}, "data/type"),
        (np.array([1.5]), {"encoding": "integer"}, "data/type"),
        (np.array([1]), {"encoding": "bool"}, "data/type"),
        (np.array([1]), {"encoding": "text"}, "data/code"),
        (np.array([1.0]), {"bits": 24}, "data/bits"),
        (np.array([256]), {"bits": 8, "signed": False}, "data/value"),
        (np.array([-1]), {"signed": False}, "data/value"),
        (np.array([128]), {"bits": 8}, "data/value"),
        (np.array([1e39]), {"bits": 32}, "data/value"),
        (np.array([70000]), {"encoding": "float", "bits": 16}, "data/value"),
        (np.array([np.nan]), {"encoding": "linear"}, "data/value"),
        (np.array([np.inf]), {"encoding": "logarithmic"}, "data/value"),
        (np.array([1.0]), {"encoding": "linear", "min": 2.0, "max": 1.0}, "data/range"),
        (np.array([1.0]), {"encoding": "linear", "max": 1e300}, "data/range"),
        (np.array([0.0]), {"encoding": "logarithmic"}, "data/range"),
        (np.array([1.0]), {"encoding": "logarithmic", "min": 0.5}, "data/range"),
        (np.array([-1.0]), {"encoding": "logarithmic", "signed": False}, "data/value"),
        (np.array([1]), {"bits": 3, "bit_order": "middle"}, "data/bits"),
        (np.broadcast_to(np.float64(0), (1 << 16, 1 << 14)), {}, "data/length"),
        (np.broadcast_to(np.float32(0), (1 << 33,)), {"encoding": "bool"}, "data/shape"),
    ],
)
def test_arrays_that_cannot_be_written(
    array: Any, options: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    (tmp_path / "t.dat").write_bytes(b"as it was")
    with pytest.raises(NnefError) as caught:
        write_tensor(tmp_path / "t.dat", array, **options)
    assert [error.rule for error in caught.value.errors] == [rule]
    assert [path.name for path in tmp_path.iterdir()] == ["t.dat"]
    assert (tmp_path / "t.dat").read_bytes() == b"as it was"


def test_strided_and_foreign_arrays(tmp_path: Path) -> None:
    array = np.arange(24, dtype=">f4").reshape(2, 3, 4).transpose(2, 0, 1)[::2]
    write_tensor(tmp_path / "t.dat", array)
    np.testing.assert_array_equal(read_tensor(tmp_path / "t.dat"), array)


def test_large_files_are_mapped(tmp_path: Path) -> None:
    array = np.arange(1 << 16, dtype=np.int16).reshape(256, 256)
    write_tensor(tmp_path / "t.dat", array)
    mapped, copied = read_tensor(tmp_path / "t.dat"), read_tensor(tmp_path / "t.dat", mmap=False)
    assert not mapped.flags.writeable and mapped.flags.aligned
    assert copied.flags.writeable
    np.testing.assert_array_equal(mapped, array)
    np.testing.assert_array_equal(copied, array)


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_many_mappings_do_not_use_up_descriptors(tmp_path: Path) -> None:
    write_tensor(tmp_path / "t.dat", np.zeros(1 << 16, np.float32))
    before = _descriptors()
    arrays = [read_tensor(tmp_path / "t.dat") for _ in range(400)]
    assert _descriptors() - before < 300
    assert len(arrays) == 400


class _Unseekable(io.RawIOBase):
    """A stream that gives a few bytes at a time."""

    def __init__(self, content: bytes) -> None:
        self._rest = content

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece, self._rest = self._rest[: min(size, 7)], self._rest[min(size, 7) :]
        return piece


def test_streams_without_positions() -> None:
    array = np.arange(100, dtype=np.int32)
    stream: Any = _Unseekable(tensor_bytes(array))
    np.testing.assert_array_equal(read_tensor(stream), array)


def test_pipes_and_folders_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.dat")
    with pytest.raises(NnefError, match="pipe"):
        read_tensor(tmp_path / "t.dat")
    with pytest.raises(NnefError, match="no process reads this pipe"):
        write_tensor(tmp_path / "t.dat", np.zeros(1))
    with pytest.raises(NnefError, match="folder"):
        read_tensor(tmp_path)
    with pytest.raises(NnefError, match="no such file"):
        read_tensor(tmp_path / "other.dat")


def test_writing_keeps_existing_permissions_and_links(tmp_path: Path) -> None:
    target = tmp_path / "t.dat"
    target.write_bytes(b"")
    target.chmod(0o640)
    (tmp_path / "link.dat").symlink_to(target)
    write_tensor(tmp_path / "link.dat", np.zeros(1))
    assert (tmp_path / "link.dat").is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert read_tensor(target).tolist() == [0.0]


def test_tensors_beyond_the_limit_are_refused() -> None:
    content = tensor_file((1024,), 1, 0x10, struct.pack("<2f", 0, 1))
    with pytest.raises(NnefError, match="limit/tensor"):
        read_tensor(io.BytesIO(content), limits=Limits(tensor_bytes=4095))
    assert read_tensor(io.BytesIO(content), limits=Limits(tensor_bytes=4096)).shape == (1024,)


def test_truncated_files_are_refused() -> None:
    content = tensor_file((2, 3), 11, 4, data=b"123456789")
    for size in range(len(content)):
        assert _rules(content[:size]) <= {"data/truncated", "data/size"}, size


def test_damaged_files_are_read_or_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NnefWarning)
        for seed in range(1500):
            random = Random(seed)
            content = random_tensor_file(random)
            if seed % 3 == 0:
                content = mutate(content, random)
            try:
                array = read_tensor(io.BytesIO(content))
            except NnefError:
                continue
            assert array.nbytes <= 64 * len(content), seed
