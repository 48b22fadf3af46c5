"""Parameters, tables and the packed filter of the kernels of Winograd convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType
from nnefc.kernels.convolution.winograd_transforms import WHOLE, AnyEnding, Taps, sum_type
from nnefc.lower.blocked.tensors import Tensor
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.epilogue import TileEpilogue
from nnefc.lower.convolution.panels import Panels, panels_of
from nnefc.lower.convolution.winograd_tiles import Tiling
from nnefc.lower.partition import ceil_div
from nnefc.ops.core.window_arithmetic import Window
from nnefc.program.program import Ref
from nnefc.program.tables.planes import as_offsets
from nnefc.support.alignment import CACHE_LINE

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class WinogradConvolution:
    """One convolution, with everything that is the same for all of its launches."""

    x: Tensor
    y: Tensor
    residual: Tensor | None
    element: DType
    """Item type of the elements and of the transformed filter."""
    largest: int
    """The largest tile that kernels have code for."""
    ending: AnyEnding
    """How sums end; None for float32 alone."""
    tile_epilogue: TileEpilogue | None
    window: Window
    """One to three dimensions; the first of three is the planes."""
    tiling: Tiling
    filter: Array
    """[outputs, inputs, pieces, rows, columns]: the taps of each piece of the window."""
    pieces: Array
    """int32: bytes in x from the first pixel of the window to that of each piece."""
    bias: Array
    bounds: Array
    """As kernels read them, see `WINOGRAD`."""
    parts: int
    """The tiles of a plane are divided into parts; a block is one part of `items` batch items."""
    items: int

    @property
    def accumulator(self) -> DType:
        """Item type of the products."""
        return DType(sum_type(str(self.element)))

    @property
    def taps(self) -> Taps:
        """Of a piece, along rows and columns."""
        rows, columns = self.filter.shape[-2:]
        return rows, columns

    @property
    def is_dilated(self) -> bool:
        """Whether columns of a tile are apart."""
        return self.tiling.dilation[1] > 1

    @property
    def in_blocks(self) -> int:
        """Channel blocks that are summed, piece by piece."""
        return len(self.pieces) * self.x.blocks

    @property
    def capacity(self) -> int:
        """Maximum tiles of a block."""
        return self.items * -(-self.tiling.count // self.parts)

    @property
    def blocks(self) -> int:
        return self.parts * ceil_div(self.x.batch, self.items)

    @property
    def elements(self) -> int:
        return math.prod(self.tiling.grid)

    @property
    def macs(self) -> int:
        """Approximate multiply-adds of a block."""
        inputs = len(self.pieces) * self.x.channels
        return self.capacity * self.elements * inputs * self.y.channels

    @property
    def channels(self) -> int:
        """Channels of an entry of the reduction."""
        return self.x.layout.entry

    @property
    def entries(self) -> int:
        """Entries of the reduction per piece of the window."""
        return -(-self.x.channels // self.channels)

    @property
    def depth(self) -> int:
        """Entries of the reduction."""
        return len(self.pieces) * self.entries

    @property
    def panels(self) -> tuple[Panels, Panels]:
        """Panels of output channels, of one or two kinds; `count` of the second may be 0."""
        inputs = len(self.pieces) * self.x.channels
        macs = self.x.batch * self.tiling.count * self.elements * inputs
        macs *= str(self.element) != WHOLE  # codes have whole vectors
        panels = panels_of(self.accumulator, self.y.channels, macs)
        first, second, *_ = *panels, Panels(self.accumulator, 0, 0)
        return first, second

    @property
    def v_element(self) -> int:
        return self._element_bytes(self.in_blocks * self.v_vector)

    @property
    def m_element(self) -> int:
        return self._element_bytes(self.y.blocks * self.m_vector)

    @property
    def v_vector(self) -> int:
        """Bytes of a channel block of an element."""
        return self.x.layout.block * self.element.itemsize

    @property
    def m_vector(self) -> int:
        """Bytes of a channel block of a product."""
        return self.y.layout.block * self.accumulator.itemsize

    def _element_bytes(self, tile_bytes: int) -> int:
        """Bytes from one element to the next: an odd number of cache lines.

        With an even number, elements of a tile could compete for the same set of the cache.
        """
        nbytes = self.capacity * tile_bytes
        return (-(-nbytes // CACHE_LINE) // 2 * 2 + 1) * CACHE_LINE


def rows_and_columns(values: Sequence[int], first: int) -> tuple[int, int]:
    """The values of the last two dimensions; `first` stands for rows if there is one dimension."""
    rows, columns = values[-2:] if len(values) > 1 else (first, *values)
    return rows, columns


def planes_of(values: Sequence[int], first: int = 1) -> int:
    """The value of the first of three dimensions; `first` if there are fewer."""
    return values[0] if len(values) > 2 else first


def piece_offsets(x: Tensor, window: Window, pieces: Sequence[Sequence[int]]) -> Array:
    """int32: bytes in x from the first pixel of a window to those of pieces, given by first taps.

    First taps: [plane, row, column].
    """
    above, beside = rows_and_columns(window.dilation, 1)
    steps = planes_of(window.dilation) * planes_of(x.pitches, 0), above * _rows(x)
    return as_offsets(np.array(pieces) @ np.array([*steps, beside * x.pixel_bytes]))


def common_fields(lower: Lowering, conv: WinogradConvolution) -> dict[str, Any]:
    """The parameters that all launches share.

    Memory that only some launches use is set to zeros, for them to replace.
    """
    count = 4 * CACHE_LINE // conv.accumulator.itemsize
    zeros = lower.table(np.zeros(count, conv.accumulator.numpy))
    memory = ("x", "y", "residual", "zeros", "filter", "v", "m", "slots")
    return {
        **dict.fromkeys(memory, zeros),
        **_table_fields(lower, conv),
        **_stride_fields(conv),
        **_extent_fields(conv),
        "bounds": lower.table(conv.bounds),
        "v_slot": 0,
        "m_slot": 0,
        "slot_count": 0,
        "block": 0,
    }


def _table_fields(lower: Lowering, conv: WinogradConvolution) -> dict[str, Any]:
    """Tables, and the numbers of their entries."""
    y, residual = conv.y, conv.residual
    classes = conv.tiling.classes(conv.parts, conv.items, conv.capacity)
    runs = conv.tiling.runs(conv.parts)
    return {
        "bias": lower.table(conv.bias),
        "x_tiles": lower.table(_input_tiles(conv)),
        "x_pieces": lower.table(conv.pieces),
        "y_tiles": lower.table(_output_tiles(conv, y)),
        "residual_tiles": lower.table(
            _output_tiles(conv, residual) if residual else np.zeros(conv.tiling.count, np.int32)
        ),
        "runs": lower.table(runs),
        "v_tiles": lower.table(classes.tiles * np.int32(conv.v_vector)),
        "m_tiles": lower.table(classes.tiles * np.int32(conv.m_vector)),
        "counts": lower.table(classes.counts),
        "members": lower.table(classes.members),
        "taps": lower.table(_entries(conv)),
        "run_count": runs.shape[1],
        "class_count": classes.counts.shape[1],
    }


def _stride_fields(conv: WinogradConvolution) -> dict[str, int]:
    """Strides in bytes; rows and columns are those of a tile."""
    x, y, residual = conv.x, conv.y, conv.residual
    below, beside = conv.tiling.dilation
    return {
        "x_batch": x.batch_bytes,
        "x_plane": x.plane_bytes,
        "x_row": below * _rows(x),
        "x_column": beside * x.pixel_bytes,
        "y_batch": y.batch_bytes,
        "y_plane": y.plane_bytes,
        "y_row": below * _rows(y),
        "y_column": beside * y.pixel_bytes,
        "residual_batch": residual.batch_bytes if residual else 0,
        "residual_plane": residual.plane_bytes if residual else 0,
        "residual_row": below * _rows(residual) if residual else 0,
        "residual_column": beside * residual.pixel_bytes if residual else 0,
        "v_element": conv.v_element,
        "m_element": conv.m_element,
    }


def _extent_fields(conv: WinogradConvolution) -> dict[str, int]:
    """Extents of the tensors and of the blocks."""
    panels, last_panels = conv.panels
    return {
        "in_blocks": conv.in_blocks,
        "tap_blocks": conv.x.blocks,
        "out_blocks": conv.y.blocks,
        "columns": conv.tiling.grid[1],
        "elements": conv.elements,
        "depth": conv.depth,
        "panels": panels.count,
        "last_panels": last_panels.count,
        "batch": conv.x.batch,
        "items": conv.items,
        "item_tiles": conv.tiling.count,
        "parts": conv.parts,
        "capacity": conv.capacity,
    }


def _rows(tensor: Tensor) -> int:
    """Bytes from one row of pixels to the next."""
    return rows_and_columns(tensor.pitches, 0)[0]


def _input_tiles(conv: WinogradConvolution) -> Array:
    """Offsets of the inputs of the tiles, see `_offsets`."""
    top, left, *_ = conv.tiling.tiles.T
    before = [before for before, _ in conv.window.padding]
    above, beside = rows_and_columns(before, 0)
    planes = conv.tiling.planes * planes_of(conv.window.stride) - planes_of(before, 0)
    return _offsets(conv.x, planes, top - above, left - beside)


def _output_tiles(conv: WinogradConvolution, tensor: Tensor) -> Array:
    """Offsets of the outputs of the tiles, or of their residual, see `_offsets`."""
    top, left, *_ = conv.tiling.tiles.T
    return _offsets(tensor, conv.tiling.planes, top, left)


def _offsets(tensor: Tensor, planes: Array, rows: Array, columns: Array) -> Array:
    """int32: byte offsets of pixels in a channel block."""
    offsets = tensor.origin + planes * planes_of(tensor.pitches, 0) + rows * _rows(tensor)
    return as_offsets(offsets + columns * tensor.pixel_bytes)


def _entries(conv: WinogradConvolution) -> Array:
    """int32 [depth, 2]: byte offsets of the entries of the reduction in v, and their numbers."""
    inside = np.arange(conv.entries) * conv.channels
    channels = np.add.outer(
        np.arange(len(conv.pieces)) * conv.x.blocks * conv.x.layout.block, inside
    )
    blocks, items = np.divmod(channels.ravel(), conv.x.layout.block)
    offsets = blocks * conv.capacity * conv.v_vector + items * conv.element.itemsize
    return np.stack([as_offsets(offsets), np.arange(len(offsets), dtype=np.int32)], 1)


def packed_filter(lower: Lowering, conv: WinogradConvolution) -> Ref:
    """Memory of the transformed filter, in panels."""
    panels = tuple((each.width, each.count) for each in conv.panels if each.count)
    packing = (conv.tiling.grid, conv.channels, panels)
    if str(conv.element) == WHOLE:
        packing = (*packing, conv.largest)
    return lower.packed(conv.filter, "winograd", packing, conv.element)


def by_blocks(y: Tensor, items: Array) -> Array:
    """[.., channels] as [blocks, .., lanes], padded with zeros."""
    *before, channels = items.shape
    padded = np.zeros((*before, y.blocks * y.layout.block), items.dtype)
    padded[..., :channels] = items
    return np.moveaxis(padded.reshape(*before, y.blocks, -1), -2, 0)
