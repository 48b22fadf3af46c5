"""Pack block-quantized weights for products whose depth is the rows of the source.

The source is bytes, [depth, bytes of the blocks of a row], in a format of
`nnefc.support.block_formats`.  A panel has `lanes` columns, which are a part of a block of each
row.  For every 32 rows it has their scales, what their zero points add, (m - zero) scale with the
middle code m, if there are zero points, both float32, and codes as in `packing.block_quantized`.

Parameters: (format, lanes).  The depth is a multiple of 32, and 32 of `lanes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.support.block_formats import BLOCK_FORMATS, BLOCK_ITEMS, BlockFormat

if TYPE_CHECKING:
    from nnefc.kernels.packing import Parameters, Release

    Array = np.ndarray[Any, Any]


def across_name(format: str) -> str:
    """The name of the packed form of a format."""
    kind = BLOCK_FORMATS[format]
    return f"q{kind.bits}_across" + "_zero" * kind.has_zero


def permutes(_shape: tuple[int, ...], _parameters: Parameters) -> bool:
    """False: codes are rearranged within bytes."""
    return False


def size(shape: tuple[int, ...], parameters: Parameters) -> int:
    """Bytes of all panels."""
    format, lanes = parameters
    kind, (depth, nbytes) = BLOCK_FORMATS[format], shape
    panels = nbytes // kind.nbytes * (BLOCK_ITEMS // lanes)
    return panels * (depth // BLOCK_ITEMS) * _block_bytes(kind, lanes)


def fill(source: Array, parameters: Parameters, packed: Array, release: Release | None) -> None:
    """Pack all panels."""
    format, lanes = parameters
    kind, (depth, nbytes) = BLOCK_FORMATS[format], source.shape
    groups, blocks, parts = depth // BLOCK_ITEMS, nbytes // kind.nbytes, BLOCK_ITEMS // lanes
    panels = packed.reshape(blocks, parts, groups, _block_bytes(kind, lanes))
    for group in range(groups):
        rows = source[group * BLOCK_ITEMS : (group + 1) * BLOCK_ITEMS]
        split = np.ascontiguousarray(rows).reshape(BLOCK_ITEMS, blocks, -1)
        scales = np.ascontiguousarray(split[..., : kind.scale_bytes]).view(f"<f{kind.scale_bytes}")
        numbers = [scales[..., 0].astype("<f4")]
        if kind.has_zero:
            zeros = split[..., kind.scale_bytes]
            less = zeros.view(np.int8).astype(np.float32) - (0 if kind.bits == 8 else 8)
            numbers.append(-less * numbers[0])
        # [blocks, 1, bytes of the numbers of all rows]
        head = np.ascontiguousarray(np.concatenate([x.T for x in numbers], 1)).view(np.uint8)[
            :, None
        ]
        panels[:, :, group, : head.shape[-1]] = head
        codes = _codes(split[..., kind.codes_at :], format).reshape(BLOCK_ITEMS, blocks, parts, -1)
        panels[:, :, group, head.shape[-1] :] = _arranged(codes, kind).reshape(blocks, parts, -1)
        if release is not None:
            release()


def _block_bytes(kind: BlockFormat, lanes: int) -> int:
    return 4 * BLOCK_ITEMS * (1 + kind.has_zero) + kind.code_bytes * lanes


def _codes(stored: Array, format: str) -> Array:
    """The codes of blocks, one in a byte, [..., 32]."""
    if BLOCK_FORMATS[format].bits == 8:
        return stored
    pairs = stored & 15, stored >> 4
    if format == "q4_0_legacy":
        return np.stack(pairs, -1).reshape(*stored.shape[:-1], -1)
    return np.concatenate(pairs, -1)


def _arranged(codes: Array, kind: BlockFormat) -> Array:
    """Codes [32, blocks, parts, lanes] in the order of panels, [blocks, parts, ...]."""
    rows = np.moveaxis(codes, 0, 2)
    if kind.bits == 8:
        return rows
    words = rows.reshape(*rows.shape[:2], 4, 2, 4, rows.shape[-1])
    return (words[:, :, :, 0] | words[:, :, :, 1] << 4).swapaxes(-1, -2)
