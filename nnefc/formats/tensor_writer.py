"""Encode arrays as tensor files: choose and check an encoding, then stream the bytes."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nnefc.formats.item_encodings import (
    Array,
    BitOrder,
    chunks,
    default_order,
    linear_encode,
    log_encode,
    pack,
    to_unsigned,
)
from nnefc.formats.tensor_header import (
    BOOL,
    FLOAT,
    INT,
    INTEGER,
    LINEAR,
    LOGARITHMIC,
    MAX_LENGTH,
    MAX_RANK,
    NAMES,
    QINT,
    QUINT,
    TensorHeader,
    allowed_bits,
    data_length,
)
from nnefc.formats.tract_items import encode_blocks
from nnefc.support.errors import NnefError, Place

EncodingName = Literal["float", "integer", "quint", "qint", "int", "bool", "linear", "logarithmic"]

_CODES = {name: code for code, name in NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How to store the items of a tensor; fields that are None follow from the array.

    `encoding` defaults to "float", "integer" (code 1 of version 1.0.2, signed or unsigned) or
    "bool" (code 5 of later versions), by the type of the array.  "int", "quint" and "qint" are the
    later codes 4, 2 and 3.  `bits` defaults to the width of the array's type, to 8 for quantized
    encodings and 1 for "bool".  `minimum` and `maximum` are the range of quantized encodings, by
    default that of the data.  `signed` applies to "integer" and "logarithmic", `bit_order` to
    widths that are not a multiple of 8.  `blocks`: the format of tract in which the bytes of the
    array, [rows, bytes of a row], are blocks of a matrix.
    """

    encoding: EncodingName | None = None
    bits: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    signed: bool | None = None
    bit_order: BitOrder | None = None
    blocks: str | None = None


def encode_tensor(
    array: Array, encoding: Encoding, file: str, *, may_be_empty: bool = False
) -> tuple[TensorHeader, Iterator[bytes]]:
    """The header of a tensor file and its data in pieces.

    All checks are done before it returns.  Raises NnefError `data/type` (items that NNEF or the
    encoding cannot store), `data/shape` (rank above 8; no items, unless it `may_be_empty`),
    `data/bits`, `data/range`, `data/value` (values that do not fit) or `data/length` (above 4 GiB).
    """
    place = Place(file)
    if encoding.blocks is not None:
        return encode_blocks(array, encoding.blocks, place)
    if array.size == 0 and not may_be_empty:
        raise NnefError.of("data/shape", f"shape {array.shape} has no items", place)
    _check_array(array, place)
    code = _code(array, encoding, place)
    bits = _bits(array, code, encoding, place)
    order = encoding.bit_order or default_order(bits)
    if order not in ("lsb", "msb"):
        raise NnefError.of("data/bits", f"bit_order {order!r} is neither 'lsb' nor 'msb'", place)
    length = data_length(array.size, bits)
    if length > MAX_LENGTH:
        raise NnefError.of(
            "data/length",
            f"{length} bytes of data exceed the {MAX_LENGTH} that a tensor file can hold",
            place,
            "split the tensor, or store it in fewer bits",
        )
    parameters, pieces = _parameters_and_data(array, code, bits, order, encoding, place)
    header = TensorHeader(
        data_length=length,
        shape=array.shape,
        bits=bits,
        code=code,
        parameters=parameters.ljust(32, b"\0"),
    )
    return header, pieces


def _check_array(array: Array, place: Place) -> None:
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise NnefError.of(
            "data/type",
            f"items of type {array.dtype} cannot be stored in a tensor file",
            place,
            "convert to float16/32/64, an integer type or bool",
        )
    if array.ndim > MAX_RANK:
        raise NnefError.of("data/shape", f"rank {array.ndim} is more than {MAX_RANK}", place)
    if max(array.shape, default=1) >= 1 << 32:
        raise NnefError.of("data/shape", f"an extent of {array.shape} exceeds 32 bits", place)


def _code(array: Array, encoding: Encoding, place: Place) -> int:
    kind = array.dtype.kind
    if encoding.encoding is None:
        return {"f": FLOAT, "b": BOOL}.get(kind, INTEGER)
    code = _CODES.get(encoding.encoding)
    if code is None:
        raise NnefError.of(
            "data/code",
            f"unknown encoding {encoding.encoding!r}; known: {', '.join(_CODES)}",
            place,
        )
    if (kind == "f" and code in (INTEGER, QUINT, QINT, INT, BOOL)) or (
        kind != "b" and code == BOOL
    ):
        raise NnefError.of(
            "data/type",
            f"items of type {array.dtype} cannot be stored as {encoding.encoding}",
            place,
            "convert the array first",
        )
    return code


def _bits(array: Array, code: int, encoding: Encoding, place: Place) -> int:
    bits = encoding.bits
    if bits is None:
        if code in (LINEAR, LOGARITHMIC):
            bits = 8
        elif code == BOOL:
            bits = 1
        elif code == FLOAT and array.dtype.kind != "f":
            bits = 32
        else:
            bits = 8 * array.dtype.itemsize
    if bits not in allowed_bits(code):
        raise NnefError.of(
            "data/bits", f"{bits} bits per item are not allowed for {NAMES[code]} items", place
        )
    return int(bits)


