"""Direct convolution of blocked tensors by the register tile; deconvolutions phase by phase."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Op, Value
from nnefc.kernels.convolution import direct
from nnefc.kernels.convolution.direct import DIRECT
from nnefc.kernels.tile.blocked_tile import tile_pixels
from nnefc.kernels.vector.builder import lanes_of
from nnefc.lower.blocked.tensors import Plane, Tensor, as_offsets, read_blocked, write_blocked
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.epilogue import (
    OutputUnit,
    RegisterEpilogue,
    TileEpilogue,
    read_register_epilogue,
    read_tile_epilogue,
)
from nnefc.lower.convolution.panels import Panels, group_panels, panels_of
from nnefc.lower.convolution.phases import (
    Phase,
    Progression,
    phases,
    pixels_of,
    tap_count,
    tap_grid,
)
from nnefc.lower.partition import (
    band_count,
    block_sizes,
    ceil_div,
    makespan,
    partition_threads,
    per_tile,
)
from nnefc.ops.core.window_arithmetic import Window, convolution_groups, convolution_window
from nnefc.program.program import Ref
from nnefc.support.machine_model import MACS_PER_NS
from nnefc.symbolic.integers import hint
from nnefc.symbolic.traced_array import length, traced_call

Array = npt.NDArray[np.float32]

PANEL_BYTES = 20 << 10
"""Weights that all pixels of a unit meet before the next ones: they stay in the first cache."""
INPUT_BYTES = 256 << 10
"""Of an input that is smaller a unit takes all pixels: it stays in the second cache."""
PIXELS = 200
"""Pixels of a unit otherwise."""
LEAST_ROW = 4
"""Pixels of a row: tiles of fewer do not fill the registers."""
LEAST_SKIPPED = 0.02
"""Of all taps: leaving out so few does not pay for tiles that end with rows."""
LEAST_STRIP = 4
"""Tiles of pixels of a unit: it takes some to start with the next weights."""
MOST_TAPS = 8
"""Times that tables of taps may be longer than one for all rows."""
WALK_NS = 0.005
"""To read a byte of weights once more, beyond what hides behind arithmetic."""


@dataclass(frozen=True, slots=True)
class DirectConvolution:
    """A fused convolution with everything that does not change from launch to launch."""

    x: Tensor
    y: Tensor
    window: Window
    groups: int
    filter: Array
    """[groups, outputs, inputs, *taps] of a group."""
    bias: Array
    """[groups * outputs]"""
    register_epilogue: RegisterEpilogue
    tile_epilogue: TileEpilogue | None
    fill: bool
    """Whether padding of the last channel block has to be zero in the operands of the epilogue."""


def read_bias(lower: Lowering, value: Value, channels: int) -> Array:
    """The bias [channels] of a convolution; it is known."""
    data = lower.data(value)
    assert data is not None
    return np.broadcast_to(np.asarray(data, np.float32).reshape(-1), channels)


def by_groups(filter_: Array, groups: int, *, reverse: bool) -> Array:
    """[groups, outputs, inputs, *taps] of a group.

    conv has [groups * outputs, inputs, *taps], deconv [groups * inputs, outputs, *taps].
    """
    found = filter_.reshape(groups, -1, *filter_.shape[1:])
    return found.swapaxes(1, 2) if reverse else found


def lower_direct(lower: Lowering, op: Op) -> None:
    reverse = op.name == "fused_deconv"
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    kernel = op.inputs[1].type.dims
    window = convolution_window(x.shape, kernel, op.attributes, reverse=reverse)
    groups = convolution_groups(x.shape, op.attributes)
    data = lower.stored_data(op.inputs[1])
    assert data is not None
    filter_ = by_groups(data, groups, reverse=reverse)
    bias = read_bias(lower, op.inputs[2], groups * filter_.shape[1])
    in_registers = read_register_epilogue(lower, op)
    epilogue = read_tile_epilogue(lower, op, y)
    fill = lower.needs_zero_padding(op.output)
    conv = DirectConvolution(x, y, window, groups, filter_, bias, in_registers, epilogue, fill)
    for phase in phases(window):
        _launch(lower, conv, phase)


@dataclass(frozen=True, slots=True)
class _OutputSlice:
    """The outputs of a launch: some panels of channels, of groups that begin at the same lane."""

    groups: range
    panels: Panels
    first: int
    """Of the outputs of a group, the first one."""


def _output_slices(conv: DirectConvolution, macs: float) -> Iterator[_OutputSlice]:
    """All outputs; `macs`: multiply-adds for each channel."""
    _, outputs, inputs = conv.filter.shape[:3]
    lanes = lanes_of("float32")
    whole = conv.groups == 1 or inputs % lanes == outputs % lanes == 0
    for groups in [range(conv.groups)] if whole else [range(n, conv.groups, 2) for n in range(2)]:
        first = 0
        lane = groups.start * outputs % lanes
        for panels in panels_of(outputs, macs) if conv.groups == 1 else group_panels(lane, outputs):
            yield _OutputSlice(groups, panels, first)
            first += panels.width * panels.count


def _launch(lower: Lowering, conv: DirectConvolution, phase: Phase) -> None:
    """The outputs of a phase, share by share."""
    assert conv.y.layout.block == lanes_of("float32")
    taps = tap_grid(phase)
    places = tuple(tuple(number for number, _ in tap) for tap in taps)
    step = conv.x.layout.entry
    depth = ceil_div(conv.filter.shape[2], step) * len(taps) if taps else 1
    macs = hint(conv.x.batch * pixels_of(phase)) * depth * step
    for output_slice in _output_slices(conv, macs):
        panels, groups = (
            output_slice.panels,
            slice(output_slice.groups.start, None, output_slice.groups.step),
        )
        columns = slice(output_slice.first, output_slice.first + panels.width * panels.count)
        depth_block = _depth_block(depth, step * panels.width * conv.x.itemsize)
        packing = (places, step, panels.width, depth_block)
        packed = lower.packed(conv.filter[groups, columns], "direct", packing, DType.FLOAT32)
        bias = np.zeros((len(output_slice.groups), panels.width * panels.count), np.float32)
        part = conv.bias.reshape(conv.groups, -1)[groups, columns]
        bias[:, : part.shape[1]] = part
        _launch_tiles(lower, conv, phase, output_slice, packed, bias, depth, depth_block)


def _offsets(phase: Phase, x: Plane, lane: int, channels: int) -> npt.NDArray[np.int32]:
    """int32 [depth]: offsets of the entries of the reduction, relative to a pixel.

    An entry stands for some consecutive channels of one tap: see `nnefc.packing.direct`.  The first
    one begins at `lane` of a block.
    """
    pitches = x.pitches
    distances = [
        sum(pitch * distance for pitch, (_, distance) in zip(pitches, tap, strict=True))
        for tap in tap_grid(phase)
    ]
    if not distances:
        return np.zeros(1, np.int32)
    step = x.layout.entry
    per_block = x.layout.block // step
    steps = lane // step + np.arange(ceil_div(channels, step))
    first = steps // per_block * x.nbytes + steps % per_block * step * x.layout.itemsize
    return as_offsets(np.add.outer(first, distances).ravel())


def _runs(
    phase: Phase, x: Plane, lane: int, channels: int, depth_block: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(runs, taps) as the kernel reads them: taps that rows meet in the halo alone are left out.

    `channels`: of a group, from `lane` of a block on.
    """
    entries = _offsets(phase, x, lane, channels)
    numbers = np.arange(len(entries))
    taps = max(tap_count(phase), 1)
    row = pixels_of(phase[1:])
    starts = range(0, len(entries) + depth_block, depth_block)
    runs: list[list[int]] = []
    chosen: list[npt.NDArray[np.int64]] = []
    first = 0
    for rows, met in _rows(phase, x):
        inside = np.repeat(met, taps // len(met))
        mine = numbers[inside[numbers % taps]]
        pieces = first + np.searchsorted(mine, starts)
        runs.append([rows.start * row, rows.stop * row, *pieces.tolist()])
        chosen.append(mine)
        first += len(mine)
    every = np.concatenate(chosen)
    table = np.stack([entries[every], every % depth_block], 1)
    return np.array(runs, np.int32), table.astype(np.int32)


def _rows(phase: Phase, x: Plane) -> list[tuple[range, npt.NDArray[np.bool_]]]:
    """Rows (of the first dimension) that meet the same rows of taps outside the halo, and which."""
    axis, *others = phase
    every = range(axis.outputs.count)
    if not tap_count(phase):
        return [(every, np.ones(1, np.bool_))]
    distances = [distance for _, distance in axis.taps]
    met = np.add.outer(axis.inputs.numbers, distances)
    met = (met >= 0) & (met < x.spatial[0])
    few = pixels_of(tuple(others)) < LEAST_ROW
    if few or met.mean() > 1 - LEAST_SKIPPED:
        return [(every, np.ones(len(distances), np.bool_))]
    changes = np.flatnonzero((met[1:] != met[:-1]).any(1)) + 1
    bounds = [0, *changes.tolist(), len(met)]
    if len(changes) >= MOST_TAPS:
        return [(every, np.ones(len(distances), np.bool_))]
    return [(range(a, b), met[a]) for a, b in itertools.pairwise(bounds)]


def _depth_block(depth: int, entry_bytes: int) -> int:
    """Entries of the reduction that are done at a time: their weights stay in the first cache."""
    pieces = max(round(depth * entry_bytes / PANEL_BYTES), 1)
    return ceil_div(depth, pieces)


def _launch_tiles(
    lower: Lowering,
    conv: DirectConvolution,
    phase: Phase,
    output_slice: _OutputSlice,
    packed: Ref,
    bias: Array,
    depth: int,
    depth_block: int,
) -> None:
    x, y, residual = conv.x, conv.y, conv.register_epilogue.residual
    groups, panels = output_slice.groups, output_slice.panels
    vectors, count = panels.vectors, panels.count
    pixels = pixels_of(phase)
    inputs = conv.filter.shape[2]
    lane = groups.start * inputs % x.layout.block
    runs, taps = traced_call(_runs, phase, x.plane, lane, inputs, depth_block)
    filter_bytes = packed.buffer.nbytes
    macs = x.batch * pixels * (filter_bytes // conv.x.itemsize) * panels.mac_fraction
    pixel_block, part_tiles = _unit_size(conv, pixels, output_slice, filter_bytes, lower.threads)
    units = x.batch * len(groups) * ceil_div(pixels, pixel_block) * ceil_div(count, part_tiles)
    unit_block = per_tile(units, macs / units / MACS_PER_NS, lower.threads)
    other = residual or y
    outputs = tuple(axis.outputs for axis in phase)
    first_block, group_blocks = _output_blocks(conv, output_slice)
    ends = first_block + (len(groups) - 1) * group_blocks + vectors * count == y.blocks
    words = DIRECT.pack(
        **_input_fields(lower, conv, phase, groups),
        y=Ref(y.at.buffer, y.at.offset + first_block * y.plane_bytes, writes=True),
        filter=packed,
        bias=lower.table(bias),
        residual=Ref(other.at.buffer, other.at.offset + first_block * other.plane_bytes),
        taps=lower.table(taps),
        runs=lower.table(runs),
        run_count=length(runs),
        y_pixels=_pixel_table(lower, y, outputs),
        residual_pixels=_pixel_table(lower, other, outputs),
        y_batch=y.batch_bytes,
        y_group=group_blocks * y.plane_bytes,
        y_plane=y.plane_bytes,
        residual_batch=other.batch_bytes,
        residual_group=group_blocks * other.plane_bytes,
        residual_plane=other.plane_bytes,
        groups=len(groups),
        group_tiles=count,
        pixels=pixels,
        depth=depth,
        mode=conv.register_epilogue.mode,
        clamp=conv.register_epilogue.clamp,
        last_channels=y.channels % y.layout.block if conv.fill and ends else 0,
        pixel_block=pixel_block,
        depth_block=depth_block,
        part_tiles=part_tiles,
        units=units,
        unit_block=unit_block,
    )
    kernel = direct.convolution(vectors, x.layout.entry, panels.half)
    if conv.tile_epilogue is None:
        lower.launch(kernel, words, ceil_div(units, unit_block))
        return
    made = _unit_list(conv, output_slice, pixels, pixel_block, part_tiles)
    grouped = [made[i : i + unit_block] for i in range(0, units, unit_block)]
    conv.tile_epilogue.launch(lower, kernel, words, grouped, [row.numbers for row in outputs])


def _output_blocks(conv: DirectConvolution, output_slice: _OutputSlice) -> tuple[int, int]:
    """Of y: (the first channel block of a share, blocks from one of its groups to the next)."""
    outputs, lanes = conv.filter.shape[1], conv.y.layout.block
    first = (output_slice.groups.start * outputs + output_slice.first) // lanes
    return first, output_slice.groups.step * outputs // lanes


def _input_fields(
    lower: Lowering, conv: DirectConvolution, phase: Phase, groups: range
) -> dict[str, Any]:
    """Where the kernel reads x; outputs that meet nothing of it must not meet its infinities."""
    x, inputs = conv.x, conv.filter.shape[2]
    if tap_count(phase):
        skipped = groups.start * inputs // x.layout.block * x.plane_bytes
        return {
            "x": replace(x.at, offset=x.at.offset + skipped),
            "x_pixels": _pixel_table(lower, x, tuple(axis.inputs for axis in phase)),
            "x_batch": x.batch_bytes,
            "x_group": groups.step * inputs // x.layout.block * x.plane_bytes,
        }
    (nowhere,) = traced_call(_zero_offsets, pixels_of(phase))
    return {
        "x": lower.table(np.zeros(x.layout.entry, np.float32)),
        "x_pixels": lower.table(nowhere),
        "x_batch": 0,
        "x_group": 0,
    }


def _zero_offsets(pixels: int) -> tuple[npt.NDArray[np.int32]]:
    return (np.zeros(pixels, np.int32),)


def _pixel_table(lower: Lowering, tensor: Tensor, grid: tuple[Progression, ...]) -> Ref:
    """Where the pixels of a grid are."""
    (offsets,) = traced_call(_grid_offsets, tensor.plane, grid)
    return lower.table(offsets)


def _grid_offsets(plane: Plane, grid: tuple[Progression, ...]) -> tuple[npt.NDArray[np.int32]]:
    return (plane.offsets(*(row.numbers for row in grid)),)


def _unit_list(
    conv: DirectConvolution,
    output_slice: _OutputSlice,
    pixels: int,
    pixel_block: int,
    part_tiles: int,
) -> list[OutputUnit]:
    """The units of a launch, in the order of the kernel."""
    panels = output_slice.panels
    assert panels.half not in ("first", "last"), "blocks that groups share are never complete"
    first, group_blocks = _output_blocks(conv, output_slice)
    return [
        OutputUnit(
            batch,
            range(
                start + part * panels.vectors,
                start + min(part + part_tiles, panels.count) * panels.vectors,
            ),
            range(pixel, min(pixel + pixel_block, pixels)),
        )
        for batch in range(conv.x.batch)
        for start in [first + number * group_blocks for number in range(len(output_slice.groups))]
        for pixel in range(0, pixels, pixel_block)
        for part in range(0, panels.count, part_tiles)
    ]


def _unit_size(
    conv: DirectConvolution,
    pixels: int,
    output_slice: _OutputSlice,
    filter_bytes: int,
    threads: int,
) -> tuple[int, int]:
    """(pixels, panels) of a unit: its operands stay in a cache, and every thread has units.

    A part of the channels needs all of the input, which is close; a part of the pixels needs all
    of the weights.
    """
    panels, groups = output_slice.panels, len(output_slice.groups)
    height, count, pixels = tile_pixels(panels.vectors), panels.count, hint(pixels)
    planes = hint(conv.x.batch) * groups
    plane_ns = (
        pixels * (filter_bytes // conv.x.itemsize) * panels.mac_fraction / groups / MACS_PER_NS
    )
    input_bytes = hint(conv.x.plane_bytes) * conv.x.blocks // conv.groups
    fewest = band_count(pixels, threads)
    if input_bytes > INPUT_BYTES:
        fewest = max(ceil_div(pixels, PIXELS), fewest)
    rows = ceil_div(ceil_div(pixels, fewest), height)
    blocks = [height * n for n in block_sizes(rows) if n >= min(rows, LEAST_STRIP)]

    def cost(cut: tuple[int, int]) -> float:
        pixel_block, part = cut
        walks = ceil_div(pixels, pixel_block)
        unit = plane_ns * (pixel_block / pixels) * (part / count)
        weights = filter_bytes * walks * WALK_NS / partition_threads(threads)
        return weights + makespan(planes * walks * ceil_div(count, part), unit, threads)

    return min(itertools.product(blocks, block_sizes(count)), key=cost)
