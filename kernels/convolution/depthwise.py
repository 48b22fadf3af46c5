"""Convolution by groups of few channels, one as a rule, on channel-blocked tensors.

Rows of taps are a loop over a table of byte offsets; within a row, every pixel of the input is
read once and meets the weights, which are in registers, for all outputs of the piece.

Outputs of a transposed convolution that are a stride apart meet neighbouring pixels, each of them
with the same taps: they are a piece.

A lane of the result is an output channel.  Of groups of several channels it meets one input after
the other: the lanes of a pixel are shuffled, so that no lane meets what another group has.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from nnefc.kernels.target.isa import host
from nnefc.kernels.template import Kernel, KernelFunction, family
from nnefc.kernels.tile.blocked import clamp
from nnefc.kernels.tile.plane_pieces import Emit, Piece, heights, pieces_kernel


def depthwise_heights(row: int) -> list[int]:
    """Numbers of outputs that a piece may have, where taps come in rows of `row`."""
    return heights(host(), row + 2)


def row_fits(row: int) -> bool:
    """Whether the weights of a row fit into registers, with some outputs."""
    return host().registers - row - 2 >= 4


Group = tuple[int, int, int]
"""Input and output channels of a group, and which part of an input block an output block meets."""


def _relatives(
    block: int, step: int, row: int, residual: bool, apart: int, group: Group
) -> list[Kernel]:
    """With the other stride: networks have both."""
    return [
        Kernel("convolution.depthwise.convolution", (block, each, row, False, apart, group))
        for each in ((1, 2) if apart == 1 else (step,))
    ]


@family("convolution.depthwise.convolution", _relatives)
def convolution(
    block: int, step: int, row: int, residual: bool, apart: int, group: Group
) -> KernelFunction:
    """The kind of a piece is its number of outputs, which are `step` pixels apart in x and `apart`
    in y and the residual.

    Taps come in rows of `row` neighbouring pixels; the table has the offset of the weights, then
    an entry per row.  Weights of a channel block: bias, then for each row and each input channel
    of a group one vector per tap.
    """
    orders = _orders(block, *group)
    return pieces_kernel(
        block, {h: _convolve(h, step, row, residual, apart, orders) for h in depthwise_heights(row)}
    )


def _orders(block: int, inputs: int, outputs: int, part: int) -> list[list[int]]:
    """For each input channel of a group, the lane of x that each lane of the result meets."""
    first = part * block * inputs // outputs
    return [
        [first + lane // outputs * inputs + channel for lane in range(block)]
        for channel in range(inputs)
    ]


def _convolve(
    height: int, step: int, row: int, residual: bool, apart: int, orders: list[list[int]]
) -> Emit:
    def emit(piece: Piece) -> None:
        v = piece.v
        bias = v.load(piece.weights)
        weights_at = v.at(piece.weights, piece.tap(0))
        with v.loop(1, piece.count, 1, [weights_at, *[bias] * height]) as turn:
            at, *sums = turn.values
            source = v.at(piece.x, piece.tap(turn.index))
            for order in orders:
                weights = [v.load(at, k * v.nbytes) for k in range(row)]
                at = v.at(at, row * v.nbytes)
                # every pixel is read once, for all outputs that meet it
                for column in range((height - 1) * step + row):
                    met = [
                        (i, column - i * step)
                        for i in range(height)
                        if 0 <= column - i * step < row
                    ]
                    if met:
                        x = v.shuffled(v.load(source, column * v.nbytes), order)
                        for i, k in met:
                            sums[i] = v.fma(x, weights[k], sums[i])
            turn.next = [at, *sums]
        low, high = (v.splat(v.load_item(piece.clamp, 4 * i)) for i in range(2))
        for i, total in enumerate(turn.values[1:]):
            at = i * apart * v.nbytes
            if residual:
                total = v.add(total, v.load(piece.other, at))
            v.store(clamp(v, total, low, high), piece.y, at)

    return emit
