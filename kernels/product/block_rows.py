"""Rows of float32 as rows of integers or bfloat16, for products with weights in blocks.

There are three kinds of rows (`row_kind`), whose blocks have 32 items:

- "bytes", for matrix registers: whole numbers of 12 bits with a scale, x = X * scale, where
  X = 16 * high + low, both bytes, low from -8 to 7.  No item is rounded by more than 1/4078 of the
  largest in its block.
- "bfloat16", for matrix registers where sums have to be as accurate as those of float32: an item is
  the sum of `PIECES` numbers.
- "int16": whole numbers of 16 bits with a scale.  No item is rounded by more than 1/65278 of the
  largest in its block.

Rows are in groups of `group_rows`, so that a tile reads memory in order.  A block of a group has
64 bytes of each row for each piece, and behind them the scales of the rows.  The last group repeats
the last row.

Words of two items are in the order of `ORDER`, in which codes of 4 bits are unpacked.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Final, Literal

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.product.fixed_point import BLOCK
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.panels import BATCH, batch_offset
from nnefc.kernels.vector.conversion import convert as convert_items
from nnefc.kernels.vector.dot_words import vector_items
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes, fma, select
from nnefc.kernels.vector.llvm_types import FLOAT, I32
from nnefc.kernels.vector.memory import address, load_word, procedure
from nnefc.kernels.vector.vector_builder import Vector, vector_function
from nnefc.support.alignment import CACHE_LINE

RowKind = Literal["bytes", "bfloat16", "int16"]

ORDER: Final = (0, 2, 4, 6, 1, 3, 5, 7)
"""The items of four words: words of 8 codes of 4 bits have pairs at bits 0, 4, 8 and 12."""
WORDS: Final = BLOCK // 2
"""Words of a block of a row."""
PIECE_BYTES: Final = 2 * BLOCK
"""Bytes of a piece of a block of a row."""
PIECES: Final = 3
"""Numbers of bfloat16 that hold any float32."""
RADIX_BITS: Final = 4
"""Bits of the lower byte of "bytes"."""
CONVERT: Final = Layout(
    f"x:ref y:ref x_row rows depth y_group y_block batch_rank batch:{BATCH} x_batch:{BATCH} "
    f"y_batch:{BATCH} units unit_block"
)
"""Parameters of `block_rows.convert`: rows of x, float32, to groups at y.

