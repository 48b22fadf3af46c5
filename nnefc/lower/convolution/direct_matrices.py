"""Direct convolution of blocked bfloat16 in matrix registers; deconvolutions phase by phase."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.kernels.convolution import direct_matrices
from nnefc.kernels.convolution.direct_matrices import MATRICES
from nnefc.kernels.tile.matrix_pixels import SUMS_ROW
from nnefc.kernels.tile.matrix_tile import REGISTERS, ROWS
from nnefc.kernels.vector.dot_halves import WORD_HALVES
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.blocked.tensors import Tensor
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.direct_convolution import MATRIX_PIXELS, DirectConvolution
from nnefc.lower.convolution.direct_launches import ChannelSlice, choose_units, output_units
from nnefc.lower.convolution.panels import Panels
from nnefc.lower.convolution.strided_pixels import StridedPixels
from nnefc.lower.partition import ceil_div
from nnefc.program.program import Ref
from nnefc.program.tables.matrix_tiles import MatrixTiles, entry_offsets, matrix_tiles, tap_offsets
from nnefc.program.tables.phases import Phase, phases, tap_grid
from nnefc.program.tables.planes import Offsets

Array = npt.NDArray[Any]

LEAST_OUTPUTS: Final = 128
"""Least output channels at which a copy of x by strides takes much less time than products."""
MOST_REGISTERS: Final = 0.75
"""Largest share of the registers of pixels with which a copy pays."""


def lower_direct_matrices(lower: Lowering, conv: DirectConvolution) -> None:
    """A convolution of bfloat16 whose x has a halo for all taps."""
    for phase in phases(conv.window):
        source = _read_source(lower, conv, phase)
        for channels in _slices(conv):
            _launch(lower, conv, phase, source, channels)


def _slices(conv: DirectConvolution) -> list[ChannelSlice]:
    """Panels of two vectors; an odd vector has a launch of its own, if y has no wider blocks."""
    groups, outputs, accumulator = range(conv.groups), conv.filter.shape[1], conv.accumulator
    lanes = lanes_of(str(accumulator))
    whole = ceil_div(outputs, max(conv.y.layout.block, lanes)) * conv.y.layout.block // lanes
    pairs, odd = divmod(whole, REGISTERS)
    residual = conv.register_epilogue.residual
    # the last panel adds a vector of a residual less, if that has narrower blocks
    alone = (
        residual is not None and pairs and residual.blocks * residual.layout.block < whole * lanes
    )
    parts = [(REGISTERS, pairs - 1), (REGISTERS, 1)] if alone else [(REGISTERS, pairs)]
    first, slices = 0, list[ChannelSlice]()
    for vectors, count in [*parts, (1, odd)]:
        if count:
            panels = Panels(accumulator, vectors, count)
            slices.append(ChannelSlice(groups, panels, first))
            first += panels.width * count
    return slices


def _launch(
    lower: Lowering,
    conv: DirectConvolution,
    phase: Phase,
    source: _Source,
    channels: ChannelSlice,
) -> None:
    """Launch a channel slice of the outputs of a phase."""
    x, tiles, depth = source.x, source.tiles, source.depth
    panels, outputs = channels.panels, conv.filter.shape[1]
    width = panels.width * panels.count
    columns = slice(channels.first, channels.first + width)
    entries = len(depth.offsets)
    packing = (depth.taps, depth.items, panels.width, entries, False, WORD_HALVES, 1)
    packed = lower.packed(depth.filter[:, columns], "direct", packing, x.dtype)
    used = conv.bias.reshape(conv.groups, -1)[:, columns]
    bias = np.zeros((conv.groups, width), used.dtype)
    bias[:, : used.shape[1]] = used
    count = len(tiles.tiles)
    units = choose_units(conv, count * MATRIX_PIXELS, channels, packed.buffer.nbytes, lower.threads)
    tile_block = units.pixel_block // MATRIX_PIXELS
    last = outputs - channels.first - panels.width * (panels.count - 1)
    words = MATRICES.pack(
        x=x.at,
        filter=packed,
        bias=lower.table(bias),
        taps=lower.table(depth.offsets),
        tiles=lower.table(tiles.tiles),
        rows=lower.table(tiles.rows * SUMS_ROW),
        **_output_fields(lower, conv, phase, channels),
        x_row=tiles.x_row,
        x_batch=x.batch_bytes,
        x_group=conv.filter.shape[2] // x.layout.block * x.plane_bytes,
        groups=conv.groups,
        panels=panels.count,
        tile_count=count,
        depth=entries if depth.taps else 0,
        words=depth.items // WORD_HALVES,
        height=tiles.height,
        clamp=conv.register_epilogue.clamp,
        channels=max(last, 0) if conv.fill and last < panels.width else 0,
        tile_block=tile_block,
        panel_block=units.panel_block,
        units=units.count,
        unit_block=units.per_tile,
    )
    residual = conv.register_epilogue.residual
    assert not conv.y.dtype.is_half or conv.y.layout.block == panels.width
    kernel = direct_matrices.convolution(conv.form, panels.vectors)
    if conv.tile_epilogue is None:
        reused = () if residual is None or residual.layout != conv.y.layout else (residual.at,)
        lower.launch(kernel, words, ceil_div(units.count, units.per_tile), in_place=reused)
        return
    starts = [(n * outputs + channels.first) // conv.y.layout.block for n in channels.groups]
    ranges = _tile_ranges(tiles, tile_block)
    each = output_units(conv.x.batch, starts, ranges, panels, units.panel_block)
    of_tiles = [each[i : i + units.per_tile] for i in range(0, units.count, units.per_tile)]
    positions = [axis.outputs.numbers for axis in phase]
    conv.tile_epilogue.launch(lower, kernel, words, of_tiles, positions)


@dataclass(frozen=True, slots=True)
class _Depth:
    """The reduction of a phase."""

    filter: Array
    """[groups, outputs, inputs, *taps]"""
    taps: tuple[tuple[int, ...], ...]
    items: int
    """Items of an entry, which are neighbours in x and inputs in the filter."""
    blocks: int
    """Channel blocks that taps read."""
    offsets: Offsets
    """Of entries, see `MATRICES`."""


@dataclass(frozen=True, slots=True)
class _Source:
    """What the launches of a phase read."""

    x: Tensor
    tiles: MatrixTiles
    depth: _Depth


def _read_source(lower: Lowering, conv: DirectConvolution, phase: Phase) -> _Source:
    """x, or a copy by strides if its pixels fill registers better."""
    x, window = conv.x, conv.window
    tiles, depth = matrix_tiles(phase, x.plane, ROWS, REGISTERS), _read_depth(conv, phase)
    strided = window.stride[-1] > 1 and not window.reverse
    if strided and x.layout.block >= lanes_of("float32") and len(conv.bias) >= LEAST_OUTPUTS:
        pixels = StridedPixels.of(x, window.stride, phase)
        fewer = matrix_tiles(pixels.phase, pixels.plane, ROWS, REGISTERS)
        if fewer.registers <= MOST_REGISTERS * tiles.registers:
            offsets = entry_offsets(pixels.plane, pixels.tap_offsets(), depth.blocks)
            return _Source(pixels.copy(lower), fewer, replace(depth, offsets=offsets))
    return _Source(x, tiles, depth)


def _read_depth(conv: DirectConvolution, phase: Phase) -> _Depth:
    """An entry is a block of channels of a pixel, or few channels of all taps along a row."""
    x, filter_ = conv.x, conv.filter
    *outer, row = phase
    block = x.layout.block
    if block >= lanes_of("float32"):
        blocks = ceil_div(filter_.shape[2], block)
        offsets = entry_offsets(x.plane, tap_offsets(phase, x.plane), blocks)
        taps = tuple(tuple(number for number, _ in tap) for tap in tap_grid(phase))
        return _Depth(filter_, taps, block, blocks, offsets)
    numbers = [number for number, _ in row.taps]
    assert conv.groups == 1 and row.taps[-1][1] - row.taps[0][1] == len(numbers) - 1
    padding = [(0, 0)] * filter_.ndim
    padding[2] = (0, block - filter_.shape[2])
    padded = np.moveaxis(np.pad(filter_[..., numbers], padding), -1, 2)
    items = len(numbers) * block
    joined = padded.reshape(*padded.shape[:2], items, *padded.shape[4:])
    first = (*outer, replace(row, taps=row.taps[:1]))
    offsets = entry_offsets(x.plane, tap_offsets(first, x.plane), 1)
    taps = tuple(tuple(number for number, _ in tap[:-1]) for tap in tap_grid(first))
    return _Depth(joined, taps, items, 1, offsets)


def _output_fields(
    lower: Lowering, conv: DirectConvolution, phase: Phase, channels: ChannelSlice
) -> dict[str, Any]:
    """Parameters for writing y and for reading the residual."""
    numbers = [axis.outputs.numbers for axis in phase]
    fields: dict[str, Any] = {}
    residual = conv.register_epilogue.residual or conv.y
    for name, tensor in (("y", conv.y), ("residual", residual)):
        block, lanes = tensor.layout.block, lanes_of(str(conv.accumulator))
        vectors = block // lanes
        assert channels.panels.vectors % vectors == 0 or channels.panels.count == 1
        skipped = channels.first // block * tensor.plane_bytes
        vector = tensor.plane_bytes if vectors == 1 else tensor.pixel_bytes // vectors
        if channels.first + lanes >= tensor.blocks * block:
            vector = 0  # there is one vector
        at = Ref(tensor.at.buffer, tensor.at.offset + skipped, writes=name == "y")
        fields |= {
            name: at,
            f"{name}_pixels": lower.table(tensor.plane.offsets(*numbers)),
            f"{name}_batch": tensor.batch_bytes,
            f"{name}_group": conv.filter.shape[1] // block * tensor.plane_bytes,
            f"{name}_panel": channels.panels.vectors // vectors * tensor.plane_bytes,
            f"{name}_vector": vector,
        }
    return fields


def _tile_ranges(tiles: MatrixTiles, block: int) -> list[range]:
    """The pixels of blocks of tiles."""
    ends = tiles.tiles[:, 3:].tolist()
    firsts = range(0, len(ends), block)
    return [range(ends[i][0], ends[min(i + block, len(ends)) - 1][1]) for i in firsts]
