"""Pack the columns of matrices [..., depth, count], in the format of `nnefc.kernels.tile.panels`.

Parameters: (panels, unit), or (panels, unit, word, planes), or those and an exponent.  The
columns, padded with zeros to whole units, are split into panels whose widths differ by at most one
unit, wider panels first; a panel is [depth, its columns].

Kernels that multiply words of codes (`nnefc.kernels.vector.dot_words`) read `word` consecutive rows
of a column at once.  The depth is padded with zeros to whole words, and a panel is

    [words, planes, its columns, rows of a plane]

where plane p of a word has its rows p, p + planes, ...  Items are multiplied with two to the power
of the exponent.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from nnefc.kernels.packing import Parameters, Release

    Array = np.ndarray[Any, Any]

CHUNK_BYTES: Final = 32 << 20
"""Bytes of the source per step; the caller may release its pages after each step."""


def permutes(_shape: tuple[int, ...], parameters: Parameters) -> bool:
    """Whether there is no exponent."""
    return not any(parameters[4:])


def size(shape: tuple[int, ...], parameters: Parameters) -> int:
    """Items of all panels."""
    *batch, depth, count = shape
    unit, word = parameters[1], _word(parameters)[0]
    return math.prod(batch) * -(-depth // word) * word * -(-count // unit) * unit


def _word(parameters: Parameters) -> Parameters:
    """(rows of a word, planes of a word, exponent)."""
    return (*parameters[2:], *(1, 1, 0)[len(parameters) - 2 :])


def fill(source: Array, parameters: Parameters, packed: Array, release: Release | None) -> None:
    panels, unit = parameters[:2]
    word, planes, exponent = _word(parameters)
    *batch, rows, count = source.shape
    depth = -(-rows // word) * word
    narrow, wider = divmod(-(-count // unit), panels)
    target = packed.reshape(*batch, -1)
    start = 0
    for width, number in ((narrow + 1, wider), (narrow, panels - wider)):
        columns = width * unit
        item_bytes = columns * depth * source.itemsize * math.prod(batch)
        step = max(CHUNK_BYTES // max(item_bytes, 1), 1)
        for first in range(0, number, step):
            end = start + min(step, number - first) * columns
            part, items = target[..., start * depth : end * depth], source[..., start:end]
            if word == 1 and not exponent:
                _fill(part, items, columns)
            else:
                _fill_words(part, items, columns, (word, planes, exponent))
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


def _fill_words(packed: Array, source: Array, columns: int, sizes: Parameters) -> None:
    """As `_fill`, by words; `sizes`: rows and planes of a word, and an exponent."""
    word, planes, exponent = sizes
    factor = np.float32(2.0**exponent)
    *batch, depth, count = source.shape
    target = packed.reshape(*batch, -1, -(-depth // word), planes, columns, word // planes)
    for first in range(0, target.shape[-5] * columns, columns):
        some = min(columns, count - first)
        panel = target[..., first // columns, :, :, :, :]
        for i in range(word):
            rows = source[..., i::word, first : first + some]
            items = panel[..., i % planes, :, i // planes]
            items[..., : rows.shape[-2], :some] = rows * factor if exponent else rows
            items[..., rows.shape[-2] :, :some] = 0
            items[..., some:] = 0
