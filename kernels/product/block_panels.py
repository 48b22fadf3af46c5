"""Panels of weights in blocks, decoded for many rows.

A block of a vector of columns becomes 16 vectors of words and a vector of float32 scales, for rows
of a kind of `block_rows`:

- "int16", "bfloat16": words of two codes of that type, in the order of `block_rows.ORDER`;
  bfloat16 holds all codes of 8 bits
- "bytes": 8 words of four bytes that are multiplied with the upper bytes of rows, and 8 for the
  lower ones, which count a sixteenth.  Codes W of 4 bits become 16 W and W, which is exact.  Codes
  of 8 bits become W and W / 16, rounded to the nearest whole number, and a scale 16 times as large.
  This adds an error of at most 8 * 8 to the product of W with X, which X may have as a rounding of
  half a unit, too.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.product.block_rows import ORDER, RADIX_BITS, WORDS, RowKind, adds_words
from nnefc.kernels.product.fixed_point import BLOCK
from nnefc.kernels.product.stored_blocks import block_bytes
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.dot_words import pair_dot, vector_items
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes, half_bits
from nnefc.kernels.vector.llvm_types import I8, I32
from nnefc.kernels.vector.vector_builder import Vector, vector_function

DECODE_ARGUMENTS: Final = 5
BLOCKS_AT_ONCE: Final = 4
"""Blocks that are decoded at a time; those behind them are prefetched."""
VECTORS: Final = WORDS + 2
"""Vectors of a decoded block: words, scales, and terms of columns, see `block_integers`."""


@cache
def decode_panels(stored: str, kind: RowKind, width: int) -> Any:
    """Function `decode(blocks, panels, b, b_step, target)`: some blocks of up to `width` panels.

    Panels are `b_step` bytes apart, blocks of the target have `width` panels.
    """
    lanes, factor = lanes_of("float32"), 1.0
    nbytes = block_bytes(stored, lanes)
    if kind == "bytes":
        words = _bytes_of_4_bits if stored == "q4_0" else _bytes_of_bytes
        factor = 1.0 if stored == "q4_0" else float(1 << RADIX_BITS)
    else:
        words = _words_of_4_bits if stored == "q4_0" else _words_of_bytes

    @vector_function("float32", lanes, DECODE_ARGUMENTS)
    def decode(v: Vector, blocks, panels, b, b_step, target):
        b, target = v.pointer(b), v.pointer(target)
        with v.loop(0, panels, 1, [b, target]) as panel:
            with v.loop(0, blocks, 1, panel.values) as turn:
                at, to = turn.values
                v.prefetch_lines(at, nbytes, BLOCKS_AT_ONCE * nbytes)
                decoded = list(words(v, at, kind))
                for number, word in enumerate(decoded):
                    word.store(to, number * v.nbytes)
                if kind == "int16" and adds_words():
                    _term(v, decoded).store(to, (WORDS + 1) * v.nbytes)
                scale = convert(v.of("float16").load(at), "float32") * factor
                scale.store(to, WORDS * v.nbytes)
                turn.next = [v.at(at, nbytes), v.at(to, width * VECTORS * v.nbytes)]
            at, to = panel.values
            panel.next = [v.at(at, b_step), v.at(to, VECTORS * v.nbytes)]

    return decode


def _term(v: Vector, words: list[Lanes]) -> Lanes:
    """What remains of sums of products of added words: see `block_integers`."""
    total = v.of("int32").zero()
    for x, y in zip(words[::2], words[1::2], strict=True):
        total = pair_dot().add(total, [x], [y])
    return 0 - total


def _words_of_4_bits(v: Vector, block: Any, kind: RowKind) -> Iterator[Lanes]:
    """The words of a block of "q4_0"."""
    words = v.of("int32")
    for number in range(4):
        codes = words.load(v.at(block, (2 + 4 * number) * v.lanes))
        for shift in range(0, 16, 4):
            yield (_bfloat16_of_4_bits if kind == "bfloat16" else _int16_of_4_bits)(codes, shift)


def _int16_of_4_bits(codes: Lanes, shift: int) -> Lanes:
    """The codes at bit `shift` of each half, less 8."""
    v, b = codes.v, codes.v.builder
    signed = codes ^ -0x77777778  # code - 8 in 4 bits
    kind = ir.VectorType(ir.IntType(16), 2 * v.lanes)
    left, right = (ir.Constant(kind, [n] * 2 * v.lanes) for n in (12 - shift, 12))
    items = b.shl(vector_items(v, signed.value, 16), left)
    return codes.same(vector_items(v, b.ashr(items, right), 32))


def _bfloat16_of_4_bits(codes: Lanes, shift: int) -> Lanes:
    """The codes at bit `shift` of each half, less 8, looked up by 5 bits, the highest ignored."""
    v, b = codes.v, codes.v.builder
    kind = ir.VectorType(ir.IntType(16), 2 * v.lanes)
    numbers = [half_bits("bfloat16", code % 16 - 8) for code in range(2 * v.lanes)]
    signed = [x - (1 << 16) if x >> 15 else x for x in numbers]
    shifted = b.lshr(vector_items(v, codes.value, 16), ir.Constant(kind, [shift] * 2 * v.lanes))
    found = v.call("llvm.x86.avx512.permvar.hi.512", kind, ir.Constant(kind, signed), shifted)
    return codes.same(vector_items(v, found, 32))


def _words_of_bytes(v: Vector, block: Any, kind: RowKind) -> Iterator[Lanes]:
    """The words of a block of "q8_1"."""
    for first in range(0, BLOCK, len(ORDER)):
        for low, high in zip(ORDER[::2], ORDER[1::2], strict=True):
            x, y = (_row(v, block, first + i, kind) for i in (low, high))
            if kind == "bfloat16":
                low_half = Lanes(v, "uint32", x.value) >> 16
                yield x.same(low_half.value) | (y & -0x10000)
            else:
                yield (x & 0xFFFF) | (y << 16)


def _row(v: Vector, block: Any, number: int, kind: RowKind) -> Lanes:
    """A row of a block of bytes: int32, or the bits of float32."""
    codes = v.of("int8").load(v.at(block, (2 + number) * v.lanes))
    return convert(codes, "float32").bits() if kind == "bfloat16" else convert(codes, "int32")


def _bytes_of_4_bits(v: Vector, block: Any, _kind: RowKind) -> Iterator[Lanes]:
    """The bytes of a block of "q4_0"."""
    words = v.of("int32")
    codes = [words.load(v.at(block, (2 + 4 * number) * v.lanes)) for number in range(4)]
    upper, lower, sign = -0x0F0F0F10, 0x0F0F0F0F, -0x7F7F7F80
    for x in codes:
        yield (x << 4 & upper) ^ sign
        yield (x & upper) ^ sign
    for x in codes:
        for items in (x & lower, x >> 4 & lower):
            less = v.builder.sub(vector_items(v, items.value, 8), _bytes(v, 8))
            yield items.same(vector_items(v, less, 32))


def _bytes_of_bytes(v: Vector, block: Any, _kind: RowKind) -> Iterator[Lanes]:
    """The bytes of a block of "q8_1", from rows of one byte per column."""
    b, count = v.builder, 4 * v.lanes
    order = ir.Constant(ir.VectorType(I32, count), [i % 4 * v.lanes + i // 4 for i in range(count)])
    kind = ir.VectorType(I8, count)
    words = v.of("int32")
    whole: list[Any] = []
    for number in range(WORDS // 2):
        rows = b.load(v.at(block, (2 + 4 * number) * v.lanes), typ=kind, align=1)
        whole.append(b.shuffle_vector(rows, rows, order))
        yield words.value(vector_items(v, whole[-1], 32))
    for x in whole:
        # (x + 8) >> 4 without overflow
        half = b.and_(b.ashr(x, _bytes(v, RADIX_BITS - 1)), _bytes(v, 1))
        rounded = b.add(b.ashr(x, _bytes(v, RADIX_BITS)), half)
        yield words.value(vector_items(v, rounded, 32))


def _bytes(v: Vector, number: int) -> Any:
    """A number in every byte of a vector of words."""
    return ir.Constant(ir.VectorType(I8, 4 * v.lanes), [number] * (4 * v.lanes))
