"""The 128-byte header of a tensor file (chapter 5.2): parse, check, pack."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.formats.encoding import integer_type, log_exponent
from nnefc.support.errors import Diagnostics, NnefError, Place

HEADER_SIZE = 128
MAGIC = b"N\xef"
MAX_RANK = 8
MAX_BITS = 64
MAX_LENGTH = (1 << 32) - 1
"""Bytes of data that the 4-byte length can tell."""

# The quantization code is one 32-bit number, as Khronos' tools write it: the vendor, which the
# text names first, is its upper half.
_LAYOUT = struct.Struct("<2sBBII8IIHH32s44s")

FLOAT, INTEGER, QUINT, QINT, INT, BOOL, LINEAR, LOGARITHMIC = 0, 1, 2, 3, 4, 5, 0x10, 0x11
NAMES = {
    FLOAT: "float",
    INTEGER: "integer",
    QUINT: "quint",
    QINT: "qint",
    INT: "int",
    BOOL: "bool",
    LINEAR: "linear",
    LOGARITHMIC: "logarithmic",
}
"""Item codes: 0, 1, 0x10 and 0x11 of version 1.0.2; 2 to 5 of the later ones (2 and 3 carry the
integers as they are, their meaning is in the quantization file)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorHeader:
    """What a tensor file says of itself.

    `data_length` in bytes; `bits` per item; `code` and `vendor` are the two halves of the
    quantization code; `parameters` 32 bytes that depend on it; `reserved` should be zeros.
    """

    version: tuple[int, int] = (1, 0)
    data_length: int
    shape: tuple[int, ...]
    bits: int
    code: int
    vendor: int = 0
    parameters: bytes = bytes(32)
    reserved: bytes = bytes(44)

    @property
    def encoding(self) -> str:
        """The name of the item code."""
        return NAMES.get(self.code, f"code {self.code:#x}")

    @property
    def volume(self) -> int:
        """Number of items."""
        return math.prod(self.shape)

    @property
    def range(self) -> tuple[float, float]:
        """`min` and `max` of a quantized encoding."""
        low, high = struct.unpack_from("<2f", self.parameters)
        return low, high

    @property
    def signed(self) -> bool:
        """Whether the items carry a sign."""
        if self.code == INTEGER:
            # Writers before 2020 stored 1.0 here; any bit counts.
            return self.parameters[:4] != bytes(4)
        if self.code == LOGARITHMIC:
            return self.range[0] != 0
        return self.code in (FLOAT, QINT, INT, LINEAR)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that the items are read as.

        Floats as stored; integers the smallest type that holds the bits; quantized values
        float32, or float64 where the levels of a logarithmic quantization exceed float32.
        """
        if self.code == FLOAT:
            return np.dtype(f"float{self.bits}")
        if self.code == BOOL:
            return np.dtype(bool)
        if self.code == LINEAR:
            return np.dtype(np.float32)
        if self.code == LOGARITHMIC:
            largest = log_exponent(self.range[1])
            smallest = largest - ((1 << (self.bits - self.signed)) - 1)
            return np.dtype(np.float32 if largest <= 127 and smallest >= -149 else np.float64)
        return integer_type(self.bits, self.signed)

    def pack(self) -> bytes:
        """The 128 bytes."""
        extents = (*self.shape, *(0,) * (MAX_RANK - len(self.shape)))
        return _LAYOUT.pack(
            MAGIC,
            *self.version,
            self.data_length,
            len(self.shape),
            *extents,
            self.bits,
            self.code,
            self.vendor,
            self.parameters,
            self.reserved,
        )


def data_length(volume: int, bits: int) -> int:
    """Bytes that `volume` items of `bits` bits take."""
    return (volume * bits + 7) // 8


def parse_header(raw: bytes | bytearray, file: str, *, foreign: bool = False) -> TensorHeader:
    """The header in the first 128 bytes of a tensor file, checked.

    `foreign`: whether formats of other vendors are let through; what such a header says of items
    and of the length is not checked here.

    Raises NnefError with every contradiction found: rules `data/truncated`, `data/magic`,
    `data/version`, `data/rank`, `data/extent`, `data/vendor`, `data/code`, `data/bits`,
    `data/length`, `data/range`.
    """
    place = Place(file)
    if raw[:2] != MAGIC[: len(raw)]:
        raise NnefError.of(
            "data/magic",
            f"not a tensor file: it begins with {raw[:2].hex(' ')}, not with 4e ef",
            place,
            "tensor files are binary files as described in chapter 5.2 of the specification",
        )
    if len(raw) < HEADER_SIZE:
        raise NnefError.of(
            "data/truncated",
            f"the file ends after {len(raw)} bytes, within the header of {HEADER_SIZE}",
            place,
            "the file is incomplete; copy or write it again",
        )
    found = Diagnostics()
    _, major, minor, length, rank, *rest = _LAYOUT.unpack_from(raw)
    extents, (bits, code, vendor, parameters, reserved) = rest[:MAX_RANK], rest[MAX_RANK:]
    if (major, minor) != (1, 0):
        found.error("data/version", f"version {major}.{minor} of tensor files, not 1.0", place)
        found.raise_errors()
    if rank > MAX_RANK:
        found.error("data/rank", f"rank {rank} is more than {MAX_RANK}", place)
        found.raise_errors()
    shape = tuple(extents[:rank])
    for axis, extent in enumerate(extents):
        if axis < rank and extent == 0:
            found.error("data/extent", f"extent 0 in dimension {axis} of shape {shape}", place)
        if axis >= rank and extent != 0:
            found.error(
                "data/extent", f"extent {extent} in dimension {axis} of a rank-{rank} tensor", place
            )
    header = TensorHeader(
        version=(major, minor),
        data_length=length,
        shape=shape,
        bits=bits,
        code=code,
        vendor=vendor,
        parameters=parameters,
        reserved=reserved,
    )
    if vendor and foreign:
        found.raise_errors()
        return header
    if vendor:
        letters = vendor.to_bytes(2, "big")
        shown = f" ({letters.decode()})" if letters.isalnum() else ""
        found.error(
            "data/vendor",
            f"items are stored in format {code:#x} of vendor {vendor:#x}{shown}",
            place,
            hint="only formats of the standard can be read; export without vendor formats",
        )
        found.raise_errors()
    if _check_bits(header, place, found):
        _check_range(header, place, found)
    if not found.errors and length != data_length(header.volume, bits):
        found.error(
            "data/length",
            f"the header tells {length} bytes of data, but shape {shape} with {bits} bits per item"
            f" takes {data_length(header.volume, bits)}",
            place,
        )
    found.raise_errors()
    return header


def _check_bits(header: TensorHeader, place: Place, found: Diagnostics) -> bool:
    allowed = allowed_bits(header.code)
    if not allowed:
        codes = ", ".join(f"{code:#x}" for code in NAMES)
        found.error("data/code", f"unknown item code {header.code:#x}; known: {codes}", place)
    elif header.bits not in allowed:
        words = f"1 to {MAX_BITS}" if len(allowed) == MAX_BITS else ", ".join(map(str, allowed))
        found.error(
            "data/bits", f"{header.bits} bits per {header.encoding} item; allowed: {words}", place
        )
    else:
        return True
    return False


def allowed_bits(code: int) -> tuple[int, ...]:
    """The widths that items of a code may have; empty for an unknown code."""
    if code == FLOAT:
        return 16, 32, 64
    if code == BOOL:
        return 1, 8
    return tuple(range(1, MAX_BITS + 1)) if code in NAMES else ()


def _check_range(header: TensorHeader, place: Place, found: Diagnostics) -> None:
    if header.code not in (LINEAR, LOGARITHMIC):
        return
    low, high = header.range
    if not (math.isfinite(low) and math.isfinite(high)):
        found.error("data/range", f"the quantization range {low} to {high} is not finite", place)
    elif low > high:
        found.error("data/range", f"the minimum {low} is above the maximum {high}", place)
    elif header.code == LOGARITHMIC:
        if high <= 0:
            found.error(
                "data/range", f"maximum {high} of logarithmic quantization is not positive", place
            )
        if low not in (0.0, -high):
            found.error(
                "data/range",
                f"minimum {low} of logarithmic quantization is neither 0 nor {-high}",
                place,
                hint="0 for unsigned items, minus the maximum for signed ones",
            )
