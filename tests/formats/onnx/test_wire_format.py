"""Fields of protocol buffer messages, against the parser of the package `onnx`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto

from nnefc.formats.onnx.wire_format import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    WireError,
    encoded_bytes,
    encoded_integer,
    encoded_varint,
    fields,
    varint,
)


@given(st.integers(0, 2**64 - 1))
def test_numbers_are_read_as_written(value: int) -> None:
    encoded = encoded_varint(value)
    assert varint(memoryview(encoded), 0, len(encoded)) == (value, len(encoded))
    assert len(encoded) <= 10


@given(st.binary(max_size=40), st.integers(0, 2**31 - 1))
def test_encoded_fields_are_those_of_the_package(data: bytes, extent: int) -> None:
    tensor = TensorProto()
    tensor.ParseFromString(encoded_bytes(9, data) + encoded_integer(1, extent))
    assert tensor.raw_data == data
    assert list(tensor.dims) == [extent]


@given(st.lists(st.text(max_size=5), max_size=4), st.text(max_size=300))
def test_fields_are_those_of_a_serialized_message(inputs: list[str], doc: str) -> None:
    encoded = NodeProto(input=inputs, doc_string=doc).SerializeToString()
    found = list(fields(memoryview(encoded), 0, len(encoded)))
    values = [encoded[field.begin : field.end].decode() for field in found]
    assert values == [*inputs, doc]
    assert all(field.wire_type == BYTES for field in found)
    assert [field.start for field in found[1:]] == [field.end for field in found[:-1]]


def test_all_wire_types_have_their_sizes() -> None:
    data = b"\x08\x96\x01" + b"\x11" + bytes(8) + b"\x1d" + bytes(4) + b"\x22\x02ab"
    found = list(fields(memoryview(data), 0, len(data)))
    assert [f.wire_type for f in found] == [VARINT, FIXED64, FIXED32, BYTES]
    assert [f.end - f.begin for f in found] == [2, 8, 4, 2]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x0a\x05ab", "has 5 bytes, but 2 are left"),
        (b"\x0a", "cut off"),
        (b"\x80" * 11, "longer than 10 bytes"),
        (b"\x00\x01", "field number 0"),
        (b"\x0b", "wire type 3"),
        (b"\x11\x00", "has 8 bytes, but 1 are left"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "but 0 are left"),
    ],
)
def test_damaged_bytes_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        list(fields(memoryview(data), 0, len(data)))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = list(fields(memoryview(data), 0, len(data)))
    except WireError:
        return
    assert all(f.start < f.begin <= f.end <= len(data) for f in found)
    assert (found[-1].end if found else 0) == len(data)
