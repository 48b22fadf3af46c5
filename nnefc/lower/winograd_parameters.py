"""What the kernels of Winograd's convolution are told: their parameters, tables and filter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.hardware import CACHE_LINE
from nnefc.ir import DType
from nnefc.ir.layout import ITEM
from nnefc.kernels.winograd_transforms import Taps
from nnefc.lower.blocked import Tensor
from nnefc.lower.context import Lowering
from nnefc.lower.ending import Ending, Simple
from nnefc.lower.panels import Panels, panels_of
from nnefc.lower.partition import ceil_div
from nnefc.lower.winograd_tiles import Tiling
from nnefc.runtime.program import Ref

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Winograd:
    """One convolution, with everything that does not change from launch to launch."""

    x: Tensor
    y: Tensor
    simple: Simple
    ending: Ending | None
    taps: Taps
    tiling: Tiling
    padding: tuple[int, int]
    """Rows and columns of zeros before the input."""
    filter: Array
    """[outputs, inputs, *taps]"""
    bias: Array
    parts: int
    """A block is one part of the tiles of `items` batch items."""
    items: int

    @property
    def capacity(self) -> int:
        """The most tiles of a block."""
        return self.items * -(-self.tiling.count // self.parts)

    @property
    def blocks(self) -> int:
        return self.parts * ceil_div(self.x.batch, self.items)

    @property
    def elements(self) -> int:
        return math.prod(self.tiling.grid)

    @property
    def macs(self) -> int:
        """Multiply-adds of a block, about."""
        return self.capacity * self.elements * self.x.channels * self.y.channels

    @property
    def channels(self) -> int:
        """Channels of an entry of the reduction."""
        return self.x.layout.entry

    @property
    def entries(self) -> int:
        return -(-self.x.channels // self.channels)

    @property
    def panels(self) -> tuple[Panels, Panels]:
        """Of output channels; there may be no panels of the second kind."""
        macs = self.x.batch * self.tiling.count * self.elements * self.x.channels
        found = [*panels_of(self.y.channels, macs), Panels(0, 0)]
        return found[0], found[1]

    def element_bytes(self, tensor: Tensor) -> int:
        """Bytes from one element to the next: an odd number of cache lines.

        Otherwise all elements of a tile might compete for the same set of the cache.
        """
        nbytes = tensor.blocks * self.capacity * tensor.pixel_bytes
        return (-(-nbytes // CACHE_LINE) // 2 * 2 + 1) * CACHE_LINE


def rows_and_columns(values: Sequence[int], first: int) -> tuple[int, int]:
    """Rows and columns: what has one dimension is one row."""
    rows, columns = values if len(values) == 2 else (first, *values)
    return rows, columns


def common_fields(lower: Lowering, it: Winograd) -> dict[str, Any]:
    """The parameters that all launches have in common.

    In place of memory that only some launches need there are zeros.
    """
    x, y = it.x, it.y
    zeros = lower.table(np.zeros(4 * CACHE_LINE // ITEM, np.float32))
    classes = it.tiling.classes(it.parts, it.items, it.capacity)
    runs = it.tiling.runs(it.parts)
    residual = it.simple.residual
    top, left, *_ = it.tiling.tiles.T
    plane = it.capacity * x.pixel_bytes
    steps = np.arange(it.entries) * it.channels
    block_, inside = np.divmod(steps, x.layout.block)
    each, last_ones = it.panels
    bias = np.zeros(y.blocks * y.layout.block, np.float32)
    bias[: y.channels] = it.bias
    return {
        "x": zeros,
        "y": zeros,
        "residual": zeros,
        "bias": lower.table(bias),
        "zeros": zeros,
        "filter": zeros,
        "v": zeros,
        "m": zeros,
        "slots": zeros,
        "x_tiles": lower.table(_offsets(x, top - it.padding[0], left - it.padding[1])),
        "y_tiles": lower.table(_offsets(y, top, left)),
        "residual_tiles": lower.table(
            _offsets(residual, top, left) if residual else np.zeros(len(top), np.int32)
        ),
        "runs": lower.table(runs),
        "classes": lower.table(classes.tiles * np.int32(x.pixel_bytes)),
        "counts": lower.table(classes.counts),
        "members": lower.table(classes.members),
        "taps": lower.table(
            np.stack([block_ * plane + inside * ITEM, range(it.entries)], 1).astype(np.int32)
        ),
        "x_batch": x.batch_bytes,
        "x_plane": x.plane_bytes,
        "x_row": _rows(x),
        "y_batch": y.batch_bytes,
        "y_plane": y.plane_bytes,
        "y_row": _rows(y),
        "residual_batch": residual.batch_bytes if residual else 0,
        "residual_plane": residual.plane_bytes if residual else 0,
        "residual_row": _rows(residual) if residual else 0,
        "residual_column": residual.pixel_bytes if residual else 0,
        "in_blocks": x.blocks,
        "out_blocks": y.blocks,
        "columns": it.tiling.grid[1],
        "elements": it.elements,
        "depth": it.entries,
        "panels": each.count,
        "last_panels": last_ones.count,
        "run_count": runs.shape[1],
        "class_count": classes.counts.shape[1],
        "batch": x.batch,
        "items": it.items,
        "item_tiles": it.tiling.count,
        "parts": it.parts,
        "capacity": it.capacity,
        "v_element": it.element_bytes(x),
        "m_element": it.element_bytes(y),
        "v_slot": 0,
        "m_slot": 0,
        "slot_count": 0,
        "clamp": it.simple.clamp,
        "block": 0,
    }


def _rows(tensor: Tensor) -> int:
    """Bytes from one row of pixels to the next."""
    return rows_and_columns(tensor.pitches, 0)[0]


def _offsets(tensor: Tensor, rows: Array, columns: Array) -> Array:
    """int32: bytes from the start of a plane to pixels."""
    found = tensor.origin + rows * _rows(tensor) + columns * tensor.pixel_bytes
    return found.astype(np.int32)


def packed_filter(lower: Lowering, it: Winograd) -> Ref:
    """The transformed filter."""
    lanes = it.y.layout.block
    panels = tuple((each.vectors * lanes, each.count) for each in it.panels if each.count)
    packing = (it.tiling.grid, it.channels, panels)
    return lower.packed(it.filter, "winograd", packing, DType.FLOAT32)
