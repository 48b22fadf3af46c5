"""The transformed filter of Winograd's method, as `nnefc.kernels.winograd` reads it.

The source is [outputs, inputs, rows, columns of taps].  Of each point of the grid there is a matrix
[inputs, outputs], whose columns are in panels: [points, panels, inputs, columns of a panel].

Parameters: the grid (rows, columns of points); inputs of an entry of the reduction, which zeros
fill up to whole entries, as they do outputs to whole panels; the panels ((columns, number), ...).

Computed in float64, rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.kernels.winograd_matrices import filter_matrix

if TYPE_CHECKING:
    from nnefc.packing import Parameters, Release

    Array = np.ndarray[Any, Any]


def permutes(_shape: tuple[int, ...], _parameters: Parameters) -> bool:
    """Never: items of the result are sums."""
    return False


def size(shape: tuple[int, ...], parameters: Parameters) -> int:
    """Items of the transformed filter."""
    grid, entry, panels = parameters
    depth = -(-shape[1] // entry) * entry
    return math.prod(grid) * depth * sum(width * count for width, count in panels)


def fill(source: Array, parameters: Parameters, packed: Array, _: Release | None) -> None:
    grid, entry, panels = parameters
    outputs, inputs = source.shape[:2]
    rows, columns = (
        np.array(filter_matrix(n, t), np.float64) if t > 1 else np.eye(n, 1)
        for n, t in zip(grid, source.shape[2:], strict=True)
    )
    depth = -(-inputs // entry) * entry
    element = np.zeros((depth, sum(width * count for width, count in panels)), np.float32)
    points = packed.reshape(math.prod(grid), -1)
    # [taps, taps, inputs, outputs]: turned once, the products come out as they are copied.
    # For so few taps starting the threads of a matrix product takes longer than the product.
    taps = source.transpose(2, 3, 1, 0).astype(np.float64, "C").reshape(rows.shape[1], -1)
    for i in range(grid[0]):
        down = np.einsum("t,tk->k", rows[i], taps).reshape(columns.shape[1], -1)
        across = np.einsum("jt,tk->jk", columns, down).reshape(-1, inputs, outputs)
        for j, values in enumerate(across):
            element[:inputs, :outputs] = values
            done = place = 0
            for width, count in panels:
                part = element[:, done : done + count * width].reshape(depth, count, width)
                target = points[i * grid[1] + j, place : place + part.size]
                target.reshape(count, depth, width)[...] = part.swapaxes(0, 1)
                done += count * width
                place += part.size
