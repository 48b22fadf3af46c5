"""Pack the columns of matrices [..., depth, count], in the format of `nnefc.kernels.tile.panels`.

Parameters: (panels, unit).  The columns, padded with zeros to whole units, are split into panels
whose widths differ by at most one unit, wider panels first; a panel is [depth, its columns].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from nnefc.packing import Parameters, Release

    Array = np.ndarray[Any, Any]

CHUNK_BYTES: Final = 32 << 20
"""Bytes of the source per step; the caller may release its pages after each step."""


def permutes(_shape: tuple[int, ...], _parameters: Parameters) -> bool:
    """True."""
    return True


def size(shape: tuple[int, ...], parameters: Parameters) -> int:
    """Items of all panels."""
    *batch, depth, count = shape
    _, unit = parameters
    return math.prod(batch) * depth * -(-count // unit) * unit


def fill(source: Array, parameters: Parameters, packed: Array, release: Release | None) -> None:
    panels, unit = parameters
    *batch, depth, count = source.shape
    narrow, wider = divmod(-(-count // unit), panels)
    target = packed.reshape(*batch, -1)
    start = 0
    for width, number in ((narrow + 1, wider), (narrow, panels - wider)):
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
    """Write panels of equal width, `columns`; the last one is padded with zeros."""
    *batch, depth, count = source.shape
    target = np.moveaxis(packed.reshape(*batch, -1, depth, columns), -3, -2)
    whole = count // columns
    target[..., :whole, :] = source[..., : whole * columns].reshape(*batch, depth, whole, columns)
    if count > whole * columns:
        rest = count - whole * columns
        target[..., whole, :rest] = source[..., whole * columns :]
        target[..., whole, rest:] = 0
