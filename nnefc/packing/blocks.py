"""Rows of block-quantized weights as products read them: the columns of their transpose in panels.

The source is bytes, [columns, bytes of the blocks of a column], in a format of
`nnefc.support.block_formats`.  A panel is `lanes` columns, filled up with zeros; block after block
of the depth it has the scales of its columns, float16, and then the codes:

    q4_0, q4_0_legacy   [4, lanes] words of 32 bits, each with the codes of 8 consecutive rows, of
                        the first four in the lower 4 bits of its bytes, of others in the higher
    q8_1                [32, lanes] bytes, row by row

Parameters: (format, lanes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nnefc.support.block_formats import BLOCK_BYTES, BLOCK_ITEMS
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.packing import Parameters, Release

    Array = np.ndarray[Any, Any]

PACKED_BYTES: Final = {"q4_0": 18, "q4_0_legacy": 18, "q8_1": 34}
"""Of a packed block, by the name of the format."""
_CHUNK_BYTES: Final = 1 << 20
"""Of the source that is packed at a time: what is between stays in the cache."""


def permutes(_shape: tuple[int, ...], _parameters: Parameters) -> bool:
    """Never: the bytes of the result are not those of the source."""
    return False


def size(shape: tuple[int, ...], parameters: Parameters) -> int:
    """Bytes of all panels."""
    format, lanes = parameters
    columns, nbytes = shape
    blocks = nbytes // BLOCK_BYTES[format]
    return -(-columns // lanes) * lanes * blocks * PACKED_BYTES[format]


def fill(source: Array, parameters: Parameters, packed: Array, release: Release | None) -> None:
    """Raises NnefError if a scale is infinite: products take codes of both signs times it at once,
    where the sum of its items is NaN.
    """
    format, lanes = parameters
    columns, nbytes = source.shape
    blocks = nbytes // BLOCK_BYTES[format]
    panels = packed.reshape(-(-columns // lanes), blocks, PACKED_BYTES[format] * lanes)
    step = max(_CHUNK_BYTES // max(nbytes * lanes, 1), 1)
    for first in range(0, len(panels), step):
        part = panels[first : first + step]
        rows = np.zeros((len(part) * lanes, nbytes), np.uint8)
        given = source[first * lanes : (first + step) * lanes]
        rows[: len(given)] = given
        # [panels, blocks, lanes, bytes of a block]
        split = rows.reshape(len(part), lanes, blocks, -1).swapaxes(1, 2)
        scales = split[..., :2].reshape(len(part), blocks, 2 * lanes)
        if np.isinf(scales.view(np.float16)).any():
            what = f"weights {format} of shape [{columns},{blocks * BLOCK_ITEMS}]"
            message = f"{what} have a block with an infinite scale"
            raise NnefError.of("data/blocks", message, hint="quantize them again")
        part[..., : 2 * lanes] = scales
        codes = split[..., 4:].swapaxes(2, 3)
        if format != "q8_1":
            codes = _words(split[..., 2:], format)
        part[..., 2 * lanes :] = codes.reshape(len(part), blocks, -1)
        if release is not None:
            release()


def _words(pairs: Array, format: str) -> Array:
    """Codes of 4 bits, [..., lanes, 16], as the bytes of words of 8 codes, [..., 4, lanes, 4]."""
    low, high = pairs & 15, pairs >> 4
    codes = np.stack([low, high], -1) if format == "q4_0_legacy" else np.stack([low, high], -2)
    codes = codes.reshape(*pairs.shape[:-1], 4, 2, 4)
    return (codes[..., 0, :] | codes[..., 1, :] << 4).swapaxes(-3, -2)
