"""Depthwise convolution, and convolution with small groups, on channel-blocked tensors.

The kernel loops over rows of taps by a table of byte offsets.  Within a row, every input pixel is
loaded once and multiplied with weights in registers, for all outputs of a piece.

In a transposed convolution, outputs that are a stride apart read neighbouring pixels with the same
taps, and form a piece.

A lane of the result is an output channel.  For groups of several channels, the lanes of a pixel are
shuffled once per input channel of the group, so that each lane reads its own group.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any, Final, NamedTuple

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.piece_record import heights
from nnefc.kernels.tile.plane_pieces import Emit, Piece, pieces_kernel
from nnefc.kernels.tile.real_form import PLAIN, RealForm, finished
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.dot_words import PAIR_ITEM
from nnefc.kernels.vector.item_types import HALVES, NUMBER_BYTES, check_accumulator
from nnefc.kernels.vector.lanes import Lanes, clamp, fma, shuffle
from nnefc.kernels.vector.vector_builder import Vector


def depthwise_heights(row: int) -> list[int]:
    """Numbers of outputs that a piece may have, for rows of `row` taps."""
    return heights(host().registers, row + 2)


def row_fits(row: int) -> bool:
    """Whether the weights of a row fit into registers beside some outputs."""
    return host().registers - row - 2 >= 4


class Group(NamedTuple):
    """Channels of a group, and the part of its input block that an output block reads."""

    inputs: int = 1
    outputs: int = 1
    part: int = 0


SINGLE: Final = Group()
"""A group of one input and one output channel."""


def _relatives(
    item: str,
    accumulator: str,
    lanes: int,
    stride: int,
    taps: int,
    form: RealForm,
    spacing: int,
    group: Group,
) -> list[Kernel]:
    """The kernels for strides 1 and 2, because most networks use both."""
    return [
        convolution(
            *(item, accumulator, lanes, each, taps),
            form=form._replace(residual=""),
            spacing=spacing,
            group=group,
        )
        for each in ((1, 2) if spacing == 1 else (stride,))
    ]


@family(_relatives)
def convolution(
    item: str,
    accumulator: str,
    lanes: int,
    stride: int,
    taps: int,
    form: RealForm = PLAIN,
    spacing: int = 1,
    group: Group = SINGLE,
) -> KernelFunction:
    """Pieces whose kind is their number of outputs.

    `item`: type of x, and of the weights unless it has 16 bits; `accumulator`: type of the sums,
    the bias, the bounds and other weights, of at most `NUMBER_BYTES`; `form`: what is stored.

    Neighbouring outputs are `stride` pixels apart in x, and `spacing` pixels in y and the residual.
    Taps come in rows of `taps` neighbouring pixels; the table has the offset of the weights, then
    an entry per row.  Weights of a channel block: bias, then for each row and each input channel
    of a group one vector per tap.
    """
    check_accumulator(accumulator, NUMBER_BYTES)
    orders = _orders(lanes, *group)
    emits = {
        height: _convolve(height, stride, taps, form, spacing, orders)
        for height in depthwise_heights(taps)
    }
    return pieces_kernel(item, accumulator, lanes, emits)


def _orders(block: int, inputs: int, outputs: int, part: int) -> list[list[int]]:
    """For each input channel of a group, the lane of x that each lane of the result reads."""
    first = part * block * inputs // outputs
    return [
        [first + lane // outputs * inputs + channel for lane in range(block)]
        for channel in range(inputs)
    ]


def _convolve(
    height: int, step: int, row: int, form: RealForm, apart: int, orders: list[list[int]]
) -> Emit:
    def emit(piece: Piece) -> None:
        v, totals = piece.items, piece.sums
        bias = totals.load(piece.weights)
        first = v.at(piece.weights, piece.tap(0))
        sums = _add_rows(piece, [bias] * height, first, step, row, orders)
        low, high = (totals.load_splat(piece.clamp, totals.itemsize * i) for i in range(2))
        results = totals.of(form.result or totals.dtype)
        if form.expression is not None:
            _store_results(piece, form, apart, sums)
            return
        if form.residual:
            typed = totals.of(form.residual)
            others = [typed.load(piece.other, i * apart * typed.nbytes) for i in range(height)]
            sums = [x + convert(y, totals.dtype) for x, y in zip(sums, others, strict=True)]
        for i, total in enumerate(sums):
            at = i * apart * results.nbytes
            finished(form, clamp(total, low, high)).store(piece.y, at)

    return emit


def _store_results(piece: Piece, form: RealForm, apart: int, sums: list[Lanes]) -> None:
    """Apply the expression to the sums and store them `apart` pixels apart, in a loop."""
    v = piece.sums
    results, others = (v.of(dtype or v.dtype) for dtype in (form.result, form.residual))
    local = v.local(ir.ArrayType(v.type, len(sums)))
    for i, x in enumerate(sums):
        x.store(local, v.nbytes * i)
    with v.loop(0, v.word(len(sums)), 1) as turn:

        def place(typed: Vector) -> Any:
            return v.builder.mul(turn.index, v.word(apart * typed.nbytes))

        x = v.load(local, v.builder.mul(turn.index, v.word(v.nbytes)))
        residual = others.load(piece.other, place(others)) if form.residual else None
        finished(form, x, residual).store(piece.y, place(results))


@family()
def sums_of_codes(
    lanes: int, stride: int, taps: int, spacing: int = 1, group: Group = SINGLE
) -> KernelFunction:
    """Pieces of int32 sums of products of int16, which wrap around.

    Parameters as of `convolution`.  Weights of a phase begin with its starts, the sums of no
    products: int32, a vector per channel block.  There is no bias.
    """
    orders = _orders(lanes, *group)
    emits = {
        height: _sum(height, stride, taps, spacing, orders) for height in depthwise_heights(taps)
    }
    return pieces_kernel(PAIR_ITEM, "int32", lanes, emits)


def _sum(height: int, step: int, row: int, apart: int, orders: list[list[int]]) -> Emit:
    def emit(piece: Piece) -> None:
        v, totals = piece.items, piece.sums
        at = v.at(piece.weights, piece.tap(0))
        starts = [totals.load(at)] * height
        for i, total in enumerate(
            _add_rows(piece, starts, v.at(at, totals.nbytes), step, row, orders)
        ):
            total.store(piece.y, i * apart * totals.nbytes)

    return emit


def _add_rows(
    piece: Piece, starts: list[Lanes], first: Any, step: int, row: int, orders: list[list[int]]
) -> list[Lanes]:
    """Sums with the products of all rows of taps; `first`: pointer to their weights."""
    v, totals, height = piece.items, piece.sums, len(starts)
    filter_ = totals if v.dtype in HALVES else v
    with v.loop(1, piece.count, 1, [first, *starts]) as turn:
        at, *sums = turn.values
        source = v.at(piece.x, piece.tap(turn.index))
        for order in orders:
            weights = [
                convert(filter_.load(at, k * filter_.nbytes), totals.dtype) for k in range(row)
            ]
            at = v.at(at, row * filter_.nbytes)
            # every pixel is loaded once, for all outputs that read it
            for column in range((height - 1) * step + row):
                met = [
                    (i, column - i * step) for i in range(height) if 0 <= column - i * step < row
                ]
                if met:
                    x = shuffle(piece.load(source, column * v.nbytes), totals, order)
                    for i, k in met:
                        sums[i] = fma(x, weights[k], sums[i])
        turn.next = [at, *sums]
    return turn.values[1:]
