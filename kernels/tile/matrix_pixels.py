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

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.blocked_tile import TAP_BYTES
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
from nnefc.kernels.tile.real_form import RealForm
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.dot_words import WORD_BYTES
from nnefc.kernels.vector.lanes import Lanes, clamp, select
from nnefc.kernels.vector.llvm_types import BFLOAT
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
def pixel_results(form: RealForm, vectors: int) -> Any:
    """Function `results(pixels, sums, ...)`, see `ResultArguments`; `vectors` is 1 or 2.

    The two vectors of bfloat16 of a panel are neighbours.
    """

    @vector_function("float32", ROWS, len(ResultArguments._fields))
    def results(v: Vector, *words):
        given = ResultArguments(*words)
        builder = v.builder
        bounds = v.pointer(given.clamp)
        high = v.load_item(bounds, v.itemsize)
        finite = builder.fcmp_ordered("!=", high, ir.Constant(v.item, math.inf))
        few = builder.icmp_signed("<", given.channels, v.word(vectors * v.lanes))
        with builder.if_else(builder.or_(few, finite)) as (some, all_):
            with some:
                rest = [builder.sub(given.channels, v.word(v.lanes * j)) for j in range(vectors)]
                _Results(v, form, given, v.splat(high), list(map(v.mask, rest))).emit()
            with all_:
                _Results(v, form, given, None, [None] * vectors).emit()

    return results


@dataclass(frozen=True)
class _Results:
    """The code that finishes the pixels of a tile."""

    v: Vector
    form: RealForm
    given: ResultArguments
    high: Lanes | None
    """The upper bound; None if it is infinite."""
    masks: Sequence[Lanes | None]
    """The lanes of each vector that do not become zero; None for all."""

    def emit(self) -> None:
        v, given = self.v, self.given
        sums, rows, bias = map(v.pointer, (given.sums, given.rows, given.bias))
        starts = [v.load(bias, v.nbytes * j) for j in range(len(self.masks))]
        low = v.splat(v.load_item(v.pointer(given.clamp)))
        with v.loop(0, given.pixels, 1) as turn:
            source = v.at(sums, table_offset(v, rows, turn.index))
            # the bias is added last, because small sums would lose more by rounding
            values = [start + v.load(source, v.nbytes * j) for j, start in enumerate(starts)]
            if self.form.residual:
                added = self._residual(turn.index)
                values = [x + y for x, y in zip(values, added, strict=True)]
            values = [clamp(x, low, self.high) for x in values]
            for j, mask in enumerate(self.masks):
                if mask is not None:
                    values[j] = select(mask, values[j], 0)
            self._store(values, self._at(given.y, given.y_pixels, turn.index))

    def _at(self, tensor: Any, table: Any, pixel: Any) -> Any:
        v = self.v
        return v.at(v.pointer(tensor), table_offset(v, v.pointer(table), pixel))

    def _residual(self, pixel: Any) -> Iterator[Lanes]:
        v, given = self.v, self.given
        at = self._at(given.residual, given.residual_pixels, pixel)
        for j in range(len(self.masks)):
            place = v.at(at, v.builder.mul(given.residual_vector, v.word(j)))
            yield convert(v.of(self.form.residual).load(place), v.dtype)

    def _store(self, values: Sequence[Lanes], at: Any) -> None:
        v = self.v
        if not self.form.result:
            for j, x in enumerate(values):
                x.store(v.at(at, v.builder.mul(self.given.y_vector, v.word(j))))
            return
        kind = ir.VectorType(BFLOAT, v.lanes * len(values))
        name = f"llvm.x86.avx512bf16.cvtne{'' if len(values) == 1 else '2'}ps2bf16.512"
        halves = v.call(name, kind, *(x.value for x in reversed(values)))
        v.builder.store(halves, at, align=2)


assert SUMS_ROW == REGISTERS * ROWS * WORD_BYTES
