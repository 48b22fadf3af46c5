"""The tile of convolutions of bfloat16 in matrix registers (Intel's AMX).

As in `blocked_tile`, a tile is some pixels x `vectors` channel blocks of the output, and its
addresses are data.  A row of a register on the left has some words of the depth of a pixel, which
are neighbours in memory; its rows are pixels at equal distances.  A tile has one or two such
registers.  Positions between the ends of two rows of a plane are computed, too, and not stored.

The whole depth is summed in registers.  Sums are stored on the stack, row by row; then a residual
is added, and results are clamped and stored for each pixel.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.blocked_tile import TAP_BYTES
from nnefc.kernels.tile.half_tile import HalfForm
from nnefc.kernels.tile.matrix_tile import (
    LEFT,
    REGISTERS,
    RIGHT,
    ROW_BYTES,
    ROWS,
    SUMS,
    call_matrices,
)
from nnefc.kernels.tile.offset_table import table_offset
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.dot_words import WORD_BYTES
from nnefc.kernels.vector.lanes import Lanes, clamp, select
from nnefc.kernels.vector.vector_builder import Vector, vector_function
from nnefc.support.alignment import CACHE_LINE

SUMS_ROW: Final = REGISTERS * ROW_BYTES
"""Bytes of a row of sums."""
SUMS_BYTES: Final = REGISTERS * ROWS * SUMS_ROW
"""Bytes of the sums of a tile; those of the pixels of the second register follow the others."""


class SumArguments(NamedTuple):
    """The arguments of `pixel_sums`: 64-bit integers, most of them addresses.

    - count: registers of pixels, 1 or 2
    - first, second: the first pixel of each in x; x_row: bytes from pixel to pixel
    - depth, taps, filter: as in `blocked_tile.TileArguments`
    - step: bytes of the weights of an entry
    - ahead, ahead_end: range of bytes behind the weights of an entry to prefetch
    - sums: memory for the sums
    """

    count: Any
    first: Any
    second: Any
    x_row: Any
    depth: Any
    taps: Any
    filter: Any
    step: Any
    ahead: Any
    ahead_end: Any
    sums: Any


class ResultArguments(NamedTuple):
    """The arguments of `pixel_results`: 64-bit integers, most of them addresses.

    - pixels: their number; sums: those of `pixel_sums`, with int32 offsets of pixels (`rows`)
    - y, residual: as in `blocked_tile.TileArguments`, with the bytes between vectors (`_vector`)
    - bias, clamp: as there
    - channels: the other channels become zero
    """

    pixels: Any
    sums: Any
    rows: Any
    y: Any
    y_pixels: Any
    y_vector: Any
    bias: Any
    residual: Any
    residual_pixels: Any
    residual_vector: Any
    clamp: Any
    channels: Any


@cache
def pixel_sums(vectors: int) -> Any:
    """Function `sums(count, first, ...)`, see `SumArguments`; `vectors` is 1 or 2."""

    @vector_function("float32", ROWS, len(SumArguments._fields))
    def sums(v: Vector, *words):
        given = SumArguments(*words)
        builder = v.builder
        both = builder.icmp_signed("==", given.count, v.word(REGISTERS))
        with builder.if_else(both) as (two, one):
            with two:
                _emit_sums(v, [given.first, given.second], vectors, given)
            with one:
                _emit_sums(v, [given.first], vectors, given)

    return sums


def _emit_sums(v: Vector, firsts: Sequence[Any], vectors: int, given: SumArguments) -> None:
    builder, row = v.builder, v.word(vectors * ROW_BYTES)
    pixels = [v.pointer(first) for first in firsts]
    taps, filter_, sums = map(v.pointer, (given.taps, given.filter, given.sums))
    each = [(i, j) for i in range(len(firsts)) for j in range(vectors)]
    for i, j in each:
        call_matrices(v, "tilezero", SUMS[i] + j)
    with v.loop(0, given.depth, 1) as turn:
        tap = v.at(taps, builder.mul(turn.index, v.word(TAP_BYTES)))
        offset, number = table_offset(v, tap, 0), table_offset(v, tap, 1)
        at = v.at(filter_, builder.mul(number, given.step))
        for j in range(vectors):
            call_matrices(v, "tileloadd64", RIGHT[j], v.at(at, j * ROW_BYTES), row)
        for i, pixel in enumerate(pixels):
            call_matrices(v, "tileloadd64", LEFT[i], v.at(pixel, offset), given.x_row)
        for i, j in each:
            call_matrices(v, host().matrix_dot, SUMS[i] + j, LEFT[i], RIGHT[j])
        with v.loop(given.ahead, given.ahead_end, CACHE_LINE) as line:
            v.prefetch(at, line.index)
    for i, j in each:
        at = v.at(sums, i * ROWS * SUMS_ROW + j * ROW_BYTES)
        call_matrices(v, "tilestored64", SUMS[i] + j, at, v.word(SUMS_ROW))


@cache
def pixel_results(form: HalfForm, vectors: int) -> Any:
    """Function `results(pixels, sums, ...)`, see `ResultArguments`; `vectors` is 1 or 2."""

    @vector_function("float32", ROWS, len(ResultArguments._fields))
    def results(v: Vector, *words):
        given = ResultArguments(*words)
        few = v.builder.icmp_signed("<", given.channels, v.word(vectors * v.lanes))
        with v.builder.if_else(few, likely=False) as (some, all_):
            with some:
                rest = [v.builder.sub(given.channels, v.word(v.lanes * j)) for j in range(vectors)]
                _emit_results(v, form, given, list(map(v.mask, rest)))
            with all_:
                _emit_results(v, form, given, [None] * vectors)

    return results


def _emit_results(
    v: Vector, form: HalfForm, given: ResultArguments, masks: Sequence[Lanes | None]
) -> None:
    builder = v.builder
    sums, rows, bias, bounds = map(v.pointer, (given.sums, given.rows, given.bias, given.clamp))
    starts = [v.load(bias, v.nbytes * j) for j in range(len(masks))]
    low, high = (v.splat(v.load_item(bounds, v.itemsize * i)) for i in range(2))
    others = v.of(form.residual) if form.residual else None
    with v.loop(0, given.pixels, 1) as turn:

        def at(tensor: Any, table: Any) -> Any:
            return v.at(v.pointer(tensor), table_offset(v, v.pointer(table), turn.index))

        source = v.at(sums, table_offset(v, rows, turn.index))
        y = at(given.y, given.y_pixels)
        residual = at(given.residual, given.residual_pixels) if others else None
        for j, (start, mask) in enumerate(zip(starts, masks, strict=True)):
            # the bias is added last, because small sums would lose more by rounding
            x = start + v.load(source, v.nbytes * j)
            if others:
                skipped = builder.mul(given.residual_vector, v.word(j))
                x = x + convert(others.load(v.at(residual, skipped)), v.dtype)
            x = clamp(x, low, high)
            if mask is not None:
                x = select(mask, x, 0)
            place = v.at(y, builder.mul(given.y_vector, v.word(j)))
            convert(x, form.result).store(place)


assert SUMS_ROW == REGISTERS * ROWS * WORD_BYTES