Rows of x are contiguous, `x_row` bytes apart.  `y_group` and `y_block`: bytes of a group, and of a
block of it.  A unit of work is a group, a tile `unit_block` of `units`.
"""
(
    X,
    Y,
    X_ROW,
    ROWS,
    DEPTH,
    Y_GROUP,
    Y_BLOCK,
    BATCH_RANK,
    BATCH_EXTENTS,
    X_BATCH,
    Y_BATCH,
    UNITS,
    UNIT_BLOCK,
) = CONVERT.offsets
CONVERT_ARGUMENTS: Final = 5
LARGEST: Final = {"bytes": 2039.0, "int16": 32767.0 - 128}
"""The largest |X|; the sum of one of 16 bits and a code of 8 bits fits 16 bits."""
_LEAST: Final = 2.0**-100
"""Blocks of smaller items have the scale of this one, so that no scale is less than normal."""
_NEAR: Final = 1.5 * 2.0**23
"""The last bit of x + _NEAR counts 1, so the sum is rounded to a whole number."""
_NEAR_WORD: Final = 0x4B400000
"""The bits of `_NEAR`: bits(x + _NEAR) - _NEAR_WORD is the nearest whole number."""
_ABSOLUTE: Final = 0x7FFFFFFF
_EXPONENT: Final = 0x7F800000
_NAN: Final = 0x7FC00000


def row_kind(*, strict: bool) -> RowKind | None:
    """The kind of rows that products of this machine read, or None where float32 is faster.

    `strict`: sums are as accurate as those of float32.
    """
    isa = host()
    if strict:
        return "bfloat16" if isa.matrix_dot else None
    if isa.matrix_byte_dot:
        return "bytes"
    return "int16" if isa.byte_dot else None


def is_matrix(kind: RowKind) -> bool:
    """Whether rows are for matrix registers."""
    return kind != "int16"


def pieces(kind: RowKind) -> int:
    """Pieces of an item."""
    return PIECES if kind == "bfloat16" else 1


def group_rows(kind: RowKind) -> int:
    """Rows of a group, which are those of a tile."""
    return 32 if is_matrix(kind) else 6


def scales_at(kind: RowKind) -> int:
    """Byte offset of the scales in a block of a group."""
    return pieces(kind) * group_rows(kind) * PIECE_BYTES


def terms_at(kind: RowKind) -> int:
    """Byte offset of the terms of rows of int16, see `block_integers`: int32, behind the scales."""
    return scales_at(kind) + 4 * group_rows(kind)


def adds_words() -> bool:
    """Whether products of int16 add words before they multiply them, see `block_integers`."""
    return host().adds_beside_products


def block_bytes(kind: RowKind) -> int:
    """Bytes of a block of a group."""
    numbers = {"bytes": 1, "bfloat16": 0, "int16": 2}[kind]
    behind = 4 * numbers * group_rows(kind)
    return scales_at(kind) + (behind + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE


@family()
def convert(kind: RowKind) -> KernelFunction:
    """Convert rows of float32 to groups of rows of a kind."""
    function, call = _convert_row(kind), procedure(CONVERT_ARGUMENTS)
    group, scales = group_rows(kind), scales_at(kind)

    def convert(bases, params, first, last):
        x0, y0 = address(bases, params + X), address(bases, params + Y)
        rows, depth = load_word(params + ROWS), load_word(params + DEPTH)
        x_row, y_block = load_word(params + X_ROW), load_word(params + Y_BLOCK)
        y_group = load_word(params + Y_GROUP)
        groups = (rows + group - 1) // group
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for t in range(first * unit_block, min(last * unit_block, units)):
            number, i = t // groups, t % groups
            x = x0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, X_BATCH, number)
            y = y0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, Y_BATCH, number)
            y += i * y_group
            for r in range(group):
                row = x + min(i * group + r, rows - 1) * x_row
                call(function(), depth, row, y + r * PIECE_BYTES, y + scales + 4 * r, y_block)

    return convert


@cache
def _convert_row(kind: RowKind) -> Any:
    """Function `convert(depth, x, items, scales, block)` of a row; `block`: bytes of a block."""
    emit = {"bytes": _bytes, "bfloat16": _bfloat16, "int16": _int16}[kind]

    @vector_function("float32", min(lanes_of("float32"), BLOCK // 2), CONVERT_ARGUMENTS)
    def convert(v: Vector, depth, x, items, scales, block):
        x, items, scales = (v.pointer(p) for p in (x, items, scales))
        with v.loop(0, depth, BLOCK, [x, items, scales]) as turn:
            at, to, to_scale = turn.values
            xs = [v.load(v.at(at, offset)) for offset in range(0, 4 * BLOCK, v.nbytes)]
            emit(v, xs, to, to_scale)
            turn.next = [v.at(at, 4 * BLOCK), v.at(to, block), v.at(to_scale, block)]

    return convert


def _bfloat16(v: Vector, xs: list[Lanes], target: Any, _scale: Any) -> None:
    step = group_rows("bfloat16") * PIECE_BYTES
    for piece in range(PIECES):
        heads = [x.bits() & -0x10000 for x in xs]
        _store_halves(v, heads, 1, v.at(target, piece * step))
        xs = [x - head.from_bits() for x, head in zip(xs, heads, strict=True)]


def _int16(v: Vector, xs: list[Lanes], target: Any, scale: Any) -> None:
    numbers = _whole_numbers(v, xs, LARGEST["int16"], scale)
    _store_halves(v, numbers, 0, target)
    if not adds_words():
        return
    b, kind = v.builder, ir.VectorType(I32, v.lanes)
    # words 2 i and 2 i + 1 have the items n and n + 4 of eight
    half = len(ORDER) // 2
    orders = [
        ir.Constant(kind, [n for n in range(2 * v.lanes) if n // half % 2 == i]) for i in range(2)
    ]
    total = v.of("int32").zero()
    for x, y in zip(numbers[::2], numbers[1::2], strict=True):
        first, second = (x.same(b.shuffle_vector(x.value, y.value, order)) for order in orders)
        total = total - first * second
    term = v.call(f"llvm.vector.reduce.add.v{v.lanes}i32", I32, total.value)
    b.store(term, v.at(scale, terms_at("int16") - scales_at("int16")), align=4)


def _bytes(v: Vector, xs: list[Lanes], target: Any, scale: Any) -> None:
    for place, x in enumerate(_whole_numbers(v, xs, LARGEST["bytes"], scale)):
        high = (x + (1 << RADIX_BITS - 1)) >> RADIX_BITS
        low = x - (high << RADIX_BITS)
        for half, items in enumerate((high, low)):
            convert_items(items, "int8").store(v.at(target, half * BLOCK + place * v.lanes))


def _whole_numbers(v: Vector, xs: list[Lanes], most: float, target: Any) -> list[Lanes]:
    """The X of a block, whose scale is stored."""
    b = v.builder
    largest, *others = (x.bits() & _ABSOLUTE for x in xs)
    for size in others:
        largest = select(largest > size, largest, size)
    # the order of positive floats is that of their bits
    bits = v.call(f"llvm.vector.reduce.smax.v{v.lanes}i32", I32, largest.value)
    is_special = b.icmp_signed(">=", bits, I32(_EXPONENT))
    size, least = b.bitcast(bits, FLOAT), FLOAT(_LEAST)
    size = b.select(b.fcmp_ordered(">", size, least), size, least)
    scale = b.fmul(size, FLOAT(struct.unpack("<f", struct.pack("<f", 1 / most))[0]))
    b.store(b.select(is_special, b.bitcast(I32(_NAN), FLOAT), scale), target, align=4)
    factor = v.splat(b.fdiv(FLOAT(most), size))
    return [fma(x, factor, _NEAR).bits() - _NEAR_WORD for x in xs]


def _store_halves(v: Vector, numbers: list[Lanes], half: int, target: Any) -> None:
    """Store one half of each of the 32-bit numbers, in the order of words."""
    b, count = v.builder, v.lanes
    order = [2 * (first + i) + half for first in range(0, 2 * count, len(ORDER)) for i in ORDER]
    chosen = ir.Constant(ir.VectorType(I32, 2 * count), order)
    for place, (x, y) in enumerate(zip(numbers[::2], numbers[1::2], strict=True)):
        halves = (vector_items(v, z.value, 16) for z in (x, y))
        items = b.shuffle_vector(*halves, chosen)
        b.store(items, v.at(target, place * v.nbytes), align=4)
