"""Item encodings of tensor files, against the formulas of chapter 5.2 and Khronos' tools."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (the package of Khronos is not typed)

from __future__ import annotations

import io
import math
import struct
from pathlib import Path
from typing import Any, cast

import nnef
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nnefc.formats.item_encodings import BitOrder, linear_decode, log_decode, log_exponent
from nnefc.formats.tensor_file import decode_tensor, read_header, read_tensor, write_tensor
from tests.helpers.examples import examples
from tests.helpers.nnef.hostile import tensor_file
from tests.helpers.nnef.tensor_files import tensor_bytes

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
    content = tensor_bytes(array, encoding=name, bits=bits, signed=signed, bit_order=order)
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
    content = tensor_bytes(array, encoding="linear", bits=bits, min=low, max=high, bit_order="lsb")
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
    content = tensor_bytes(
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
    linear = read_tensor(io.BytesIO(tensor_bytes(values, encoding="linear", bits=bits)))
    np.testing.assert_allclose(linear, values, rtol=1e-6, atol=1e-8)
    logarithmic = tensor_bytes(values, encoding="logarithmic", bits=bits, signed=True)
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


def test_constant_tensors_are_quantized_exactly() -> None:
    content = tensor_bytes(np.full((3,), 0.1, np.float32), encoding="linear")
    assert read_tensor(io.BytesIO(content)).tolist() == [float(np.float32(0.1))] * 3
