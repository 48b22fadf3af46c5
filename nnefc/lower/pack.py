"""Matrices in panels (see `nnefc.kernels.pack`): now if the items are known, else by a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.ir import DType, Shape
from nnefc.kernels.pack import PACK
from nnefc.kernels.template import Kernel
from nnefc.kernels.tile import tile_rows
from nnefc.kernels.vector import lanes_of
from nnefc.lower.context import Lowering
from nnefc.lower.partition import block, tiles
from nnefc.runtime.program import Ref

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Where items are: bytes from row to row, column to column, and along the batch dimensions."""

    at: Ref
    row: int
    step: int
    batch: tuple[int, ...] = ()

    @property
    def turned(self) -> Matrix:
        """The transpose."""
        return Matrix(self.at, self.step, self.row, self.batch)


def panels(data: Array, parts: int, unit: int) -> Array:
    """The columns of [..., depth, count] in `parts` panels of whole units, filled up with zeros.

    The result is [..., items of all panels].
    """
    *batch, depth, count = data.shape
    units = tiles(count, unit)
    narrow, wider = divmod(units, parts)
    cut = wider * (narrow + 1) * unit
    padded = data
    if units * unit != count:
        padded = np.zeros((*batch, depth, units * unit), data.dtype)
        padded[..., :count] = data

    def split(part: Array, panel: int) -> Array:
        blocks = part.reshape(*batch, depth, -1, panel * unit)
        return np.moveaxis(blocks, -2, len(batch)).reshape(*batch, -1)

    pieces = [split(padded[..., :cut], narrow + 1)] if wider else []
    if parts > wider:
        pieces.append(split(padded[..., cut:], narrow))
    return np.ascontiguousarray(pieces[0] if len(pieces) == 1 else np.concatenate(pieces, -1))


def packed_bytes(depth: int, count: int, unit: int, dtype: DType) -> int:
    return tiles(count, unit) * unit * depth * dtype.itemsize


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
    """Launch a kernel that packs [depth, count]; what is repeated in a batch is packed once."""
    nbytes = packed_bytes(depth, count, unit, dtype)
    extents = [extent if pitch else 1 for extent, pitch in zip(batch, x.batch)]
    y = lower.scratch(math.prod(extents) * nbytes)
    pitches = tuple(
        math.prod(extents[i + 1 :]) * nbytes if extent > 1 else 0
        for i, extent in enumerate(extents)
    )
    work = math.prod(extents) * parts
    tile = block(work, depth * tiles(count, parts) / 4)
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
    if unit == 1:  # rows of a tile, which are fewer than the items of a long vector
        lanes = min(lanes, 1 << (tile_rows() - 1).bit_length())
    lower.launch(Kernel("pack.panels", (str(dtype), lanes)), words, tiles(work, tile))
    return Matrix(Ref(y.buffer), 0, 0, pitches)
