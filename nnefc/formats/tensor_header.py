"""The 128-byte header of a tensor file (section 5.2): parse, check and pack it."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.formats.item_encodings import integer_type, log_exponent
from nnefc.support.errors import Diagnostics, NnefError, Place

HEADER_SIZE = 128
MAGIC = b"N\xef"
MAX_RANK = 8
MAX_BITS = 64
MAX_LENGTH = (1 << 32) - 1
"""Largest data length in bytes: the field has 4 bytes."""

# The quantization code is one 32-bit number, as the Khronos tools write it.  The vendor is the
# upper half, although the specification names it first.
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
"""Item codes.  Version 1.0.2 has 0, 1, 0x10 and 0x11; later versions add 2 to 5.  Codes 2 and 3
store plain integers, whose meaning the quantization file gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorHeader:
    """The fields of the header.

    `data_length` in bytes; `bits` per item; `code` and `vendor` are the two halves of the
    quantization code, `parameters` 32 bytes that depend on it; `reserved` should be zeros.
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
            # writers before 2020 stored the float 1.0: any bit that is set means signed
            return self.parameters[:4] != bytes(4)
        if self.code == LOGARITHMIC:
            return self.range[0] != 0
        return self.code in (FLOAT, QINT, INT, LINEAR)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the decoded items.

        Floats keep their type.  Integers get the smallest type that holds the bits.  Quantized
        values get float32, or float64 if the levels of a logarithmic quantization exceed float32.
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


def parse_header(raw: bytes | bytearray, file: str, *, tract: bool = False) -> TensorHeader:
    """The header in the first 128 bytes of a tensor file, checked.

    `tract`: accept what tract writes beyond the standard: extents of 0, and vendor formats, whose
    item code, bits and length are not checked here.

    Raises NnefError with all errors of the header: rules `data/truncated`, `data/magic`,
    `data/version`, `data/rank`, `data/extent`, `data/vendor`, `data/code`, `data/bits`,
    `data/length`, `data/range`.
    """
    place = Place(file)
    _check_magic(raw, place)
    diagnostics = Diagnostics()
    _, major, minor, length, rank, *rest = _LAYOUT.unpack_from(raw)
    extents, (bits, code, vendor, parameters, reserved) = rest[:MAX_RANK], rest[MAX_RANK:]
    if (major, minor) != (1, 0):
        diagnostics.error(
            "data/version", f"version {major}.{minor} of tensor files, not 1.0", place
        )
        diagnostics.raise_errors()
    if rank > MAX_RANK:
        diagnostics.error("data/rank", f"rank {rank} is more than {MAX_RANK}", place)
        diagnostics.raise_errors()
    _check_extents(extents, rank, place, diagnostics, may_be_zero=tract)
    header = TensorHeader(
        version=(major, minor),
        data_length=length,
        shape=tuple(extents[:rank]),
        bits=bits,
        code=code,
        vendor=vendor,
        parameters=parameters,
        reserved=reserved,
    )
    if not vendor:
        _check_standard_format(header, place, diagnostics)
    elif not tract:
        _report_vendor(header, place, diagnostics)
    diagnostics.raise_errors()
    return header


def _check_magic(raw: bytes | bytearray, place: Place) -> None:
    if raw[:2] != MAGIC[: len(raw)]:
        raise NnefError.of(
            "data/magic",
            f"not a tensor file: it begins with {raw[:2].hex(' ')}, not with 4e ef",
            place,
            "section 5.2 of the specification describes the format of tensor files",
        )
    if len(raw) < HEADER_SIZE:
        raise NnefError.of(
            "data/truncated",
            f"the file ends after {len(raw)} bytes, within the {HEADER_SIZE}-byte header",
            place,
            "the file is incomplete; copy or write it again",
        )


def _check_extents(
    extents: Sequence[int],
    rank: int,
    place: Place,
    diagnostics: Diagnostics,
    *,
    may_be_zero: bool,
) -> None:
    """Extents must be positive up to `rank`, unless they may be zero, and 0 from there on."""
    shape = tuple(extents[:rank])
    for axis, extent in enumerate(extents):
        if axis < rank and extent == 0 and not may_be_zero:
            diagnostics.error(
                "data/extent", f"extent 0 in dimension {axis} of shape {shape}", place
            )
        if axis >= rank and extent != 0:
            diagnostics.error(
                "data/extent", f"extent {extent} in dimension {axis} of a rank-{rank} tensor", place
            )


def _report_vendor(header: TensorHeader, place: Place, diagnostics: Diagnostics) -> None:
    letters = header.vendor.to_bytes(2, "big")
    name = f" ({letters.decode()})" if letters.isalnum() else ""
    diagnostics.error(
        "data/vendor",
        f"items are stored in format {header.code:#x} of vendor {header.vendor:#x}{name}",
        place,
        hint="only the formats of the standard can be read; export without vendor formats",
    )


def _check_standard_format(header: TensorHeader, place: Place, diagnostics: Diagnostics) -> None:
    """Check bits, range and data length of a header without vendor."""
    if _check_bits(header, place, diagnostics):
        _check_range(header, place, diagnostics)
    expected = data_length(header.volume, header.bits)
    if not diagnostics.errors and header.data_length != expected:
        diagnostics.error(
            "data/length",
            f"the header gives {header.data_length} bytes of data, but shape {header.shape} with"
            f" {header.bits} bits per item takes {expected}",
            place,
        )


def _check_bits(header: TensorHeader, place: Place, diagnostics: Diagnostics) -> bool:
    """Whether the item code is known and allows the bits; reports an error if not."""
    allowed = allowed_bits(header.code)
    if not allowed:
        codes = ", ".join(f"{code:#x}" for code in NAMES)
        diagnostics.error("data/code", f"unknown item code {header.code:#x}; known: {codes}", place)
    elif header.bits not in allowed:
        listed = f"1 to {MAX_BITS}" if len(allowed) == MAX_BITS else ", ".join(map(str, allowed))
        diagnostics.error(
            "data/bits", f"{header.bits} bits per {header.encoding} item; allowed: {listed}", place
        )
    else:
        return True
    return False


def allowed_bits(code: int) -> tuple[int, ...]:
    """The bits per item that a code allows; empty for an unknown code."""
    if code == FLOAT:
        return 16, 32, 64
    if code == BOOL:
        return 1, 8
    return tuple(range(1, MAX_BITS + 1)) if code in NAMES else ()


def _check_range(header: TensorHeader, place: Place, diagnostics: Diagnostics) -> None:
    if header.code not in (LINEAR, LOGARITHMIC):
        return
    low, high = header.range
    if not (math.isfinite(low) and math.isfinite(high)):
        diagnostics.error(
            "data/range", f"the quantization range {low} to {high} is not finite", place
        )
    elif low > high:
        diagnostics.error("data/range", f"the minimum {low} is above the maximum {high}", place)
    elif header.code == LOGARITHMIC:
        if high <= 0:
            diagnostics.error(
                "data/range", f"maximum {high} of logarithmic quantization is not positive", place
            )
        if low not in (0.0, -high):
            diagnostics.error(
                "data/range",
                f"minimum {low} of logarithmic quantization is neither 0 nor {-high}",
                place,
                hint="0 for unsigned items, minus the maximum for signed ones",
            )
