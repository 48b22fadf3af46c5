"""Round rows of weights to blocks of 32 codes with a scale, as llama.cpp does (Q4_0 and Q8_0).

    name   scale of a block                               code of an item x
    -----  ---------------------------------------------  ----------------------------------------
    q4_0   x / -8 for the x of the largest absolute       0 to 15: x / scale + 8.5, cut off; the
           value                                          value is (code - 8) scale
    q8_0   the largest absolute value / 127               -127 to 127: x / scale, halves away from
                                                          zero

Scales are rounded to float16 after the codes are computed.  Blocks of q8_0 are stored in the
format "q8_1", see `nnefc.support.block_formats`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from nnefc.support.block_formats import BLOCK_BYTES, BLOCK_ITEMS

Array = np.ndarray[Any, Any]
WeightFormat = Literal["q4_0", "q8_0"]

STORED: Final[Mapping[WeightFormat, str]] = MappingProxyType({"q4_0": "q4_0", "q8_0": "q8_1"})
"""The format in which blocks are stored, by the name of the rounding."""
_CHUNK_ITEMS: Final = 1 << 20
"""Items that are rounded at once."""


def block_codes(rows: Array, name: WeightFormat) -> Array:
    """The blocks of float32 [rows, depth], uint8 [rows, bytes of a row].

    The depth is a multiple of 32.  Scales beyond float16 are infinite.
    """
    blocks = rows.shape[1] // BLOCK_ITEMS
    made = np.zeros((len(rows), blocks, BLOCK_BYTES[STORED[name]]), np.uint8)
    for part in chunks_of(rows):
        items = rows[part].reshape(-1, blocks, BLOCK_ITEMS).astype(np.float32, copy=False)
        (_round_q4_0 if name == "q4_0" else _round_q8_0)(items, made[part])
    return made.reshape(len(rows), -1)


def chunks_of(rows: Array) -> Iterator[slice]:
    """Slices of the first axis with about `_CHUNK_ITEMS` items each."""
    step = max(1, _CHUNK_ITEMS // max(1, rows.shape[1]))
    return (slice(first, first + step) for first in range(0, len(rows), step))


def _round_q4_0(items: Array, made: Array) -> None:
    largest = np.abs(items).argmax(2, keepdims=True)
    signed = np.take_along_axis(items, largest, 2) + np.float32(0)  # 0 has no sign
    scale = signed / np.float32(-8)
    codes = (items * _inverse(scale) + np.float32(8.5)).astype(np.int8)
    codes = np.minimum(codes, 15).astype(np.uint8)
    half = BLOCK_ITEMS // 2
    made[..., :2] = _float16(scale)
    made[..., 2:] = codes[..., :half] | (codes[..., half:] << 4)


def _round_q8_0(items: Array, made: Array) -> None:
    scale = np.abs(items).max(2, keepdims=True) / np.float32(127)
    numbers = items * _inverse(scale)
    whole = np.trunc(numbers)
    away = np.abs(numbers - whole) >= np.float32(0.5)
    codes = whole + np.copysign(away.astype(np.float32), numbers)
    made[..., :2] = _float16(scale)
    made[..., 4:] = codes.astype(np.int8).view(np.uint8)


def _inverse(scale: Array) -> Array:
    """1 / scale in float32; 0 for 0 and for scales whose inverse is infinite."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(1) / scale
    return np.where(np.isfinite(inverse), inverse, np.float32(0))


def _float16(scale: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(scale.astype("<f2")).view(np.uint8)
