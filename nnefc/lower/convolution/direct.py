"""Direct convolution of blocked tensors by the register tile; deconvolutions phase by phase."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Op, Value
from nnefc.kernels.convolution import direct
from nnefc.kernels.convolution.direct import DIRECT
from nnefc.kernels.tile.blocked_tile import tile_pixels
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.blocked.tensors import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.direct_tables import pixel_table
from nnefc.lower.convolution.epilogue import (
    OutputUnit,
    RegisterEpilogue,
    TileEpilogue,
    read_register_epilogue,
    read_tile_epilogue,
)
from nnefc.lower.convolution.panels import Panels, group_panels, panels_of
from nnefc.lower.partition import (
    band_count,
    block_sizes,
    ceil_div,
    makespan,
    partition_threads,
    units_per_tile,
)
from nnefc.ops.core.border_taps import leaves_out_border
from nnefc.ops.core.window_arithmetic import Window, convolution_groups
from nnefc.ops.tools.convolution import is_reversed, window_of
from nnefc.program.program import Ref
from nnefc.program.tables.direct import pixel_order, tap_runs
from nnefc.program.tables.phases import Phase, phases, pixels_of, tap_count, tap_grid
from nnefc.program.tables.planes import zero_offsets
from nnefc.support.machine_model import MACS_PER_NS
from nnefc.symbolic.integers import hint
from nnefc.symbolic.traced_array import length, traced_call

Array = npt.NDArray[Any]

PANEL_BYTES: Final = 20 << 10
"""Weights of a block of the depth, which stay in the first cache for all pixels of a unit."""
INPUT_BYTES: Final = 256 << 10
"""Up to this size an input stays in the second cache, and a unit may cover all of its pixels."""
DIRECT_UNIT_PIXELS: Final = 200
"""Pixels of a unit of a direct convolution whose input is larger."""
MIN_UNIT_TILES: Final = 4
"""Minimum tiles of pixels of a unit, to amortise the switch to other weights."""
REREAD_NS: Final = 0.005
"""Nanoseconds to read a byte of weights again, beyond the time hidden behind arithmetic."""


@dataclass(frozen=True, slots=True)
class DirectConvolution:
    """A fused convolution, with everything that is the same for all of its launches."""

    x: Tensor
    y: Tensor
    window: Window
    groups: int
    filter: Array
    """[groups, outputs, inputs, *taps]; outputs and inputs per group."""
    bias: Array
    """[groups * outputs]"""
    register_epilogue: RegisterEpilogue
    tile_epilogue: TileEpilogue | None
    fill: bool
    """Whether padding of the last channel block has to be zero in the operands of the epilogue."""

    @property
    def accumulator(self) -> DType:
        return self.register_epilogue.accumulator


def read_bias(lower: Lowering, value: Value, channels: int) -> Array:
    """The known bias of a convolution, as [channels]."""
    data = lower.data(value)
    assert data is not None
    return np.broadcast_to(data.reshape(-1), channels)


def by_groups(filter_: Array, groups: int, *, reverse: bool) -> Array:
    """The filter as [groups, outputs, inputs, *taps], per group.

    conv has [groups * outputs, inputs, *taps], deconv [groups * inputs, outputs, *taps].
    """
    grouped = filter_.reshape(groups, -1, *filter_.shape[1:])
    return grouped.swapaxes(1, 2) if reverse else grouped


def lower_direct(lower: Lowering, op: Op) -> None:
    """A blocked convolution with channels summed by the register tile."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    window = window_of(op)
    groups = convolution_groups(x.shape, op.attributes)
    data = lower.stored_data(op.inputs[1])
    assert data is not None
    filter_ = by_groups(data, groups, reverse=is_reversed(op))
    bias = read_bias(lower, op.inputs[2], groups * filter_.shape[1])
    in_registers = read_register_epilogue(lower, op)
    epilogue = read_tile_epilogue(lower, op, y)
    fill = lower.needs_zero_padding(op.output)
    conv = DirectConvolution(x, y, window, groups, filter_, bias, in_registers, epilogue, fill)
    for phase in phases(window):
        _launch_phase(lower, conv, phase)


