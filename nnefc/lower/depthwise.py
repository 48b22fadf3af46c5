"""Convolutions with one input channel per output channel, reverse ones phase by phase."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnefc.computed import computed
from nnefc.ir import Op
from nnefc.kernels.depthwise import depthwise_heights, row_fits
from nnefc.kernels.template import Kernel
from nnefc.lower import pieces
from nnefc.lower.blocked import Plane, read_blocked, write_blocked
from nnefc.lower.context import Lowering
from nnefc.lower.direct import read_bias
from nnefc.lower.ending import read_ending, read_simple
from nnefc.lower.partition import ceil_div
from nnefc.lower.phases import Tap, axis_phases, axis_taps
from nnefc.ops.window_rules import Window, convolution_window
from nnefc.rates import MACS_PER_NS

Array = npt.NDArray[np.float32]


def lower_depthwise(lower: Lowering, op: Op) -> None:
    """A `fused_conv` or `fused_deconv` with as many groups as channels."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    reverse = op.name == "fused_deconv"
    window = convolution_window(x.shape, op.inputs[1].type.dims, op.attributes, reverse=reverse)
    end = read_simple(lower, op)
    data = lower.data(op.inputs[1])
    assert data is not None
    bias, block = read_bias(lower, op.inputs[2], y.channels), y.layout.block
    order = _order(window)
    weights = lower.derived(
        [data, bias], ("depthwise", block, order), lambda: _pack(data, bias, block, order)
    )
    step, apart = (1, window.stride[-1]) if reverse else (window.stride[-1], 1)
    row, residual = _row(window), end.residual is not None
    taps_met = window.volume / math.prod(window.stride) if reverse else window.volume
    planes = (each.plane for each in (x, y, end.residual or y))
    found, taps = computed(_pieces, window, row, *planes)
    pieces.launch(
        lower,
        Kernel("depthwise.convolution", (x.layout.block, step, row, residual, apart)),
        x,
        y,
        found,
        taps,
        math.prod(window.output) * (taps_met + 2) * x.layout.block / MACS_PER_NS,
        other=end.residual,
        weights=pieces.Weights(weights, weights.buffer.nbytes // y.blocks),
        clamp=end.clamp,
        ending=read_ending(lower, op, y),
        columns=lambda: _columns(window, row),
    )


def _phases(window: Window) -> list[list[tuple[Tap, ...]]]:
    """The taps of each phase, by its numbers along the dimensions: those that meet neighbours
    follow each other.
    """
    along = [
        [sorted(taps, key=lambda tap: tap[1]) for taps in axis_taps(window, axis)]
        for axis in range(window.rank)
    ]
    return [list(itertools.product(*chosen)) for chosen in itertools.product(*along)]


def _order(window: Window) -> tuple[int, ...]:
    """The numbers of all taps, phase by phase."""
    numbers = np.arange(window.volume).reshape(window.size)
    every = itertools.chain.from_iterable(_phases(window))
    return tuple(int(numbers[tuple(number for number, _ in tap)]) for tap in every)


def _row(window: Window) -> int:
    """Taps that meet neighbouring pixels, if every phase has as many: they are done together."""
    along = axis_taps(window, window.rank - 1)
    row = len(along[0])
    distances = [sorted(distance for _, distance in taps) for taps in along]
    whole = all(each == list(range(each[0], each[0] + row)) for each in distances if each)
    return row if row_fits(row) and whole and all(distances) else 1


def _pack(
    filter_: npt.NDArray[np.generic], bias: Array, block: int, order: tuple[int, ...]
) -> Array:
    """[channels, 1, *taps] and [channels] -> [blocks, 1 + taps, block], the bias first."""
    channels = len(bias)
    blocks = ceil_div(channels, block)
    packed = np.zeros((blocks * block, 1 + len(order)), np.float32)
    packed[:channels, 0] = bias
    packed[:channels, 1:] = filter_.reshape(channels, -1)[:, order]
    return np.ascontiguousarray(packed.reshape(blocks, block, -1).swapaxes(1, 2))


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Outputs along a dimension that are computed together: `apart` from the first."""

    output: int
    count: int
    apart: int
    input: int
    """What the first one meets with a tap at distance 0."""
    phase: int


def _stretches(window: Window, axis: int, heights: tuple[int, ...]) -> list[_Stretch]:
    """All outputs along a dimension, in the order of the first ones."""
    found: list[_Stretch] = []
    for each in axis_phases(window, axis):
        widths = pieces.split(each.outputs.count, heights)
        for width, start in zip(widths, itertools.accumulate((0, *widths)), strict=False):
            output, input_ = each.outputs.numbers[start], each.inputs.numbers[start]
            found.append(_Stretch(output, width, each.outputs.step, input_, each.number))
    return sorted(found, key=lambda stretch: stretch.output)


def _rows_and_columns(window: Window, row: int) -> Iterator[list[_Stretch]]:
    """Along each dimension: the last one is cut into pieces."""
    for axis in range(window.rank - 1):
        yield _stretches(window, axis, (1,))
    yield _stretches(window, window.rank - 1, tuple(depthwise_heights(row)))


def _columns(window: Window, row: int) -> list[int]:
    """Positions of outputs along the last dimension, in the order in which they are computed."""
    *_, last = _rows_and_columns(window, row)
    return [each.output + i * each.apart for each in last for i in range(each.count)]


def _pieces(
    window: Window, row: int, x: Plane, y: Plane, other: Plane
) -> tuple[pieces.Records, npt.NDArray[np.int32]]:
    """(pieces, row by row; the table of what they meet)."""
    along = list(_rows_and_columns(window, row))
    sources = [[each.input for each in stretches] for stretches in along]
    targets = [[each.output for each in stretches] for stretches in along]
    numbers = [[each.phase for each in stretches] for stretches in along]
    counts = [len(axis_taps(window, axis)) for axis in range(window.rank)]
    phase = np.ravel_multi_index(tuple(np.meshgrid(*numbers, indexing="ij")), counts).ravel()
    tables = _tables(window, row, x)
    lengths = np.array([len(table) for table in tables])
    made = pieces.records(
        np.tile([each.count for each in along[-1]], len(phase) // len(along[-1])),
        x.offsets(*sources).astype(np.int64),
        y.offsets(*targets).astype(np.int64),
        other.offsets(*targets).astype(np.int64),
        (np.cumsum(lengths) - lengths)[phase],
        lengths[phase],
    )
    return made, np.concatenate(tables).astype(np.int32)


def _tables(window: Window, row: int, x: Plane) -> list[list[int]]:
    """For each phase: where its weights begin, and offsets of all rows of `row` taps."""
    tables: list[list[int]] = []
    done = 1  # the bias
    for taps in _phases(window):
        offsets = [
            sum(distance * pitch for (_, distance), pitch in zip(tap, x.pitches, strict=True))
            for tap in taps[::row]
        ]
        tables.append([done * x.pixel_bytes, *offsets])
        done += len(taps)
    return tables
