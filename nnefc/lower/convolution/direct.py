"""Direct convolution of blocked tensors by the register tile; deconvolutions phase by phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import Op, Value
from nnefc.kernels.convolution import direct, direct_halves
from nnefc.kernels.convolution.direct import DIRECT
from nnefc.kernels.family import Kernel
from nnefc.kernels.vector.dot_halves import WORD_HALVES
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.blocked.tensors import read_blocked, write_blocked
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.direct_convolution import DirectConvolution
from nnefc.lower.convolution.direct_launches import (
    ChannelSlice,
    channel_slices,
    choose_units,
    input_fields,
    output_blocks,
    output_units,
)
from nnefc.lower.convolution.direct_matrices import lower_direct_matrices
from nnefc.lower.convolution.direct_tables import pixel_table
from nnefc.lower.convolution.epilogue import (
    read_form,
    read_register_epilogue,
    read_tile_epilogue,
)
from nnefc.lower.convolution.panels import Panels
from nnefc.lower.partition import ceil_div
from nnefc.lower.product.half_weights import half_item
from nnefc.ops.core.border_taps import leaves_out_border
from nnefc.ops.core.window_arithmetic import convolution_groups
from nnefc.ops.tools.convolution import is_reversed, window_of
from nnefc.program.program import Ref
from nnefc.program.tables.direct import pixel_order, tap_runs
from nnefc.program.tables.phases import Phase, phases, pixels_of, tap_grid
from nnefc.symbolic.integers import hint
from nnefc.symbolic.traced_array import length, traced_call

Array = npt.NDArray[Any]

PANEL_BYTES: Final = 20 << 10
"""Weights of a block of the depth, which stay in the first cache for all pixels of a unit."""


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
    form = read_form(op, in_registers)
    conv = DirectConvolution(
        *(x, y, window, groups, filter_, bias, in_registers, form, epilogue, fill)
    )
    if conv.uses_matrices:
        lower_direct_matrices(lower, conv)
        return
    for phase in phases(window):
        _launch_phase(lower, conv, phase)


def _launch_phase(lower: Lowering, conv: DirectConvolution, phase: Phase) -> None:
    """Launch the outputs of a phase, one launch per channel slice."""
    assert conv.y.layout.block == lanes_of(str(conv.accumulator))
    halves = conv.multiplies_halves
    word = WORD_HALVES if halves else 1
    taps, by_taps = tap_grid(phase), leaves_out_border(conv.window) and not halves
    tap_numbers = tuple(tuple(number for number, _ in tap) for tap in taps)
    step = conv.x.layout.entry
    depth = ceil_div(conv.filter.shape[2], step) * len(taps) if taps else 1
    scaling = (conv.exponent,) if conv.exponent else ()
    macs = hint(conv.x.batch * pixels_of(phase)) * depth * step
    # tiles of halves have whole vectors only
    for channels in channel_slices(conv, 0 if halves else macs):
        panels = channels.panels
        groups = slice(channels.groups.start, None, channels.groups.step)
        columns = slice(channels.first, channels.first + panels.width * panels.count)
        nbytes = step * panels.width * conv.x.itemsize
        if halves:
            depth_block = depth
        elif by_taps:
            depth_block = _divisor(depth // len(taps), _depth_block(depth, nbytes))
        else:
            depth_block = _depth_block(depth, nbytes)
        packing = (tap_numbers, step, panels.width, depth_block, by_taps, word, 1, *scaling)
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
    channels: ChannelSlice,
    packed: Ref,
    bias: Array,
    depth: _Depth,
) -> None:
    """Launch a channel slice of the outputs of a phase."""
    x, panels, pixels = conv.x, channels.panels, pixels_of(phase)
    inputs = conv.filter.shape[2]
    lane = channels.groups.start * inputs % x.layout.block
    runs, taps = traced_call(tap_runs, phase, x.plane, lane, inputs, depth.block, depth.by_taps)
    units = choose_units(conv, pixels, channels, packed.buffer.nbytes, lower.threads)
    words = DIRECT.pack(
        **input_fields(lower, conv, phase, channels.groups),
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
    kernel = _kernel(conv, panels)
    if conv.tile_epilogue is None:
        lower.launch(kernel, words, ceil_div(units.count, units.per_tile))
        return
    assert panels.half not in ("first", "last"), "blocks that groups share are never complete"
    first, group_blocks = output_blocks(conv, channels)
    starts = [first + number * group_blocks for number in range(len(channels.groups))]
    block = units.pixel_block
    ranges = [range(n, min(n + block, pixels)) for n in range(0, pixels, block)]
    outputs = output_units(x.batch, starts, ranges, panels, units.panel_block)
    tiles = [outputs[i : i + units.per_tile] for i in range(0, units.count, units.per_tile)]
    positions = [axis.outputs.numbers for axis in phase]
    order = pixel_order(phase, x.plane)
    conv.tile_epilogue.launch(lower, kernel, words, tiles, positions, order)


def _kernel(conv: DirectConvolution, panels: Panels) -> Kernel:
    """The kernel of a launch."""
    x = conv.x
    if conv.multiplies_halves:
        assert not panels.half, "tiles of halves have whole vectors"
        item = half_item(x.dtype)
        return direct_halves.convolution(item, conv.form, panels.vectors, x.layout.entry)
    return direct.convolution(
        str(x.dtype), str(conv.accumulator), panels.vectors, x.layout.entry, panels.half
    )


def _output_fields(
    lower: Lowering, conv: DirectConvolution, phase: Phase, channels: ChannelSlice
) -> dict[str, Any]:
    """Parameters for the register epilogue, for writing y and for reading the residual."""
    y, epilogue = conv.y, conv.register_epilogue
    residual = epilogue.residual or y
    outputs = tuple(axis.outputs for axis in phase)
    first, group_blocks = output_blocks(conv, channels)
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
        "factor": int(np.float32(2.0**-conv.exponent).view(np.int32)),
        "last_channels": y.channels % y.layout.block if conv.fill and is_last else 0,
    }
