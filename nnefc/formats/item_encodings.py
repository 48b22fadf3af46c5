"""Item encodings of tensor files: bit packing and both quantizations of section 5.2.

Items are a bit stream.  Widths that are a multiple of 8 are stored as little-endian bytes.  For
other widths the specification leaves the order of bits within a byte open: "lsb" continues
little-endian bytes (the first item has the lowest bits), "msb" is a big-endian stream (the first
item has the highest bits).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
BitOrder = Literal["lsb", "msb"]

CHUNK = 1 << 16
"""Items per step; a multiple of 8, so that chunks begin at whole bytes."""


def integer_type(bits: int, signed: bool) -> np.dtype[Any]:
    """The smallest integer type of at least `bits` bits (1 to 64)."""
    width = next(w for w in (8, 16, 32, 64) if w >= bits)
    return np.dtype(f"{'int' if signed else 'uint'}{width}")


def default_order(bits: int) -> BitOrder:
    """The bit order of files written here: "msb" for 1-bit items, as in the Khronos tools."""
    return "msb" if bits == 1 else "lsb"


def chunks(array: Array, items: int = CHUNK) -> Iterator[Array]:
    """The items of an array in row-major order, in chunks, without a copy of the whole."""
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    for first in range(0, array.size, items):
        yield flat[first : first + items]


def unpack(data: Array, bits: int, count: int, order: BitOrder) -> Array:
    """`count` unsigned items of `bits` bits from the bytes `data` (uint8, one-dimensional).

    The result has the smallest unsigned type that holds them.
    """
    result = integer_type(bits, signed=False)
    size = result.itemsize
    if bits % 8 == 0:
        wide = np.zeros((count, size), np.uint8)
        wide[:, : bits // 8] = data[: count * bits // 8].reshape(count, bits // 8)
        return wide.view(result.newbyteorder("<")).reshape(count).astype(result, copy=False)
    little: Literal["little", "big"] = "little" if order == "lsb" else "big"
    stream = np.unpackbits(data, count=count * bits, bitorder=little).reshape(count, bits)
    wide = np.zeros((count, 8 * size), np.uint8)
    if order == "lsb":
        wide[:, :bits] = stream
    else:
        wide[:, 8 * size - bits :] = stream
    packed = np.packbits(wide, axis=1, bitorder=little)
    stored = result.newbyteorder("<" if order == "lsb" else ">")
    return packed.view(stored).reshape(count).astype(result, copy=False)


def pack(items: Array, bits: int, order: BitOrder) -> bytes:
    """The inverse of `unpack` for items below 2**bits; the last byte is padded with zero bits."""
    if bits % 8 == 0:
        wide = items.astype("<u8").view(np.uint8).reshape(items.size, 8)
        return wide[:, : bits // 8].tobytes()
    if order == "lsb":
        wide = items.astype("<u8").view(np.uint8).reshape(items.size, 8)
        stream = np.unpackbits(wide, axis=1, bitorder="little")[:, :bits]
        return np.packbits(stream, bitorder="little").tobytes()
    wide = items.astype(">u8").view(np.uint8).reshape(items.size, 8)
    stream = np.unpackbits(wide, axis=1)[:, 64 - bits :]
    return np.packbits(stream).tobytes()


def padding_is_zero(last: int, bits: int, order: BitOrder) -> bool:
    """Whether the bits of the last byte beyond the `bits` used ones (0 = all used) are zero."""
    if bits == 0:
        return True
    unused = 0xFF >> bits if order == "msb" else (0xFF << bits) & 0xFF
    return not last & unused


def to_signed(items: Array, bits: int) -> Array:
    """Unsigned items reinterpreted as two's complement of `bits` bits."""
    signed = np.dtype(f"int{8 * items.dtype.itemsize}")
    shift = 8 * items.dtype.itemsize - bits
    if not shift:
        return items.view(signed)
    by = np.array(shift, items.dtype)
    return np.right_shift(np.left_shift(items, by).view(signed), by.astype(signed))


def to_unsigned(items: Array, bits: int) -> Array:
    """Integers of at most `bits` bits as the items of a bit stream (uint64)."""
    mask = np.uint64((1 << bits) - 1)
    return items.astype(np.int64 if items.dtype.kind == "i" else np.uint64).view(np.uint64) & mask


def linear_decode(items: Array, bits: int, low: float, high: float) -> Array:
    """x = q / r * (max - min) + min, r = 2**bits - 1; float64."""
    return items.astype(np.float64) / float((1 << bits) - 1) * (high - low) + low


def linear_encode(values: Array, bits: int, low: float, high: float) -> Array:
    """q = round(clamp((x - min) / (max - min), 0, 1) * r); uint64. Requires min < max."""
    top = (1 << bits) - 1
    share = np.clip((values.astype(np.float64) - low) / (high - low), 0.0, 1.0)
    level = np.floor(share * float(top) + 0.5)
    # from 54 bits on float(top) is 2**bits, which overflows the cast at 64 bits
    full = level >= float(top)
    return np.where(full, np.uint64(top), np.where(full, 0.0, level).astype(np.uint64))


def log_exponent(high: float) -> int:
    """m = ceil(log2(max)), exactly; `high` positive and finite."""
    mantissa, exponent = math.frexp(high)
    return exponent - 1 if mantissa == 0.5 else exponent


def log_decode(items: Array, bits: int, high: float, signed: bool) -> Array:
    """x = 2**(q + m - r); float64.  If `signed`, the highest bit of an item is its sign."""
    magnitude = bits - 1 if signed else bits
    top = (1 << magnitude) - 1
    wide = items.astype(np.uint64)
    below = np.uint64(top) - (wide & np.uint64(top))
    # levels below the maximum; 4096 of them underflow any float64 to zero
    steps = np.minimum(below, np.uint64(4096)).astype(np.int32)
    with np.errstate(under="ignore"):
        values = np.ldexp(np.float64(1.0), log_exponent(high) - steps)
    if signed:
        values = np.where(wide >> np.uint64(magnitude), -values, values)
    return values


def log_encode(values: Array, bits: int, high: float, signed: bool) -> Array:
    """q = round(clamp(log2(|x|), m - r, m)) - (m - r); uint64, the sign in the highest bit."""
    magnitude = bits - 1 if signed else bits
    top = (1 << magnitude) - 1
    wide = values.astype(np.float64)
    exponent = log_exponent(high)
    with np.errstate(divide="ignore"):
        logarithm = np.log2(np.abs(wide) if signed else np.maximum(wide, 0.0))
    level = np.floor(np.clip(logarithm, float(exponent - top), float(exponent)) + 0.5)
    below = np.minimum(exponent - level, 4096.0 if top > 4096 else float(top))
    items = np.uint64(top) - below.astype(np.uint64)
    items = np.where((wide == 0.0) & (top > 4096), np.uint64(0), items)
    if signed:
        items = items | (np.signbit(wide).astype(np.uint64) << np.uint64(magnitude))
    return items
