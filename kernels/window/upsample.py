"""Up-sampling of channel-blocked tensors by whole factors, nearest or linear."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.tile.plane_pieces import Emit, Piece, pieces_kernel
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.instructions import halves_up
from nnefc.kernels.vector.item_types import FLOATS, NUMBER_BYTES, check_accumulator
from nnefc.kernels.vector.lanes import Lanes, clamp, fma, vector_type
from nnefc.kernels.window.upsample_table import CODE_NUMBERS, CODE_RUN, COLUMN, ONE_ROW, TWO_ROWS


@family()
def nearest(item: str, block: int, factor: int) -> KernelFunction:
    """A piece is `count` pixels of an input row; each is stored `factor` times."""

    def emit(piece: Piece) -> None:
        v = piece.items
        size = v.nbytes
        with v.loop(0, piece.count, 1) as turn:
            x = v.load(piece.x, v.builder.mul(turn.index, v.word(size)))
            target = v.at(piece.y, v.builder.mul(turn.index, v.word(size * factor)))
            for i in range(factor):
                x.store(target, size * i)

    return pieces_kernel(item, item, block, {ONE_ROW: emit})


@family()
def linear(item: str, accumulator: str, block: int) -> KernelFunction:
    """A piece is an output row: of a row of x, or for `TWO_ROWS` between rows of x and `other`.

    `number` is the weight of the row of `other`.  A table entry describes an output: byte offsets
    of two pixels in a row, and the weight of the second.
    `item`: type of x, `other` and y; `accumulator`: type of the weights, a float of at most
    `NUMBER_BYTES`.
    """
    assert accumulator in FLOATS, "weights are fractions"
    check_accumulator(accumulator, NUMBER_BYTES)
    kinds = {ONE_ROW: _interpolate(False), TWO_ROWS: _interpolate(True)}
    return pieces_kernel(item, accumulator, block, kinds)


@family()
def code_linear(item: str, result: str, block: int, rounding: str, divides: bool) -> KernelFunction:
    """`linear` of codes less their zero point, rounded to codes.

    Weights are whole numbers, and sums exact in float32.  `taps` of a piece are runs of outputs
    between the same two pixels: byte offsets of these, the first output and the end.  A weight for
    each output follows them.  `weights` of the pieces has, as float32: the denominators of rows and
    columns, their product times the zero point, a factor, the zero point of the results, and the
    bounds of results less that, and the product of the denominators.  `divides`: whether sums are
    divided by this product, which is otherwise a part of the factor, as a power of two.
    """
    kinds = {kind: _codes(kind == TWO_ROWS, rounding, divides) for kind in (ONE_ROW, TWO_ROWS)}
    return pieces_kernel(item, "float32", block, kinds, result=result)


def _codes(two: bool, rounding: str, divides: bool) -> Emit:
    def emit(piece: Piece) -> None:
        v = piece.sums
        builder = v.builder
        down = v.load_splat(piece.number)
        rows, columns, start, factor, result_zero, low, high, whole = (
            v.load_splat(v.at(piece.weights, v.word(4 * i))) for i in range(CODE_NUMBERS)
        )
        weights = v.at(piece.taps, builder.mul(piece.count, v.word(4 * CODE_RUN)))

        def between_rows(offset: Any) -> Lanes:
            x = piece.load(v.at(piece.x, offset))
            if not two:
                return x * rows
            return fma(piece.load(v.at(piece.other, offset)) - x, down, x * rows)

        def stored(total: Lanes, output: Any) -> None:
            units = (total / whole if divides else total) * factor
            if rounding == "up":
                units = halves_up(units)
            codes = _nearest(clamp(units, low, high)) + _nearest(result_zero)
            place = builder.mul(output, v.word(piece.results.nbytes))
            convert(codes, piece.results.dtype).store(piece.y, place)

        with v.loop(0, piece.count, 1) as run:
            entry = builder.mul(run.index, v.word(CODE_RUN))
            first, second, begin, end = (
                piece.tap(builder.add(entry, v.word(i))) for i in range(CODE_RUN)
            )
            left, right = between_rows(first), between_rows(second)
            step, base = right - left, left * columns - start
            with v.loop(begin, end, 1) as turn:
                at = v.at(weights, builder.mul(turn.index, v.word(4)))
                stored(fma(step, v.load_splat(at), base), turn.index)

    return emit


def _nearest(x: Lanes) -> Lanes:
    """The nearest int32, halves to even."""
    v = x.v
    name = f"llvm.lrint.v{v.lanes}i32.v{v.lanes}f32"
    return Lanes(v, "int32", v.call(name, vector_type(v, "int32"), x.value))


def _interpolate(two: bool) -> Emit:
    def emit(piece: Piece) -> None:
        v = piece.sums
        builder = v.builder
        down = v.load_splat(piece.number)
        with v.loop(0, piece.count, 1) as turn:
            entry = builder.mul(turn.index, v.word(COLUMN))
            first, second = (piece.tap(builder.add(entry, v.word(i))) for i in range(2))
            at = v.at(piece.taps, builder.mul(builder.add(entry, v.word(2)), v.word(4)))
            weight = v.load_item(at)
            across = v.splat(weight)
            # without 0 times the second, which may be infinite
            alone = builder.fcmp_ordered("==", weight, v.item(0.0))
            rows: list[Lanes] = []
            for row in (piece.x, piece.other)[: 1 + two]:
                x = piece.load(v.at(row, first))
                mixed = _between(x, piece.load(v.at(row, second)), across)
                rows.append(x.same(builder.select(alone, x.value, mixed.value)))
            result = _between(rows[0], rows[1], down) if two else rows[0]
            place = builder.mul(turn.index, v.word(piece.items.nbytes))
            piece.store(result, piece.y, place)

    return emit


def _between(x: Lanes, y: Lanes, weight: Lanes) -> Lanes:
    """x * (1 - weight) + y * weight"""
    return fma(y, weight, x * (1.0 - weight))
