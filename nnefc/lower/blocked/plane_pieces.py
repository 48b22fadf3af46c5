"""Launches of kernels over pieces of planes, and the division of rows into pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.kernels.family import Kernel
from nnefc.kernels.tile.plane_pieces import PIECES
from nnefc.lower.blocked.tensors import Tensor
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.epilogue import OutputUnit, TileEpilogue
from nnefc.lower.partition import band_count, ceil_div, units_per_tile
from nnefc.program.program import Ref
from nnefc.program.tables.plane_records import Records
from nnefc.symbolic.integers import hint
from nnefc.symbolic.sym_int_base import Untraceable
from nnefc.symbolic.traced_array import TracedArray, length

BAND_NS = 10_000
"""Nanoseconds of a unit: planes are divided into bands only if they take longer."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Memory [blocks, plane_bytes]; with 0 bytes, all channel blocks share the weights."""

    at: Ref
    plane_bytes: int


def launch(
    lower: Lowering,
    kernel: Kernel,
    x: Tensor,
    y: Tensor,
    pieces: Records | TracedArray,
    taps: npt.NDArray[np.int32] | TracedArray,
    plane_ns: float,
    *,
    other: Tensor | None = None,
    weights: Weights | None = None,
    clamp: int = 0,
    epilogue: TileEpilogue | None = None,
    columns: Callable[[], Sequence[int]] | None = None,
    blocks: range | None = None,
) -> None:
    """Launch a kernel over the pieces of all planes.

    `plane_ns`: estimated nanoseconds of all pieces of one plane.
    `epilogue`: needs pieces in row-major order whose kind is their number of pixels.
    `columns`: gives the positions of the pixels of a row, if not computed from left to right.
    `blocks`: the channel blocks of y to compute, each from one block of x.
    """
    blocks = range(y.blocks) if blocks is None else blocks
    count, plane_ns = length(pieces), hint(plane_ns)
    least = band_count(hint(math.prod(y.spatial)), lower.threads)
    bands = min(max(round(plane_ns / BAND_NS / least), 1) * least, hint(count))
    band = ceil_div(count, bands)
    units = x.batch * len(blocks) * ceil_div(count, band)
    unit_block = units_per_tile(units, plane_ns / bands, lower.threads)
    words = PIECES.pack(
        **_memory_fields(x, y, other or y, weights or Weights(x.at, 0), blocks),
        pieces=lower.table(pieces),
        taps=lower.table(taps),
        clamp=clamp,
        count=count,
        band=band,
        units=units,
        unit_block=unit_block,
    )
    if epilogue is None:
        lower.launch(kernel, words, ceil_div(units, unit_block))
        return
    outputs = _units(pieces, band, x.batch, blocks)
    tiles = [outputs[i : i + unit_block] for i in range(0, units, unit_block)]
    *rows, width = map(range, y.spatial)
    positions = [*rows, width if columns is None else columns()]
    epilogue.launch(lower, kernel, words, tiles, positions)


def _memory_fields(
    x: Tensor, y: Tensor, other: Tensor, weights: Weights, blocks: range
) -> dict[str, Any]:
    """Parameters: the memory of the tensors, and strides in bytes."""
    first, step = blocks.start, blocks.step
    offset = other.at.offset + first * other.plane_bytes
    return {
        "x": Ref(x.at.buffer, x.at.offset),
        "y": Ref(y.at.buffer, y.at.offset + first * y.plane_bytes, y.at.writes),
        "other": Ref(other.at.buffer, offset, writes=other is y),
        "weights": Ref(weights.at.buffer, weights.at.offset + first * weights.plane_bytes),
        "blocks": len(blocks),
        "x_batch": x.batch_bytes,
        "x_plane": x.plane_bytes,
        "y_batch": y.batch_bytes,
        "y_plane": y.plane_bytes * step,
        "other_batch": other.batch_bytes,
        "other_plane": other.plane_bytes * step,
        "weights_plane": weights.plane_bytes * step,
    }


def _units(pieces: Records | TracedArray, band: int, batch: int, blocks: range) -> list[OutputUnit]:
    """The outputs of all units, in the order of the kernel."""
    if isinstance(pieces, TracedArray):
        raise Untraceable("tile epilogues need the list of units, which depends on symbols")
    ends = np.concatenate(([0], np.cumsum(pieces[:, 0]))).tolist()
    count = len(pieces)
    return [
        OutputUnit(
            item, range(plane, plane + 1), range(ends[piece], ends[min(piece + band, count)])
        )
        for item in range(batch)
        for piece in range(0, count, band)
        for plane in blocks
    ]
