"""Tensor files against the conformance cases, Khronos' reader and writer, and chapter 5.2."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (Khronos' package is not typed)

from __future__ import annotations

import io
import json
import math
import os
import struct
import warnings
from pathlib import Path
from random import Random
from typing import Any, cast

import nnef
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nnefc.formats.encoding import BitOrder, linear_decode, log_decode, log_exponent
from nnefc.formats.tensor_file import decode_tensor, read_header, read_tensor, write_tensor
from nnefc.support.errors import NnefError, NnefWarning
from nnefc.support.limits import Limits
from tests.helpers.examples import examples
from tests.helpers.nnef.conformance import CONFORMANCE, needs_conformance
from tests.helpers.nnef.hostile import mutate, random_tensor_file, tensor_file

DAT = CONFORMANCE / "dat" if CONFORMANCE else Path()


def _index(name: str) -> dict[str, dict[str, Any]]:
    return json.loads((DAT / name).read_text()) if CONFORMANCE else {}


def _rules(content: bytes) -> set[str]:
    with pytest.raises(NnefError) as caught:
        read_tensor(io.BytesIO(content))
    return {error.rule for error in caught.value.errors}


def _written(array: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    write_tensor(out, array, **options)
    return out.getvalue()


@needs_conformance
@pytest.mark.filterwarnings("ignore::nnefc.support.errors.NnefWarning")
@pytest.mark.parametrize("name", _index("index.json"))
def test_conformance_values(name: str) -> None:
    case = _index("index.json")[name]
    order = case.get("bit_order")
    actual = read_tensor(DAT / f"{name}.dat", bit_order=order if order in ("lsb", "msb") else None)
    expected = np.load(DAT / f"{name}.npy")
    assert actual.shape == expected.shape
    rtol = 1e-6 if case["encoding"] in ("linear", "log", "log-signed") else 0
    np.testing.assert_allclose(actual, expected, rtol=rtol)


@needs_conformance
@pytest.mark.parametrize("name", _index("malformed.json"))
def test_conformance_malformed(name: str) -> None:
    path = DAT / "malformed" / f"{name}.dat"
    with pytest.raises(NnefError) as caught:
        read_tensor(path)
    assert all(error.rule.startswith("data/") for error in caught.value.errors)
    assert all(error.file == str(path) for error in caught.value.errors)


DTYPES = ["float16", "float32", "float64", "bool"] + [
    f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)
]


def _random_array(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    raw = np.random.default_rng(seed)
    if dtype == "bool":
        return raw.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        return raw.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return raw.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (1, 2, 1, 3, 1, 1, 2, 2)])
def test_khronos_reads_what_we_write(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = _random_array(dtype, shape)
    write_tensor(tmp_path / "t.dat", array)
    with (tmp_path / "t.dat").open("rb") as file:
        theirs: Any = nnef.read_tensor(file)
    assert theirs.dtype == array.dtype
    np.testing.assert_array_equal(theirs, array)


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_we_read_what_khronos_writes(dtype: str, quantized: bool, tmp_path: Path) -> None:
    if quantized and not dtype.startswith(("int", "uint")):
        pytest.skip("only integers are written as quantized")
    array = _random_array(dtype, (3, 7))
    with (tmp_path / "t.dat").open("wb") as file:
        nnef.write_tensor(file, array, quantized=quantized)
    ours = read_tensor(tmp_path / "t.dat")
    assert ours.dtype == array.dtype
    np.testing.assert_array_equal(ours, array)
    code = {"f": "float", "b": "bool", "i": "int", "u": "integer"}[array.dtype.kind]
    if quantized:
        code = "qint" if array.dtype.kind == "i" else "quint"
    assert read_header(tmp_path / "t.dat").encoding == code


def _bits_of(content: bytes, order: str) -> list[int]:
    """The bits of the data in the order of the stream, one by one."""
    places = range(8) if order == "lsb" else range(7, -1, -1)
    return [byte >> place & 1 for byte in content[128:] for place in places]


def _items_of(content: bytes, bits: int, count: int, order: str) -> list[int]:
    """The items of a tensor file as plain numbers, by the definition of the two orders."""
    stream = _bits_of(content, order)
    items: list[int] = []
    for index in range(count):
        digits = stream[index * bits : (index + 1) * bits]
        if order == "lsb" or bits % 8 == 0:
            items.append(sum(digit << place for place, digit in enumerate(digits)))
        else:
            items.append(int("".join(map(str, digits)), 2))
    return items


@examples(1.5)
@given(st.data())
def test_integers_of_any_width(data: st.DataObject) -> None:
    bits = data.draw(st.integers(1, 64))
    signed = data.draw(st.booleans())
    order = data.draw(st.sampled_from(["lsb", "msb"]))
    name = data.draw(st.sampled_from(["integer", "int" if signed else "quint"]))
    if name == "int":
        signed = True
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    values = data.draw(st.lists(st.integers(low, high), min_size=1, max_size=20))
    array = np.array(values, np.int64 if signed else np.uint64)
    content = _written(array, encoding=name, bits=bits, signed=signed, bit_order=order)
    assert len(content) == 128 + math.ceil(len(values) * bits / 8)
    effective = "lsb" if bits % 8 == 0 else order
    stored = _items_of(content, bits, len(values), effective)
    assert stored == [value % (1 << bits) for value in values]
    assert not any(_bits_of(content, effective)[len(values) * bits :])
    back = read_tensor(io.BytesIO(content), bit_order=cast(BitOrder, order))
    assert back.dtype.itemsize == next(w for w in (1, 2, 4, 8) if 8 * w >= bits)
    assert back.tolist() == values


def _encode_linear(x: float, low: float, high: float, bits: int) -> int:
    r = 2**bits - 1
    return math.floor(min(max((x - low) / (high - low), 0.0), 1.0) * r + 0.5)


def _decode_linear(q: int, low: float, high: float, bits: int) -> float:
    return q / (2**bits - 1) * (high - low) + low


def _encode_log(x: float, high: float, bits: int) -> int:
    r, m = 2**bits - 1, math.ceil(math.log2(high))
    level = math.log2(x) if x > 0 else -math.inf
    return math.floor(min(max(level, m - r), m) + 0.5) - (m - r)


@given(
    st.integers(1, 20),
    st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=20),
    st.sampled_from([(-1.0, 1.0), (0.0, 2.5), (-3.0, -0.5), (-10.0, 10.0)]),
)
def test_linear_by_the_formula(bits: int, values: list[float], span: tuple[float, float]) -> None:
    low, high = span
    array = np.array(values, np.float64)
    content = _written(array, encoding="linear", bits=bits, min=low, max=high, bit_order="lsb")
    stored = [_encode_linear(x, low, high, bits) for x in values]
    assert _items_of(content, bits, len(values), "lsb") == stored
    back = read_tensor(io.BytesIO(content), bit_order="lsb")
    assert back.dtype == np.float32
    expected = [_decode_linear(q, low, high, bits) for q in stored]
    np.testing.assert_allclose(back, expected, rtol=1e-6, atol=1e-7)


@given(
    st.integers(1, 9),
    st.lists(st.floats(0, 10, width=32), min_size=1, max_size=20),
    st.sampled_from([0.25, 1.0, 3.0, 8.0]),
    st.booleans(),
    st.booleans(),
)
@example(5, [0.0, 1.0], 1.0, True, True)
def test_logarithmic_by_the_formula(
    bits: int, values: list[float], high: float, signed: bool, negate: bool
) -> None:
    negate = negate and signed
    array = np.array(values, np.float64) * (-1 if negate else 1)
    content = _written(
        array, encoding="logarithmic", bits=bits, max=high, signed=signed, bit_order="lsb"
    )
    magnitude = bits - 1 if signed else bits
    stored = [_encode_log(x, high, magnitude) for x in values]
    with_sign = [q + (2**magnitude if negate else 0) for q in stored]
    assert _items_of(content, bits, len(values), "lsb") == with_sign
    back = read_tensor(io.BytesIO(content), bit_order="lsb")
    m, r = math.ceil(math.log2(high)), 2**magnitude - 1
    expected = [(-1.0 if negate else 1.0) * 2.0 ** (q + m - r) for q in stored]
    np.testing.assert_array_equal(back, expected)


@pytest.mark.parametrize("bits", [30, 53, 54, 63, 64])
def test_wide_quantized_items(bits: int) -> None:
    values = np.array([-1.0, -0.5, 0.0, 0.25, 1.0])
    linear = read_tensor(io.BytesIO(_written(values, encoding="linear", bits=bits)))
    np.testing.assert_allclose(linear, values, rtol=1e-6, atol=1e-8)
    logarithmic = _written(values, encoding="logarithmic", bits=bits, signed=True)
    np.testing.assert_array_equal(
        read_tensor(io.BytesIO(logarithmic)), np.sign(values) * np.abs(values)
    )


def test_levels_beyond_float32_are_float64() -> None:
    header = struct.pack("<2f", 0.0, 1.0)
    few = decode_tensor(tensor_file((2,), 7, 0x11, header, b"\0\0"), "few")
    many = decode_tensor(tensor_file((2,), 8, 0x11, header, b"\0\xff"), "many")
    assert few.dtype == np.float32 and few[0] == 2.0**-127
    assert many.dtype == np.float64 and many.tolist() == [2.0**-255, 1.0]


@given(st.floats(2.0**-149, 2.0**127, width=32))
def test_exponent_of_the_maximum_is_exact(high: float) -> None:
    m = log_exponent(high)
    assert 2.0 ** (m - 1) < high <= 2.0**m


def test_extreme_items_of_quantized_encodings() -> None:
    top = np.array([0, 2**64 - 1], np.uint64)
    assert linear_decode(top, 64, -1.0, 1.0).tolist() == [-1.0, 1.0]
    assert log_decode(top, 64, 1.0, False).tolist() == [0.0, 1.0]


def test_an_old_signed_flag_counts() -> None:
    """Before 2020 the flag of signed integers was written as the float 1.0."""
    content = tensor_file((2,), 8, 1, struct.pack("<f", 1.0), b"\xff\x01")
    assert decode_tensor(content, "old").tolist() == [-1, 1]


def test_bools_of_one_byte() -> None:
    content = tensor_file((3,), 8, 5, data=b"\0\1\2")
    assert decode_tensor(content, "bools").tolist() == [False, True, True]


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
def test_refused(content: bytes, rules: set[str]) -> None:
    assert _rules(content) == rules


def test_messages_name_the_values() -> None:
    with pytest.raises(NnefError) as caught:
        decode_tensor(tensor_file(length=31), "net.tgz/w.dat")
    (error,) = caught.value.errors
    assert error.file == "net.tgz/w.dat"
    assert "31 bytes" in error.message and "(2, 4)" in error.message and "32" in error.message


def test_doubtful_files_are_read_with_a_warning() -> None:
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
def test_what_cannot_be_written(
    array: Any, options: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    (tmp_path / "t.dat").write_bytes(b"as it was")
    with pytest.raises(NnefError) as caught:
        write_tensor(tmp_path / "t.dat", array, **options)
    assert [error.rule for error in caught.value.errors] == [rule]
    assert [path.name for path in tmp_path.iterdir()] == ["t.dat"]
    assert (tmp_path / "t.dat").read_bytes() == b"as it was"


def test_constant_tensors_are_quantized_exactly() -> None:
    content = _written(np.full((3,), 0.1, np.float32), encoding="linear")
    assert read_tensor(io.BytesIO(content)).tolist() == [float(np.float32(0.1))] * 3


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
    stream: Any = _Unseekable(_written(array))
    np.testing.assert_array_equal(read_tensor(stream), array)


def test_no_waiting_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.dat")
    with pytest.raises(NnefError, match="pipe"):
        read_tensor(tmp_path / "t.dat")
    with pytest.raises(NnefError, match="pipe"):
        write_tensor(tmp_path / "t.dat", np.zeros(1))
    with pytest.raises(NnefError, match="folder"):
        read_tensor(tmp_path)
    with pytest.raises(NnefError, match="no such file"):
        read_tensor(tmp_path / "other.dat")


def test_existing_permissions_and_links_stay(tmp_path: Path) -> None:
    target = tmp_path / "t.dat"
    target.write_bytes(b"")
    target.chmod(0o640)
    (tmp_path / "link.dat").symlink_to(target)
    write_tensor(tmp_path / "link.dat", np.zeros(1))
    assert (tmp_path / "link.dat").is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert read_tensor(target).tolist() == [0.0]


def test_the_limit_of_a_tensor() -> None:
    content = tensor_file((1024,), 1, 0x10, struct.pack("<2f", 0, 1))
    with pytest.raises(NnefError, match="limit/tensor"):
        read_tensor(io.BytesIO(content), limits=Limits(tensor_bytes=4095))
    assert read_tensor(io.BytesIO(content), limits=Limits(tensor_bytes=4096)).shape == (1024,)


def test_truncation_anywhere() -> None:
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
