"""Grouped convolutions whose groups lie within channel blocks; deconvolutions phase by phase."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import Op
from nnefc.kernels.convolution import depthwise
from nnefc.kernels.convolution.depthwise import Group, depthwise_heights, row_fits
from nnefc.lower.blocked import plane_pieces
from nnefc.lower.blocked.tensors import Plane, Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.direct import by_groups, read_bias
from nnefc.lower.convolution.epilogue import read_register_epilogue, read_tile_epilogue
from nnefc.lower.convolution.phases import Tap, axis_phases, axis_taps
from nnefc.lower.partition import ceil_div
from nnefc.ops.core.window_arithmetic import Window, convolution_groups
from nnefc.ops.tools.convolution import is_reversed, window_of
from nnefc.support.machine_model import MACS_PER_NS
from nnefc.symbolic.captured_values import traceable
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
    row = _row(window, inputs)
    in_registers = read_register_epilogue(lower, op)
    epilogue = read_tile_epilogue(lower, op, y)
    weights = _read_weights(lower, op, y, groups, _order(window, row, inputs))
    step, apart = (1, window.stride[-1]) if reverse else (window.stride[-1], 1)
    planes = (each.plane for each in (x, y, in_registers.residual or y))
    heights = tuple(depthwise_heights(row))
    pieces, taps = traced_call(_pieces, window, row, heights, inputs, *planes)
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
            residual=in_registers.residual is not None,
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
            columns=lambda: _columns(window, heights),
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


def _phases(window: Window) -> list[list[tuple[Tap, ...]]]:
    """The taps of each phase; phases are ordered by their numbers along the dimensions.

    Taps are sorted by distance, so that those of neighbouring inputs follow each other.
    """
    along = [
        [sorted(taps, key=lambda tap: tap[1]) for taps in axis_taps(window, axis)]
        for axis in range(window.rank)
    ]
    return [list(itertools.product(*chosen)) for chosen in itertools.product(*along)]


def _order(window: Window, row: int, inputs: int) -> tuple[int, ...]:
    """Indices into the weights [inputs, *taps], phase by phase and row by row of taps."""
    numbers = np.arange(inputs * window.volume).reshape(inputs, *window.size)
    return tuple(
        int(numbers[channel, *(number for number, _ in tap)])
        for taps in _phases(window)
        for first in range(0, len(taps), row)
        for channel in range(inputs)
        for tap in taps[first : first + row]
    )


def _row(window: Window, inputs: int) -> int:
    """Taps per row that read adjacent pixels and are computed together; else 1."""
    along = axis_taps(window, window.rank - 1)
    row = len(along[0])
    distances = [sorted(distance for _, distance in taps) for taps in along]
    whole = all(each == list(range(each[0], each[0] + row)) for each in distances if each)
    fits = row_fits(row) and (inputs == 1 or inputs * row <= MAX_WEIGHTS)
    return row if fits and whole and all(distances) else 1


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


@dataclass(frozen=True, slots=True)
class _Stretch:
    """`count` outputs along a dimension that are computed together, `apart` from each other."""

    output: int
    count: int
    apart: int
    input: int
    """The input that the first output reads with a tap at distance 0."""
    phase: int


def _stretches(window: Window, axis: int, heights: tuple[int, ...]) -> list[_Stretch]:
    """All outputs along a dimension, ordered by the first output of each stretch."""
    stretches: list[_Stretch] = []
    for each in axis_phases(window, axis):
        widths = plane_pieces.split_width(each.outputs.count, heights)
        for width, start in zip(widths, itertools.accumulate((0, *widths)), strict=False):
            output, input_ = each.outputs.numbers[start], each.inputs.numbers[start]
            stretches.append(_Stretch(output, width, each.outputs.step, input_, each.number))
    return sorted(stretches, key=lambda stretch: stretch.output)


def _rows_and_columns(window: Window, heights: tuple[int, ...]) -> Iterator[list[_Stretch]]:
    """The stretches of each dimension; those of the last one have one of `heights` outputs."""
    for axis in range(window.rank - 1):
        yield _stretches(window, axis, (1,))
    yield _stretches(window, window.rank - 1, heights)


def _columns(window: Window, heights: tuple[int, ...]) -> list[int]:
    """Positions of outputs along the last dimension, in order of computation."""
    *_, last = _rows_and_columns(window, heights)
    return [each.output + i * each.apart for each in last for i in range(each.count)]


@traceable
def _pieces(
    window: Window,
    row: int,
    heights: tuple[int, ...],
    inputs: int,
    x: Plane,
    y: Plane,
    other: Plane,
) -> tuple[plane_pieces.Records, npt.NDArray[np.int32]]:
    """(pieces, row by row; the table of taps).

    `heights`: of the instruction set, which may be another one than that of this machine.
    """
    along = list(_rows_and_columns(window, heights))
    sources = [[each.input for each in stretches] for stretches in along]
    targets = [[each.output for each in stretches] for stretches in along]
    numbers = [[each.phase for each in stretches] for stretches in along]
    counts = [len(axis_taps(window, axis)) for axis in range(window.rank)]
    phase = np.ravel_multi_index(tuple(np.meshgrid(*numbers, indexing="ij")), counts).ravel()
    tables = _tables(window, row, inputs, x, y)
    lengths = np.array([len(table) for table in tables])
    pieces = plane_pieces.records(
        np.tile([each.count for each in along[-1]], len(phase) // len(along[-1])),
        x.offsets(*sources).astype(np.int64),
        y.offsets(*targets).astype(np.int64),
        other.offsets(*targets).astype(np.int64),
        (np.cumsum(lengths) - lengths)[phase],
        lengths[phase],
    )
    return pieces, np.concatenate(tables).astype(np.int32)


def _tables(window: Window, row: int, inputs: int, x: Plane, y: Plane) -> list[list[int]]:
    """For each phase: byte offset of its weights, then offsets of its rows of taps."""
    tables: list[list[int]] = []
    at = y.pixel_bytes  # after the bias
    for taps in _phases(window):
        offsets = [
            sum(distance * pitch for (_, distance), pitch in zip(tap, x.pitches, strict=True))
            for tap in taps[::row]
        ]
        tables.append([at, *offsets])
        at += len(taps) * inputs * x.pixel_bytes
    return tables
