"""Launches of kernels over pieces of planes, and how rows are cut into pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from nnefc.kernels.template import Kernel
from nnefc.kernels.tile.plane_pieces import FIELDS, PIECES
from nnefc.lower.blocked.tensors import Tensor
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.epilogue import OutputUnit, TileEpilogue
from nnefc.lower.partition import band_count, ceil_div, per_tile
from nnefc.program.program import Ref
from nnefc.symbolic.base import Untraceable
from nnefc.symbolic.integers import hint
from nnefc.symbolic.traced_array import TracedArray, length

Records = npt.NDArray[np.int32]

BAND_NS = 10_000
"""Work of a unit: planes are cut into bands only if they are worth more."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Memory [blocks, plane_bytes]; 0 bytes: all channel blocks have the same."""

    at: Ref
    plane_bytes: int


def piece_cost(heights: Iterable[int]) -> int:
    """What pieces cost: as many steps per tap as they have pixels, and some around them.

    Pieces of less than 4 wait for their sums.
    """
    return sum(max(h, 4) + 2 for h in heights)


LONG_ROW = 256
"""Pixels of a row from which on its first part is cut into pieces of the best height."""


@lru_cache(maxsize=256)
def split_width(width: int, heights: tuple[int, ...]) -> tuple[int, ...]:
    """Heights that add up to `width`, with the least work."""
    best = min(heights, key=lambda h: piece_cost((h,)) / h)
    whole = max(width - LONG_ROW, 0) // best
    rest = width - whole * best
    costs, firsts = [0], [0]
    for n in range(1, rest + 1):
        cost, first = min((costs[n - h] + piece_cost((h,)), h) for h in heights if h <= n)
        costs.append(cost)
        firsts.append(first)
    found: list[int] = []
    while rest:
        found.append(firsts[rest])
        rest -= firsts[rest]
    return (*found, *(best,) * whole)


def records(
    kind: Sequence[int] | npt.NDArray[np.int64],
    x: npt.NDArray[np.int64],
    y: npt.NDArray[np.int64],
    other: npt.NDArray[np.int64],
    first_tap: int | npt.NDArray[np.int64],
    taps: int | npt.NDArray[np.int64],
    number: float | npt.NDArray[np.float32] = 0.0,
) -> Records:
    """[pieces, FIELDS]; see `nnefc.kernels.tile.plane_pieces`."""
    table = np.empty((x.size, FIELDS), np.int32)
    for i, column in enumerate((kind, x, y, other, first_tap, taps)):
        table[:, i] = np.ravel(column)
    table[:, 6] = np.asarray(number, np.float32).view(np.int32)
    return table


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

    `plane_ns`: nanoseconds for all pieces of one plane, estimated.  `epilogue` needs pieces whose
    kind is their number of pixels, row by row; `columns` gives the positions of the pixels of a row
    if they are not computed from left to right.  `blocks`: the channel blocks of y, each computed
    from one block of x.
    """
    third, weights = other or y, weights or Weights(x.at, 0)
    blocks = range(y.blocks) if blocks is None else blocks
    first, every = blocks.start, blocks.step
    count, plane_ns = length(pieces), hint(plane_ns)
    least = band_count(hint(math.prod(y.spatial)), lower.threads)
    parts = min(max(round(plane_ns / BAND_NS / least), 1) * least, hint(count))
    band = ceil_div(count, parts)
    units = x.batch * len(blocks) * ceil_div(count, band)
    unit_block = per_tile(units, plane_ns / parts, lower.threads)
    words = PIECES.pack(
        x=Ref(x.at.buffer, x.at.offset),
        y=Ref(y.at.buffer, y.at.offset + first * y.plane_bytes, y.at.writes),
        other=Ref(third.at.buffer, third.at.offset + first * third.plane_bytes, third is y),
        weights=Ref(weights.at.buffer, weights.at.offset + first * weights.plane_bytes),
        pieces=lower.table(pieces),
        taps=lower.table(taps),
        blocks=len(blocks),
        x_batch=x.batch_bytes,
        x_plane=x.plane_bytes,
        y_batch=y.batch_bytes,
        y_plane=y.plane_bytes * every,
        other_batch=third.batch_bytes,
        other_plane=third.plane_bytes * every,
        weights_plane=weights.plane_bytes * every,
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
    grouped = [outputs[i : i + unit_block] for i in range(0, units, unit_block)]
    *rows, width = map(range, y.spatial)
    positions = [*rows, width if columns is None else columns()]
    epilogue.launch(lower, kernel, words, grouped, positions)


def _units(pieces: Records | TracedArray, band: int, batch: int, blocks: range) -> list[OutputUnit]:
    """The pixels of all bands, in the order of the units."""
    if isinstance(pieces, TracedArray):
        raise Untraceable("units that end in an expression are listed one by one")
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
