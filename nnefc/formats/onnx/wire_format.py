"""The wire format of protocol buffers: fields of a message, without a schema.

Source: the encoding guide of Protocol Buffers.  A field is a key, `number << 3 | wire type`, and a
value.  Only the four wire types of current files are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
_FIXED: Final = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT: Final = 10
"""Bytes of a number of 64 bits, at 7 bits each."""


class WireError(ValueError):
    """Bytes that are no message; the text gives the reason and the offset."""


class Field(NamedTuple):
    """A field of a message; the offsets count from the start of the buffer."""

    number: int
    wire_type: int
    start: int
    """Of the key."""
    begin: int
    """Of the value: the number, or the bytes behind their length."""
    end: int


def fields(data: memoryview, begin: int, end: int) -> Iterator[Field]:
    """The fields of the message in `data[begin:end]`; raises WireError."""
    at = begin
    while at < end:
        start = at
        key, at = data[at], at + 1
        if key > 0x7F:  # numbers below 128 are one byte
            key, at = varint(data, start, end)
        number, wire_type = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise WireError(f"field number {number} at byte {start}")
        if wire_type == VARINT:
            begin_value = at
            _, at = varint(data, at, end)
        elif wire_type == BYTES:
            length, begin_value = varint(data, at, end)
            at = begin_value + length
        elif wire_type in _FIXED:
            begin_value, at = at, at + _FIXED[wire_type]
        else:
            raise WireError(f"wire type {wire_type} at byte {start}")
        if at > end:
            message = f"field {number} at byte {start} has {at - begin_value} bytes"
            raise WireError(f"{message}, but {end - begin_value} are left")
        yield Field(number, wire_type, start, begin_value, at)


def varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number of variable length and the offset behind it; raises WireError."""
    value = 0
    for i in range(_MAX_VARINT):
        if at + i >= end:
            raise WireError(f"a number at byte {at} is cut off")
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    raise WireError(f"a number at byte {at} is longer than {_MAX_VARINT} bytes")


def encoded_varint(value: int) -> bytes:
    """A natural number in variable length."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encoded_bytes(number: int, value: bytes) -> bytes:
    """A field of bytes: a string, or a message."""
    return encoded_varint(number << 3 | BYTES) + encoded_varint(len(value)) + value


def encoded_integer(number: int, value: int) -> bytes:
    """A field of a natural number."""
    return encoded_varint(number << 3 | VARINT) + encoded_varint(value)
