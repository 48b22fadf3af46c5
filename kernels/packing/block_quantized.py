"""Pack block-quantized weights for products: the rows of the source become columns in panels.

The source is bytes, [columns, bytes of the blocks of a column], in a format of
`nnefc.support.block_formats`.  A panel has `lanes` columns, padded with zeros.  For each block
along the depth it has the scales of its columns, their zero points, if there are any, and the
codes:

    4 bits   [4, lanes] 32-bit words with the codes of 8 consecutive rows: the first four in the
             lower halves of the bytes, the others in the upper halves
    8 bits   [32, lanes] bytes, row by row

Parameters: (format, lanes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nnefc.support.block_formats import BLOCK_BYTES, BLOCK_FORMATS, BLOCK_ITEMS
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.kernels.packing import Parameters, Release

    Array = np.ndarray[Any, Any]

_CHUNK_BYTES: Final = 1 << 20
"""Bytes of the source per step, so that temporaries stay in the cache."""


def permutes(_shape: tuple[int, ...], _parameters: Parameters) -> bool:
    """False: codes are rearranged within bytes."""
    return False


def size(shape: tuple[int, ...], parameters: Parameters) -> int:
    """Bytes of all panels."""
    format, lanes = parameters
    columns, nbytes = shape
    blocks = nbytes // BLOCK_BYTES[format]
    return -(-columns // lanes) * lanes * blocks * BLOCK_FORMATS[format].packed_bytes


def fill(source: Array, parameters: Parameters, packed: Array, release: Release | None) -> None:
    """Pack all panels; raises NnefError `data/blocks` if a scale is infinite.

    Products multiply sums of codes by the scale.  An infinite scale would not give NaN, which is
    the sum of items of both signs.
    """
    format, lanes = parameters
    kind = BLOCK_FORMATS[format]
    columns, nbytes = source.shape
    blocks = nbytes // kind.nbytes
    panels = packed.reshape(-(-columns // lanes), blocks, kind.packed_bytes * lanes)
    scale, head = kind.scale_bytes, kind.packed_head
    step = max(_CHUNK_BYTES // max(nbytes * lanes, 1), 1)
    for first in range(0, len(panels), step):
        target = panels[first : first + step]
        rows = np.zeros((len(target) * lanes, nbytes), np.uint8)
        chunk = source[first * lanes : (first + step) * lanes]
        rows[: len(chunk)] = chunk
        # [panels, blocks, lanes, bytes of a block]
        split = rows.reshape(len(target), lanes, blocks, -1).swapaxes(1, 2)
        scales = split[..., :scale].reshape(len(target), blocks, scale * lanes)
        if np.isinf(scales.view(f"<f{scale}")).any():
            what = f"weights {format} of shape [{columns},{blocks * BLOCK_ITEMS}]"
            message = f"{what} have a block with an infinite scale"
            raise NnefError.of("data/blocks", message, hint="quantize them again")
        target[..., : scale * lanes] = scales
        if kind.has_zero:
            target[..., scale * lanes : head * lanes] = split[..., scale]
        stored = split[..., kind.codes_at :]
        codes = stored.swapaxes(2, 3) if kind.bits == 8 else _words(stored, format)
        target[..., head * lanes :] = codes.reshape(len(target), blocks, -1)
        if release is not None:
            release()


def _words(pairs: Array, format: str) -> Array:
    """The 4-bit codes in bytes [..., lanes, 16] as the bytes of words, [..., 4, lanes, 4]."""
    low, high = pairs & 15, pairs >> 4
    codes = np.stack([low, high], -1) if format == "q4_0_legacy" else np.stack([low, high], -2)
    codes = codes.reshape(*pairs.shape[:-1], 4, 2, 4)
    return (codes[..., 0, :] | codes[..., 1, :] << 4).swapaxes(-3, -2)
