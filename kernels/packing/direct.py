"""Pack the filter of a convolution for `nnefc.kernels.convolution.direct`.

The source is [groups, outputs, inputs, *taps].  An entry of the reduction is a fixed number of
consecutive inputs at one tap; the entries of all taps for the same inputs are consecutive, or those
of all inputs for the same tap.  Outputs are split into tiles, and entries into pieces whose weights
for a tile stay in the L1 cache:

    [groups, pieces, tiles, entries of a piece, inputs of an entry, outputs of a tile]

The array is flat, since the last piece may be shorter.  Zeros pad inputs and outputs.

Kernels that multiply words of codes (`nnefc.kernels.vector.dot_words`) read several consecutive
inputs of an output at once.  Plane p of a word has its inputs p, p + planes, ...:

    [.., entries of a piece, words of an entry, planes, outputs of a tile, inputs of a plane]

Parameters, in order:

- taps: the indices of each tap along the dimensions; if empty, the filter is one entry of zeros
- inputs of an entry
- outputs of a tile
- entries of a piece
- whether the entries of a tap are consecutive
- inputs of a word, which divide those of an entry, and planes of a word, which divide these
- optionally an exponent: items are multiplied with two to its power
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nnefc.kernels.packing import Parameters, Release

    Array = np.ndarray[Any, Any]


def entries(inputs: int, taps: int, step: int) -> int:
    """Entries of the reduction, each `step` inputs at one tap."""
    return -(-inputs // step) * taps if taps else 1


def permutes(shape: tuple[int, ...], parameters: Parameters) -> bool:
    """Whether the parameters list all taps, and no exponent."""
    taps = set(itertools.product(*map(range, shape[3:])))
    return set(parameters[0]) == taps and not any(parameters[7:])


def size(shape: tuple[int, ...], parameters: Parameters) -> int:
    """Items of the packed filter."""
    taps, step, width = parameters[:3]
    groups, outputs, inputs = shape[:3]
    return groups * entries(inputs, len(taps), step) * step * -(-outputs // width) * width


def fill(source: Array, parameters: Parameters, packed: Array, _: Release | None) -> None:
    taps, step, width, piece, by_taps, *word = parameters
    word, exponent = word[:2], sum(word[2:])
    groups, outputs, inputs = source.shape[:3]
    tiles = -(-outputs // width)
    steps = -(-inputs // step)
    depth = entries(inputs, len(taps), step)
    if not taps:
        packed[...] = 0
        return
    filled = inputs == steps * step and outputs == tiles * width
    # tile by tile, so that temporaries stay in the cache and their memory is reused
    outer = (len(taps), steps) if by_taps else (steps, len(taps))
    tile = (np.empty if filled else np.zeros)((*outer, step, width), source.dtype)
    entries_of_tile = tile.reshape(depth, step, width)
    # [steps, step, taps, width]
    flat = tile.transpose((1, 2, 0, 3) if by_taps else (0, 2, 1, 3))
    values = np.zeros((steps * step, width), source.dtype)
    for g in range(groups):
        pieces = list(_pieces(packed.reshape(groups, -1)[g], depth, piece, (tiles, step, width)))
        for t in range(tiles):
            outputs_of_tile = source[g, t * width : (t + 1) * width]
            count = len(outputs_of_tile)
            for j, indices in enumerate(taps):
                tap = outputs_of_tile[(slice(None), slice(None), *indices)].T
                if filled:
                    flat[:, :, j] = tap.reshape(steps, step, width)
                    continue
                values[:inputs, :count] = tap
                values[:, count:] = 0
                flat[:, :, j] = values.reshape(steps, step, width)
            for first, target in pieces:
                words = _by_words(entries_of_tile[first : first + piece], *word)
                target[t] = words * np.float32(2.0**exponent) if exponent else words


def _by_words(weights: Array, inputs: int, planes: int) -> Array:
    """[entries, step, width] with the inputs of each output of a plane of a word together."""
    entries, step, width = weights.shape
    if inputs == planes:
        return weights
    words = weights.reshape(entries, step // inputs, inputs // planes, planes, width)
    return words.transpose(0, 1, 3, 4, 2).reshape(weights.shape)


def _pieces(
    packed: Array, depth: int, piece: int, tile: tuple[int, int, int]
) -> Iterator[tuple[int, Array]]:
    """The first entry and the memory [tiles, entries, step, width] of each piece."""
    tiles, step, width = tile
    row = tiles * step * width
    for first in range(0, depth, piece):
        count = min(piece, depth - first)
        memory = packed[first * row : (first + count) * row]
        yield first, memory.reshape(tiles, count, step, width)
