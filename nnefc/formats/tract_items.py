"""The item formats that tract adds to tensor files, of vendor 0x5452, "TR".

    code            items
    --------------  ------------------------------------------------------------------
    0x3040          blocks "q4_0"
    0x2040          blocks "q4_0_legacy"
    0x3080, 0x3081  blocks "q8_1"; writers and readers of tract disagree about the code
    0x1000          strings, each a length of 4 bytes followed by UTF-8
    0x0000, 0x0004  complex numbers, floating-point and integer: real and imaginary part, each of
                    half the width

Blocks (see `nnefc.support.block_formats`) and strings have no width: the header gives 0xffffffff
bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from nnefc.formats.item_encodings import Array, chunks
from nnefc.formats.tensor_header import MAX_LENGTH, TensorHeader
from nnefc.support.block_formats import BLOCK_BYTES, BLOCK_ITEMS
from nnefc.support.errors import NnefError, Place

VENDOR: Final = 0x5452
NO_WIDTH: Final = 0xFFFFFFFF
STRINGS: Final = 0x1000
BLOCKS: Final = {0x3040: "q4_0", 0x2040: "q4_0_legacy", 0x3080: "q8_1", 0x3081: "q8_1"}
COMPLEX: Final = {0x0: "float", 0x4: "int"}
"""Item type of the real and the imaginary part, without its width."""


def check_vendor_header(header: TensorHeader, place: Place) -> None:
    """Check the vendor, item code, bits and data length of a header with a vendor.

    Raises NnefError `data/vendor`, `data/code`, `data/bits`, `data/blocks` or `data/length`.
    """
    if header.vendor != VENDOR:
        message = f"items are stored in format {header.code:#x} of vendor {header.vendor:#x}"
        hint = f"only the formats of the standard and of vendor {VENDOR:#x} can be read"
        raise NnefError.of("data/vendor", message, place, hint)
    if header.code in COMPLEX:
        if header.bits not in (32, 64, 128):
            message = f"{header.bits} bits per complex item; expected 32, 64 or 128"
            raise NnefError.of("data/bits", message, place)
        if header.data_length != (expected := header.volume * header.bits // 8):
            raise _length(header, str(expected), place)
        return
    if header.code not in (*BLOCKS, STRINGS):
        known = ", ".join(f"{code:#x}" for code in (*COMPLEX, *BLOCKS, STRINGS))
        message = f"unknown item code {header.code:#x} of vendor {VENDOR:#x}; known: {known}"
        raise NnefError.of("data/code", message, place)
    if header.bits != NO_WIDTH:
        message = f"{header.bits} bits per item of format {header.code:#x}; expected {NO_WIDTH:#x}"
        raise NnefError.of("data/bits", message, place)
    if header.code == STRINGS:
        if header.data_length < 4 * header.volume:
            raise _length(header, f"at least {4 * header.volume}", place)
        return
    row = math.prod(header.shape[1:])
    if row % BLOCK_ITEMS:
        message = f"rows of {row} items, shape {header.shape}, are not a multiple of {BLOCK_ITEMS}"
        raise NnefError.of("data/blocks", message, place)
    rows, nbytes = _rows(header)
    if header.data_length != rows * nbytes:
        name = BLOCKS[header.code]
        size = BLOCK_BYTES[name]
        blocks = f"{rows * nbytes}: {rows * nbytes // size} blocks {name} of {size} bytes"
        raise _length(header, blocks, place)


def decode_vendor_items(
    header: TensorHeader, data: Array, place: Place
) -> tuple[Array, str | None]:
    """(items, block format or None) of the data of a checked header.

    Blocks are a view of `data`, [rows, bytes of a row].  Complex items have the real and the
    imaginary part in an additional last dimension.
    """
    if header.code == STRINGS:
        return _strings(header, data, place), None
    if header.code in COMPLEX:
        dtype = np.dtype(f"{COMPLEX[header.code]}{header.bits // 2}")
        items = data.view(dtype.newbyteorder("<")).astype(dtype, copy=False)
        return np.require(items, requirements="A").reshape(*header.shape, 2), None
    return data.reshape(_rows(header)), BLOCKS[header.code]


def encode_blocks(array: Array, format: str, place: Place) -> tuple[TensorHeader, Iterator[bytes]]:
    """The header of a tensor file of blocks, uint8 [rows, bytes of a row], and its data in pieces.

    Raises NnefError `data/blocks` and `data/length` for other arrays.
    """
    code = next((code for code, name in BLOCKS.items() if name == format), None)
    is_bytes = array.dtype == np.uint8 and array.ndim == 2
    if code is None or not is_bytes or array.shape[1] % BLOCK_BYTES[format]:
        message = f"{array.dtype}{list(array.shape)} are no rows of blocks {format!r}"
        raise NnefError.of("data/blocks", message, place)
    if array.nbytes > MAX_LENGTH:
        message = f"{array.nbytes} bytes of data exceed the {MAX_LENGTH} of a tensor file"
        raise NnefError.of("data/length", message, place)
    rows, nbytes = array.shape
    header = TensorHeader(
        data_length=array.nbytes,
        shape=(rows, nbytes // BLOCK_BYTES[format] * BLOCK_ITEMS),
        bits=NO_WIDTH,
        code=code,
        vendor=VENDOR,
    )
    return header, (part.tobytes() for part in chunks(array))


def _rows(header: TensorHeader) -> tuple[int, int]:
    """(rows, bytes of a row); dimension 0 counts rows."""
    rows = header.shape[0] if header.shape else 1
    blocks = math.prod(header.shape[1:]) // BLOCK_ITEMS
    return rows, blocks * BLOCK_BYTES[BLOCKS[header.code]]


def _length(header: TensorHeader, expected: str, place: Place) -> NnefError:
    return NnefError.of(
        "data/length",
        f"the header gives {header.data_length} bytes of data, but shape {header.shape} in format"
        f" {header.code:#x} takes {expected}",
        place,
    )


def _strings(header: TensorHeader, data: Array, place: Place) -> Array:
    """The strings as an object array."""
    content, at = data.tobytes(), 0
    strings: list[str] = []
    for number in range(header.volume):
        end = at + 4 + int.from_bytes(content[at : at + 4], "little")
        if end > len(content):
            message = f"string {number} of {header.volume} extends past the end of the data"
            raise NnefError.of("data/strings", message, place)
        try:
            strings.append(content[at + 4 : end].decode())
        except UnicodeDecodeError as error:
            message = f"string {number} of {header.volume} is not UTF-8: {error.reason}"
            raise NnefError.of("data/strings", message, place) from None
        at = end
    if at != len(content):
        message = f"{len(content) - at} bytes follow the last of {header.volume} strings"
        raise NnefError.of("data/strings", message, place)
    array = np.empty(header.volume, object)
    array[:] = strings
    return array.reshape(header.shape)
