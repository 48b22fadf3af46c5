"""Matrices in memory, and their packing into panels (`nnefc.kernels.tile.panels`) by a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.ir import DType, Shape
from nnefc.kernels.tile import panels
from nnefc.kernels.tile.panels import PACK
from nnefc.kernels.tile.register_tile import tile_rows
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.program.program import Ref
from nnefc.support.machine_model import LOOP_ITEMS_PER_NS

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory: bytes from row to row, column to column, and along batch dimensions."""

    at: Ref
    row: int
    step: int
    batch: tuple[int, ...] = ()

    @property
    def transposed(self) -> Matrix:
        """The transpose."""
        return Matrix(self.at, self.step, self.row, self.batch)

    def fields(self, name: str) -> dict[str, Any]:
        """Parameters of kernels for the matrix, see `tile.expression_epilogue.operand_fields`."""
        return {
            name: self.at,
            f"{name}_row": self.row,
            f"{name}_step": self.step,
            f"{name}_batch": self.batch,
        }


def packed_bytes(depth: int, count: int, unit: int, dtype: DType) -> int:
    """Bytes of [depth, count] in panels of `unit` columns, padding included."""
    return ceil_div(count, unit) * unit * depth * dtype.itemsize


def pack(
    lower: Lowering,
    x: Matrix,
    dtype: DType,
    depth: int,
    count: int,
    batch: Shape,
    *,
    parts: int,
    unit: int,
) -> Matrix:
    """Launch a kernel that packs x [depth, count] into `parts` panels; returns the panels.

    Columns are padded to multiples of `unit`.  Batch dimensions with stride 0 are packed once.
    """
    nbytes = packed_bytes(depth, count, unit, dtype)
    extents = [extent if pitch else 1 for extent, pitch in zip(batch, x.batch)]
    y = lower.scratch(math.prod(extents) * nbytes)
    pitches = tuple(
        math.prod(extents[i + 1 :]) * nbytes if extent > 1 else 0
        for i, extent in enumerate(extents)
    )
    work = math.prod(extents) * parts
    tile = units_per_tile(work, depth * ceil_div(count, parts) / LOOP_ITEMS_PER_NS, lower.threads)
    words = PACK.pack(
        x=x.at,
        y=y,
        depth=depth,
        count=count,
        row=x.row,
        step=x.step,
        unit=unit,
        panels=parts,
        batch_rank=len(batch),
        batch=extents,
        x_batch=x.batch,
        y_batch=pitches,
        tiles=work,
        tile_block=tile,
    )
    lanes = lanes_of(str(dtype))
    if unit == 1:  # a panel has at most as many columns as a tile has rows
        lanes = min(lanes, 1 << (tile_rows() - 1).bit_length())
    lower.launch(panels.panels(str(dtype), lanes), words, ceil_div(work, tile))
    return Matrix(Ref(y.buffer), 0, 0, pitches)
