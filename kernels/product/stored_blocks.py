"""Reads panels of compressed weights: their items as float32, in registers.

A panel has one vector of columns over the whole depth, in blocks of 32 rows:

- "float16", "bfloat16": rows of items
- blocks along the depth, in a format of `nnefc.support.block_formats`: `packing.block_quantized`
- blocks across the depth, which have a scale for each row: `packing.blocks_across`
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from nnefc.kernels.packing.blocks_across import across_name
from nnefc.kernels.product.fixed_point import BLOCK
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.item_types import HALVES
from nnefc.kernels.vector.lanes import Lanes, fma
from nnefc.kernels.vector.permute import lookup
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.support.block_formats import BLOCK_FORMATS

ITEM: Final = "float32"
"""The item type of the arithmetic."""
_ALONG: Final = {name: kind for name, kind in BLOCK_FORMATS.items() if name != "q4_0_legacy"}
_ACROSS: Final = {across_name(name): kind for name, kind in BLOCK_FORMATS.items()}
IN_FIXED_POINT: Final = frozenset(name for name, kind in _ALONG.items() if kind.bits != 8)
"""The formats for which rows of A are in fixed point, see `nnefc.kernels.product.fixed_point`."""
_IN_PLACE: Final = 5
"""Codes of 4 bits that fit into the fraction of a float32."""


def block_bytes(stored: str, lanes: int) -> int:
    """Bytes of a block of a panel."""
    if stored in HALVES:
        return 2 * BLOCK * lanes
    return _head(stored, lanes) + _kind(stored).code_bytes * lanes


def words_of_codes(v: Vector, stored: str, block: Any) -> list[Lanes]:
    """Vectors whose lanes hold 8 codes of 4 bits of a column."""
    head = _head(stored, v.lanes)
    return [v.of("int32").load(v.at(block, head + number * v.nbytes)) for number in range(4)]


def scales_of_columns(v: Vector, stored: str, block: Any) -> Lanes | None:
    """The scales of the columns of a block, or None if columns have none."""
    kind = _ALONG.get(stored)
    return None if kind is None else convert(v.of(kind.scale).load(block), ITEM)


def zeros_of_columns(v: Vector, stored: str, block: Any) -> Lanes | None:
    """The zero points of the columns of a block, int32, or None if columns have none."""
    kind = _ALONG.get(stored)
    if kind is None or not kind.has_zero:
        return None
    return convert(v.of("int8").load(v.at(block, kind.scale_bytes * v.lanes)), "int32")


def rows_of_block(v: Vector, stored: str, block: Any) -> Iterator[Lanes]:
    """The rows of a block, without the scales of its columns."""
    zeros = zeros_of_columns(v, stored, block)
    if stored in HALVES or _kind(stored).bits == 8:
        for k in range(BLOCK):
            yield _scaled(v, stored, block, k, row_of_block(v, stored, block, k, zeros))
        return
    widen = _codes_of_4_bits(v)
    shift = None if zeros is None else convert(zeros - 8, ITEM)
    for first, words in zip(range(0, BLOCK, 8), words_of_codes(v, stored, block), strict=True):
        for number in range(8):
            codes = widen(words, 2 * (number % 4) + number // 4)
            codes = codes if shift is None else codes - shift
            yield _scaled(v, stored, block, first + number, codes)


def row_of_block(
    v: Vector, stored: str, block: Any, number: int = 0, zeros: Lanes | None = None
) -> Lanes:
    """Row `number` of a block of items of 16 or 8 bits, less the zero points of its columns."""
    if stored in HALVES:
        return convert(v.of(stored).load(v.at(block, 2 * number * v.lanes)), ITEM)
    codes = v.of("int8").load(v.at(block, _head(stored, v.lanes) + number * v.lanes))
    return convert(codes if zeros is None else convert(codes, "int32") - zeros, ITEM)


def _kind(stored: str) -> Any:
    return _ALONG.get(stored) or _ACROSS[stored]


def _head(stored: str, lanes: int) -> int:
    """Bytes before the codes of a block."""
    if stored in _ALONG:
        return _ALONG[stored].packed_head * lanes
    return 4 * BLOCK * (1 + _ACROSS[stored].has_zero)


def _scaled(v: Vector, stored: str, block: Any, number: int, codes: Lanes) -> Lanes:
    """The items of a row whose codes have a scale, and what its zero point adds."""
    if stored not in _ACROSS:
        return codes
    scale = v.load_splat(block, 4 * number)
    if not _ACROSS[stored].has_zero:
        return codes * scale
    return fma(codes, scale, v.load_splat(block, 4 * (BLOCK + number)))


def _codes_of_4_bits(v: Vector) -> Any:
    """`widen(words, number)`: (codes in bits 4 * number to 4 * number + 3) - 8, as float32."""
    find = lookup(v, [code - 8.0 for code in range(16)])

    def by_table(words: Lanes, number: int) -> Lanes:
        assert find is not None
        return find(words >> 4 * number if number else words)

    def in_place(words: Lanes, number: int) -> Lanes:
        # With the exponent at which the last of four fraction bits counts 1, a float is 2 ** e plus
        # their integer value.  This needs neither a shift nor a conversion.
        if number >= _IN_PLACE:
            words, number = words >> 4 * _IN_PLACE, number - _IN_PLACE
        base = 2.0 ** (23 - 4 * number)
        bits = (words & (15 << 4 * number)) | (150 - 4 * number) << 23
        return Lanes(v, "int32", bits.value).from_bits() - (base + 8.0)

    return in_place if find is None else by_table