def _parameters_and_data(
    array: Array, code: int, bits: int, order: BitOrder, encoding: Encoding, place: Place
) -> tuple[bytes, Iterator[bytes]]:
    """The parameters of the header, and the data in pieces."""
    if code == FLOAT:
        return b"", _float_pieces(array, np.dtype(f"<f{bits // 8}"), place)
    if code == LINEAR:
        low, high = _linear_range(array, encoding, place)
        items = (linear_encode(part, bits, low, high) for part in chunks(array))
        return struct.pack("<2f", low, high), (pack(part, bits, order) for part in items)
    if code == LOGARITHMIC:
        high, signed = _log_range(array, encoding, place)
        items = (log_encode(part, bits, high, signed) for part in chunks(array))
        low = -high if signed else 0.0
        return struct.pack("<2f", low, high), (pack(part, bits, order) for part in items)
    if code == BOOL:
        return b"", (pack(part.astype(np.uint8), bits, order) for part in chunks(array))
    signed = code in (QINT, INT)
    if code == INTEGER:
        signed = array.dtype.kind == "i" if encoding.signed is None else encoding.signed
    _check_integers(array, bits, signed, place)
    parameters = struct.pack("<I", code == INTEGER and signed)
    return parameters, _integer_pieces(array, bits, order)


def _float_pieces(array: Array, stored: np.dtype[Any], place: Place) -> Iterator[bytes]:
    narrower = array.dtype.kind != "f" or array.dtype.itemsize > stored.itemsize
    if narrower:
        largest = float(np.finfo(stored).max)
        for part in chunks(array):
            with np.errstate(over="ignore"):
                lost = np.isinf(part.astype(stored)) & ~np.isinf(part.astype(np.float64))
            if lost.any():
                raise NnefError.of(
                    "data/value",
                    f"{part[lost][0]} does not fit a float of {8 * stored.itemsize} bits, whose"
                    f" largest value is {largest:g}",
                    place,
                    "store more bits per item",
                )
    return (part.astype(stored, copy=False).tobytes() for part in chunks(array))


def _integer_pieces(array: Array, bits: int, order: BitOrder) -> Iterator[bytes]:
    if bits == 8 * array.dtype.itemsize:
        stored = array.dtype.newbyteorder("<")
        return (part.astype(stored, copy=False).tobytes() for part in chunks(array))
    return (pack(to_unsigned(part, bits), bits, order) for part in chunks(array))


def _check_integers(array: Array, bits: int, signed: bool, place: Place) -> None:
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    if low < least or high > most:
        raise NnefError.of(
            "data/value",
            f"values from {low} to {high} do not fit {'signed' if signed else 'unsigned'} items of"
            f" {bits} bits, {least} to {most}",
            place,
            "store more bits per item, or another signedness",
        )


def _data_range(array: Array, place: Place) -> tuple[float, float]:
    low, high = float(array.min()), float(array.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise NnefError.of(
            "data/value", "infinities and NaN cannot be stored in a quantized encoding", place
        )
    return low, high


def _as_stored(value: float, what: str, place: Place) -> float:
    """`value` rounded to float32, the type of the header field."""
    with np.errstate(over="ignore"):
        stored = float(np.float32(value))
    if not math.isfinite(stored):
        raise NnefError.of("data/range", f"the {what} {value} is not a finite float32", place)
    return stored


def _linear_range(array: Array, encoding: Encoding, place: Place) -> tuple[float, float]:
    least, most = _data_range(array, place)
    low = _as_stored(least if encoding.minimum is None else encoding.minimum, "minimum", place)
    high = _as_stored(most if encoding.maximum is None else encoding.maximum, "maximum", place)
    if encoding.maximum is None and low == high:
        # all items are equal: any range that begins at their value stores them exactly
        high = float(np.nextafter(np.float32(low), np.float32(np.inf)))
        high = _as_stored(high, "maximum", place)
    if low >= high:
        raise NnefError.of(
            "data/range", f"the minimum {low} is not below the maximum {high}", place
        )
    return low, high


def _log_range(array: Array, encoding: Encoding, place: Place) -> tuple[float, bool]:
    least, most = _data_range(array, place)
    largest = max(abs(least), abs(most)) if encoding.maximum is None else encoding.maximum
    high = _as_stored(largest, "maximum", place)
    if high <= 0:
        raise NnefError.of(
            "data/range",
            f"maximum {high} of logarithmic quantization is not positive",
            place,
            "logarithmic quantization has no zero; pass a maximum or choose another encoding",
        )
    low = encoding.minimum
    signed = encoding.signed
    if signed is None:
        signed = low != 0 if low is not None else least < 0
    if low is not None and float(np.float32(low)) != (-high if signed else 0.0):
        raise NnefError.of(
            "data/range",
            f"minimum {low} of logarithmic quantization must be {-high if signed else 0}",
            place,
        )
    if least < 0 and not signed:
        raise NnefError.of(
            "data/value",
            f"{least} is negative, but the logarithmic quantization is unsigned",
            place,
            "pass signed=True",
        )
    return high, signed
