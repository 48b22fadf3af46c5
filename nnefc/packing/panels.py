"""The columns of matrices [..., depth, count] in panels, as `nnefc.kernels.tile.panels` makes them.

Parameters: (parts, unit).  The columns, in whole units and filled up with zeros, are in `parts`
panels that differ by at most one unit, the wider ones first; a panel is [depth, its columns].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from nnefc.packing import Parameters, Release

    Array = np.ndarray[Any, Any]

CHUNK_BYTES: Final = 32 << 20
"""Of a matrix that is packed at a time: its pages may be let go then."""


def permutes(_shape: tuple[int, ...], _parameters: Parameters) -> bool:
    """Always."""
    return True


def size(shape: tuple[int, ...], parameters: Parameters) -> int:
    """Items of all panels."""
    *batch, depth, count = shape
    _, unit = parameters
    return math.prod(batch) * depth * -(-count // unit) * unit


def fill(source: Array, parameters: Parameters, packed: Array, release: Release | None) -> None:
    parts, unit = parameters
    *batch, depth, count = source.shape
    narrow, wider = divmod(-(-count // unit), parts)
    target = packed.reshape(*batch, -1)
    start = 0
    for width, number in ((narrow + 1, wider), (narrow, parts - wider)):
        columns = width * unit
        item_bytes = columns * depth * source.itemsize * math.prod(batch)
        step = max(CHUNK_BYTES // max(item_bytes, 1), 1)
        for first in range(0, number, step):
            end = start + min(step, number - first) * columns
            _fill(target[..., start * depth : end * depth], source[..., start:end], columns)
            start = end
            if release is not None:
                release()


def _fill(packed: Array, source: Array, columns: int) -> None:
    """Write the columns of [..., depth, count] as panels of so many; the last may lack some."""
    *batch, depth, count = source.shape
    target = np.moveaxis(packed.reshape(*batch, -1, depth, columns), -3, -2)
    whole = count // columns
    target[..., :whole, :] = source[..., : whole * columns].reshape(*batch, depth, whole, columns)
    if count > whole * columns:
        rest = count - whole * columns
        target[..., whole, :rest] = source[..., whole * columns :]
        target[..., whole, rest:] = 0
