"""Transform and pack a filter for Winograd convolution (Lavin & Gray, 2015).

The result is read by `nnefc.kernels.convolution.winograd`.  The source is [outputs, inputs, rows,
columns of taps], or [outputs, inputs, planes, rows, columns]; the inputs of all planes are then
concatenated.  Each point of the grid has a matrix [inputs, outputs] whose columns are in panels:
[points, panels, inputs, columns of a panel].

Parameters: the grid (rows, columns of points); inputs of an entry of the reduction; the panels
((columns, number), ...).  Zeros pad the inputs of each plane to whole entries, and outputs to whole
panels.

The transform is computed in float64 and rounded once.

Kernels of codes multiply pairs of numbers of 16 bits.  They have a fourth parameter, the largest
tile: the transform has whole numbers for tiles up to that size, and the inputs of a pair are
neighbours, [points, panels, pairs of inputs, columns of a panel, 2].
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from nnefc.kernels.packing import Parameters, Release

    Array = np.ndarray[Any, Any]

_CHUNK: Final = 1 << 12
"""Pairs of an input and an output per step."""


def permutes(_shape: tuple[int, ...], _parameters: Parameters) -> bool:
    """False: items of the result are sums."""
    return False


def size(shape: tuple[int, ...], parameters: Parameters) -> int:
    """Items of the transformed filter."""
    grid, entry, panels = parameters[:3]
    depth = -(-shape[1] // entry) * entry * math.prod(shape[2:-2])
    return math.prod(grid) * depth * sum(width * count for width, count in panels)


def fill(source: Array, parameters: Parameters, packed: Array, _: Release | None) -> None:
    grid, entry, panels, *whole = parameters
    pair = 2 if whole else 1
    outputs, inputs = source.shape[:2]
    taps = source.shape[-2:]
    rows, columns = (_matrix(n, t, *whole) for n, t in zip(grid, taps, strict=True))
    filled = -(-inputs // entry) * entry
    planes = source.reshape(outputs, inputs, -1, *taps)
    depth = filled * planes.shape[2]
    points = packed.reshape(math.prod(grid), -1)
    # some inputs per step, so that temporaries stay in the cache and their memory is reused
    step = max(_CHUNK // outputs // pair, 1) * pair
    for plane, start in itertools.product(range(planes.shape[2]), range(0, filled, step)):
        count, first = min(step, filled - start), plane * filled + start
        element = np.zeros((count, sum(width * n for width, n in panels)), packed.dtype)
        # [taps, taps, inputs, outputs]: after one transpose, products have the order of the copy.
        # The products are so small that the BLAS of NumPy computes them without threads.
        weights = planes[:, start : start + count, plane].transpose(2, 3, 1, 0)
        weights = weights.astype(np.float64, "C")
        down = rows @ weights.reshape(rows.shape[1], -1)
        for i, row in enumerate(down):
            across = columns @ row.reshape(columns.shape[1], -1)
            for j, values in enumerate(across.reshape(grid[1], -1, outputs)):
                element[: len(values), :outputs] = values
                column = offset = 0
                for width, n in panels:
                    target = points[i * grid[1] + j, offset : offset + n * depth * width]
                    pairs = element[:, column : column + n * width]
                    pairs = pairs.reshape(count // pair, pair, n, width).transpose(2, 0, 3, 1)
                    of_pairs = target.reshape(n, depth // pair, width, pair)
                    of_pairs[:, first // pair : (first + count) // pair] = pairs
                    column += n * width
                    offset += target.size


def _matrix(points: int, taps: int, *largest: int) -> Array:
    """The matrix of a dimension, of whole numbers if the largest tile is given."""
    from nnefc.kernels.convolution.winograd_matrices import filter_matrix, whole_filter_matrix

    if taps == 1:
        return np.eye(points, 1)
    matrix = whole_filter_matrix(*largest, taps) if largest else filter_matrix(points, taps)
    return np.array(matrix[:points], np.float64)
