"""The filter of a convolution as `nnefc.kernels.direct` reads it.

The source is [groups, outputs, inputs, *taps].  The reduction has entries, each some consecutive
inputs of one tap, all taps of an entry's inputs one after the other; outputs are in tiles, and
entries in pieces whose weights for a tile stay in the first cache:

    [groups, pieces, tiles, entries of a piece, inputs of an entry, outputs of a tile]

flat, since the last piece may be shorter.  Inputs and outputs that are not there are zeros.

Parameters: the taps, each as its numbers along the dimensions (without taps there is one entry of
zeros, so that there is a sum); inputs of an entry; outputs of a tile; entries of a piece.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nnefc.packing import Parameters, Release

    Array = np.ndarray[Any, Any]


def entries(inputs: int, taps: int, step: int) -> int:
    """Entries of the reduction: `step` inputs of a tap each."""
    return -(-inputs // step) * taps if taps else 1


def permutes(shape: tuple[int, ...], parameters: Parameters) -> bool:
    """Whether all taps are there."""
    return set(parameters[0]) == set(itertools.product(*map(range, shape[3:])))


def size(shape: tuple[int, ...], parameters: Parameters) -> int:
    """Items of the packed filter."""
    taps, step, width, _ = parameters
    groups, outputs, inputs = shape[:3]
    return groups * entries(inputs, len(taps), step) * step * -(-outputs // width) * width


def fill(source: Array, parameters: Parameters, packed: Array, _: Release | None) -> None:
    taps, step, width, piece = parameters
    groups, outputs, inputs = source.shape[:3]
    tiles = -(-outputs // width)
    steps = -(-inputs // step)
    depth = entries(inputs, len(taps), step)
    if not taps:
        packed[...] = 0
        return
    whole = (groups, steps, len(taps), step, tiles * width)
    filled = inputs == steps * step and outputs == tiles * width
    weights = (np.empty if filled else np.zeros)(whole, source.dtype)
    for j, place in enumerate(taps):
        tap = source[(slice(None), slice(None), slice(None), *place)].swapaxes(1, 2)
        if filled:
            weights[:, :, j] = tap.reshape(groups, steps, step, outputs)
            continue
        values = np.zeros((groups, steps * step, outputs), source.dtype)
        values[:, :inputs] = tap
        weights[:, :, j, :, :outputs] = values.reshape(groups, steps, step, outputs)
    split = weights.reshape(groups, depth, step, tiles, width).transpose(0, 3, 1, 2, 4)
    done = 0
    for group in split:
        for first in range(0, depth, piece):
            part = group[:, first : first + piece]
            packed[done : done + part.size].reshape(part.shape)[...] = part
            done += part.size
