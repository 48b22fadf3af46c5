"""Up-sampling of channel-blocked tensors by whole factors, nearest or linear."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.tile.plane_pieces import Emit, Piece, pieces_kernel
from nnefc.kernels.vector.item_types import FLOATS, NUMBER_BYTES, check_accumulator
from nnefc.kernels.vector.lanes import Lanes, fma
from nnefc.kernels.window.upsample_table import COLUMN, ONE_ROW, TWO_ROWS


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
