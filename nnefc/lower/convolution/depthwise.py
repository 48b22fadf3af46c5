"""Grouped convolutions whose groups lie within channel blocks; deconvolutions phase by phase."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import Op
from nnefc.kernels.convolution import depthwise
from nnefc.kernels.convolution.depthwise import Group, depthwise_heights, row_fits
from nnefc.lower.blocked import plane_pieces
from nnefc.lower.blocked.tensors import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.direct import by_groups, read_bias
from nnefc.lower.convolution.epilogue import (
    read_form,
    read_register_epilogue,
    read_tile_epilogue,
)
from nnefc.lower.partition import ceil_div
from nnefc.ops.core.window_arithmetic import Window, convolution_groups
from nnefc.ops.tools.convolution import is_reversed, window_of
from nnefc.program.tables.depthwise import RowWeights, columns_of, depthwise_pieces, tap_orders
from nnefc.program.tables.phases import axis_taps, whole_axes
from nnefc.support.machine_model import MACS_PER_NS
from nnefc.symbolic.traced_array import traced_call

Array = npt.NDArray[Any]

MAX_WEIGHTS: Final = 40
"""Maximum weights of a row of taps of several channels, which the code unrolls per output."""


def lower_depthwise(lower: Lowering, op: Op) -> None:
    """A blocked convolution with groups of one or several channels of a block."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    reverse, window = is_reversed(op), window_of(op)
    groups = convolution_groups(x.shape, op.attributes)
    inputs, outputs = x.channels // groups, y.channels // groups
    row = row_of_taps(window, inputs)
    in_registers = read_register_epilogue(lower, op)
    epilogue = read_tile_epilogue(lower, op, y)
    weights = _read_weights(lower, op, y, groups, weight_order(window, row, inputs))
    step, apart = (1, window.stride[-1]) if reverse else (window.stride[-1], 1)
    planes = (each.plane for each in (x, y, in_registers.residual or y))
    heights = tuple(depthwise_heights(row))
    of_bias, of_weight = (
        y.layout.block * dtype.itemsize
        for dtype in (in_registers.accumulator, op.inputs[1].type.dtype)
    )
    rows = RowWeights(first=of_bias, phase=0, row=row * inputs * of_weight)
    whole = whole_axes(window)
    pieces, taps = traced_call(depthwise_pieces, window, row, heights, rows, *planes, whole)
    meets = window.volume * inputs / (math.prod(window.stride) if reverse else 1)
    # output blocks `parts` apart read the same lanes of their input blocks
    parts = outputs // inputs
    for part in range(min(parts, y.blocks)):
        kernel = depthwise.convolution(
            str(x.dtype),
            str(in_registers.accumulator),
            x.layout.block,
            stride=step,
            taps=row,
            form=read_form(op, in_registers),
            spacing=apart,
            group=Group(inputs, outputs, part),
        )
        plane_pieces.launch(
            lower,
            kernel,
            x,
            y,
            pieces,
            taps,
            math.prod(window.output) * (meets + 2) * x.layout.block / MACS_PER_NS,
            other=in_registers.residual,
            weights=weights,
            clamp=in_registers.clamp,
            epilogue=epilogue,
            columns=lambda: columns_of(window, heights),
            blocks=range(part, y.blocks, parts),
        )


def _read_weights(
    lower: Lowering, op: Op, y: Tensor, groups: int, order: tuple[int, ...]
) -> plane_pieces.Weights:
    data = lower.data(op.inputs[1])
    assert data is not None
    bias, block = read_bias(lower, op.inputs[2], y.channels), y.layout.block
    reverse = is_reversed(op)
    how = ("depthwise", block, groups, reverse, order)

    def make() -> Array:
        return _pack(by_groups(data, groups, reverse=reverse), bias, block, order)

    weights = lower.derived([data, bias], how, make)
    return plane_pieces.Weights(weights, weights.buffer.nbytes // y.blocks)


def weight_order(window: Window, row: int, inputs: int) -> tuple[int, ...]:
    """Indices into the weights [inputs, *taps], phase by phase and row by row of taps."""
    numbers = np.arange(inputs * window.volume).reshape(inputs, *window.size)
    return tuple(
        int(numbers[channel, *(number for number, _ in tap)])
        for taps in tap_orders(window)
        for first in range(0, len(taps), row)
        for channel in range(inputs)
        for tap in taps[first : first + row]
    )


def row_of_taps(window: Window, inputs: int) -> int:
    """Taps per row that are computed together: all taps, or 1."""
    row = taps_of_row(window)
    fits = row_fits(row) and (inputs == 1 or inputs * row <= MAX_WEIGHTS)
    return row if fits else 1


def taps_of_row(window: Window) -> int:
    """Taps along the last dimension if they read adjacent pixels; else 1."""
    along = axis_taps(window, window.rank - 1)
    row = len(along[0])
    distances = [sorted(distance for _, distance in taps) for taps in along]
    whole = all(each == list(range(each[0], each[0] + row)) for each in distances if each)
    return row if whole and all(distances) else 1


def _pack(filter_: Array, bias: Array, block: int, order: tuple[int, ...]) -> Array:
    """Pack [groups, outputs, inputs, *taps] and bias [channels] to [blocks, items of a block].

    A block has the bytes of its bias, then a vector per weight.
    """
    channels = len(bias)
    blocks = ceil_div(channels, block)

    def by_block(rows: Array) -> Array:
        """[channels, n] as [blocks, n * block]."""
        padded = np.zeros((blocks * block, rows.shape[1]), rows.dtype)
        padded[:channels] = rows
        vectors = padded.reshape(blocks, block, -1).swapaxes(1, 2)
        return vectors.reshape(blocks, -1)

    weights = by_block(filter_.reshape(channels, -1)[:, order])
    return np.concatenate([by_block(bias[:, None]).view(weights.dtype), weights], 1)