@dataclass(frozen=True, slots=True)
class _ChannelSlice:
    """Output channels of a launch: panels at the same position of several groups."""

    groups: range
    panels: Panels
    first: int
    """First of these channels within its group."""


def _channel_slices(conv: DirectConvolution, macs: float) -> Iterator[_ChannelSlice]:
    """All output channels; `macs`: multiply-adds per channel."""
    _, outputs, inputs = conv.filter.shape[:3]
    lanes = conv.y.layout.block
    whole = conv.groups == 1 or inputs % lanes == outputs % lanes == 0
    for groups in [range(conv.groups)] if whole else [range(n, conv.groups, 2) for n in range(2)]:
        first = 0
        lane = groups.start * outputs % lanes
        if conv.groups == 1:
            parts = panels_of(conv.accumulator, outputs, macs)
        else:
            parts = group_panels(conv.accumulator, lane, outputs)
        for panels in parts:
            yield _ChannelSlice(groups, panels, first)
            first += panels.width * panels.count


def _launch_phase(lower: Lowering, conv: DirectConvolution, phase: Phase) -> None:
    """Launch the outputs of a phase, one launch per channel slice."""
    assert conv.y.layout.block == lanes_of(str(conv.accumulator))
    taps, by_taps = tap_grid(phase), leaves_out_border(conv.window)
    tap_numbers = tuple(tuple(number for number, _ in tap) for tap in taps)
    step = conv.x.layout.entry
    depth = ceil_div(conv.filter.shape[2], step) * len(taps) if taps else 1
    macs = hint(conv.x.batch * pixels_of(phase)) * depth * step
    for channels in _channel_slices(conv, macs):
        panels = channels.panels
        groups = slice(channels.groups.start, None, channels.groups.step)
        columns = slice(channels.first, channels.first + panels.width * panels.count)
        nbytes = step * panels.width * conv.x.itemsize
        if by_taps:
            depth_block = _divisor(depth // len(taps), _depth_block(depth, nbytes))
        else:
            depth_block = _depth_block(depth, nbytes)
        packing = (tap_numbers, step, panels.width, depth_block, by_taps, 1, 1)
        packed = lower.packed(conv.filter[groups, columns], "direct", packing, conv.x.dtype)
        used = conv.bias.reshape(conv.groups, -1)[groups, columns]
        bias = np.zeros((len(channels.groups), panels.width * panels.count), used.dtype)
        bias[:, : used.shape[1]] = used
        shape = _Depth(depth, depth_block, by_taps)
        _launch_channels(lower, conv, phase, channels, packed, bias, shape)


@dataclass(frozen=True, slots=True)
class _Depth:
    """The reduction of a launch."""

    entries: int
    block: int
    """Entries of a piece, whose weights stay in the first cache."""
    by_taps: bool
    """Whether the entries of a tap are consecutive, so that pixels without it skip whole pieces."""


def _divisor(number: int, most: int) -> int:
    """The largest divisor of a number up to `most`, if it is at least half of that; or `most`."""
    return next((n for n in range(most, most // 2, -1) if number % n == 0), most)


def _depth_block(depth: int, entry_bytes: int) -> int:
    """Entries of the reduction per block, such that their weights stay in the first cache."""
    blocks = max(round(depth * entry_bytes / PANEL_BYTES), 1)
    return ceil_div(depth, blocks)


def _launch_channels(
    lower: Lowering,
    conv: DirectConvolution,
    phase: Phase,
    channels: _ChannelSlice,
    packed: Ref,
    bias: Array,
    depth: _Depth,
) -> None:
    """Launch a channel slice of the outputs of a phase."""
    x, panels, pixels = conv.x, channels.panels, pixels_of(phase)
    inputs = conv.filter.shape[2]
    lane = channels.groups.start * inputs % x.layout.block
    runs, taps = traced_call(tap_runs, phase, x.plane, lane, inputs, depth.block, depth.by_taps)
    units = _choose_units(conv, pixels, channels, packed.buffer.nbytes, lower.threads)
    words = DIRECT.pack(
        **_input_fields(lower, conv, phase, channels.groups),
        filter=packed,
        bias=lower.table(bias),
        taps=lower.table(taps),
        runs=lower.table(runs),
        run_count=length(runs),
        **_output_fields(lower, conv, phase, channels),
        groups=len(channels.groups),
        group_tiles=panels.count,
        pixels=pixels,
        depth=depth.entries,
        depth_block=depth.block,
        pixel_block=units.pixel_block,
        part_tiles=units.panel_block,
        units=units.count,
        unit_block=units.per_tile,
    )
    kernel = direct.convolution(
        str(x.dtype), str(conv.accumulator), panels.vectors, x.layout.entry, panels.half
    )
    if conv.tile_epilogue is None:
        lower.launch(kernel, words, ceil_div(units.count, units.per_tile))
        return
    outputs = _output_units(conv, channels, pixels, units)
    tiles = [outputs[i : i + units.per_tile] for i in range(0, units.count, units.per_tile)]
    positions = [axis.outputs.numbers for axis in phase]
    order = pixel_order(phase, x.plane)
    conv.tile_epilogue.launch(lower, kernel, words, tiles, positions, order)


def _input_fields(
    lower: Lowering, conv: DirectConvolution, phase: Phase, groups: range
) -> dict[str, Any]:
    """Parameters for reading x; outputs without taps read zeros, since x may hold infinities."""
    x, inputs = conv.x, conv.filter.shape[2]
    if tap_count(phase):
        skipped = groups.start * inputs // x.layout.block * x.plane_bytes
        return {
            "x": replace(x.at, offset=x.at.offset + skipped),
            "x_pixels": pixel_table(lower, x, tuple(axis.inputs for axis in phase), phase, x),
            "x_batch": x.batch_bytes,
            "x_group": groups.step * inputs // x.layout.block * x.plane_bytes,
        }
    (zeros,) = traced_call(zero_offsets, pixels_of(phase))
    return {
        "x": lower.table(np.zeros(x.layout.entry, x.dtype.numpy)),
        "x_pixels": lower.table(zeros),
        "x_batch": 0,
        "x_group": 0,
    }


def _output_fields(
    lower: Lowering, conv: DirectConvolution, phase: Phase, channels: _ChannelSlice
) -> dict[str, Any]:
    """Parameters for the register epilogue, for writing y and for reading the residual."""
    y, epilogue = conv.y, conv.register_epilogue
    residual = epilogue.residual or y
    outputs = tuple(axis.outputs for axis in phase)
    first, group_blocks = _output_blocks(conv, channels)
    blocks = channels.panels.vectors * channels.panels.count
    is_last = first + (len(channels.groups) - 1) * group_blocks + blocks == y.blocks
    return {
        "y": Ref(y.at.buffer, y.at.offset + first * y.plane_bytes, writes=True),
        "residual": Ref(residual.at.buffer, residual.at.offset + first * residual.plane_bytes),
        "y_pixels": pixel_table(lower, y, outputs, phase, conv.x),
        "residual_pixels": pixel_table(lower, residual, outputs, phase, conv.x),
        "y_batch": y.batch_bytes,
        "y_group": group_blocks * y.plane_bytes,
        "y_plane": y.plane_bytes,
        "residual_batch": residual.batch_bytes,
        "residual_group": group_blocks * residual.plane_bytes,
        "residual_plane": residual.plane_bytes,
        "mode": epilogue.mode,
        "clamp": epilogue.clamp,
        "last_channels": y.channels % y.layout.block if conv.fill and is_last else 0,
    }


def _output_blocks(conv: DirectConvolution, channels: _ChannelSlice) -> tuple[int, int]:
    """(first channel block of y of a slice, blocks from one of its groups to the next)."""
    outputs, lanes = conv.filter.shape[1], conv.y.layout.block
    first = (channels.groups.start * outputs + channels.first) // lanes
    return first, channels.groups.step * outputs // lanes


@dataclass(frozen=True, slots=True)
class _Units:
    """How a launch is divided into units, and these into tiles."""

    pixel_block: int
    panel_block: int
    count: int
    per_tile: int


def _choose_units(
    conv: DirectConvolution, pixels: int, channels: _ChannelSlice, filter_bytes: int, threads: int
) -> _Units:
    pixel_block, panel_block = _unit_size(conv, pixels, channels, filter_bytes, threads)
    planes, panels = conv.x.batch * len(channels.groups), channels.panels
    count = planes * ceil_div(pixels, pixel_block) * ceil_div(panels.count, panel_block)
    weights = filter_bytes // conv.x.itemsize
    macs = conv.x.batch * pixels * weights * panels.mac_fraction
    unit_block = units_per_tile(count, macs / count / MACS_PER_NS, threads)
    return _Units(pixel_block, panel_block, count, unit_block)


def _unit_size(
    conv: DirectConvolution, pixels: int, channels: _ChannelSlice, filter_bytes: int, threads: int
) -> tuple[int, int]:
    """(pixels, panels) of a unit: its operands stay in a cache, and every thread has units.

    A unit of few channels reads all of the input, which is near; a unit of few pixels reads all of
    the weights.
    """
    panels, groups = channels.panels, len(channels.groups)
    height, count, pixels = tile_pixels(panels.vectors), panels.count, hint(pixels)
    planes = hint(conv.x.batch) * groups
    weights = filter_bytes // conv.x.itemsize
    plane_ns = pixels * weights * panels.mac_fraction / groups / MACS_PER_NS
    input_bytes = hint(conv.x.plane_bytes) * conv.x.blocks // conv.groups
    fewest = band_count(pixels, threads)
    if input_bytes > INPUT_BYTES:
        fewest = max(ceil_div(pixels, DIRECT_UNIT_PIXELS), fewest)
    rows = ceil_div(ceil_div(pixels, fewest), height)
    blocks = [height * n for n in block_sizes(rows) if n >= min(rows, MIN_UNIT_TILES)]

    def cost(size: tuple[int, int]) -> float:
        pixel_block, panel_block = size
        passes = ceil_div(pixels, pixel_block)
        unit = plane_ns * (pixel_block / pixels) * (panel_block / count)
        reread = filter_bytes * passes * REREAD_NS / partition_threads(threads)
        return reread + makespan(planes * passes * ceil_div(count, panel_block), unit, threads)

    return min(itertools.product(blocks, block_sizes(count)), key=cost)


def _output_units(
    conv: DirectConvolution, channels: _ChannelSlice, pixels: int, units: _Units
) -> list[OutputUnit]:
    """The outputs of all units of a launch, in the order of the kernel."""
    panels, panel_block = channels.panels, units.panel_block
    assert panels.half not in ("first", "last"), "blocks that groups share are never complete"
    first, group_blocks = _output_blocks(conv, channels)
    return [
        OutputUnit(
            batch,
            range(
                start + panel * panels.vectors,
                start + min(panel + panel_block, panels.count) * panels.vectors,
            ),
            range(pixel, min(pixel + units.pixel_block, pixels)),
        )
        for batch in range(conv.x.batch)
        for start in [first + number * group_blocks for number in range(len(channels.groups))]
        for pixel in range(0, pixels, units.pixel_block)
        for panel in range(0, panels.count, panel_block)
    ]
