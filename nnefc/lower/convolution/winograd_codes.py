"""Lowering of exact Winograd convolution of codes.

Elements are int16, and sums are known modulo 2^32 times a number; see
`nnefc.kernels.convolution.winograd_results`.

Transforms of windows of many taps would not fit into 16 bits, so windows are cut into pieces, whose
products are summed before the inverse transform.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType
from nnefc.kernels.convolution.winograd_matrices import inverse_and_shift
from nnefc.kernels.convolution.winograd_transforms import WHOLE
from nnefc.kernels.target.isa import host
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.code_convolution import CodeConvolution
from nnefc.lower.convolution.winograd import launch_winograd, tiling_of
from nnefc.lower.convolution.winograd_parameters import (
    WinogradConvolution,
    by_blocks,
    piece_offsets,
    planes_of,
    rows_and_columns,
)
from nnefc.ops.core.winograd_tiles import code_pieces, piece_taps

Array = npt.NDArray[Any]


def lower_winograd_codes(lower: Lowering, conv: CodeConvolution, most: int) -> None:
    """A convolution of one group by tiles of at most `most` outputs along a dimension."""
    x, window = conv.x, conv.window
    assert conv.groups == 1 and x.layout.block == conv.y.layout.block
    assert x.layout.fill == conv.x_zero or not any(map(any, window.reach()))
    whole = planes_of(window.size), *rows_and_columns(window.size, 1)
    taps = rows_and_columns(code_pieces(window.size[-2:]), 1)
    (weights,) = conv.filter if len(conv.digits) == 1 else conv.weights.astype(np.int16)
    pieces, filter_ = _cut(weights.reshape(*weights.shape[:2], *whole), taps)
    launch_winograd(
        lower,
        WinogradConvolution(
            x=x,
            y=conv.y,
            residual=conv.residual,
            element=DType(WHOLE),
            largest=most,
            ending=conv.ending,
            tile_epilogue=None,
            window=window,
            tiling=tiling_of(window, taps, most),
            filter=filter_,
            pieces=piece_offsets(x, window, pieces),
            bias=_records(conv, most, taps),
            bounds=conv.bounds,
            parts=1,
            items=1,
        ),
    )


def _cut(weights: Array, taps: tuple[int, int]) -> tuple[list[tuple[int, int, int]], Array]:
    """(plane, row and column of the first taps of pieces, their weights).

    `weights`: [outputs, inputs, planes, rows, columns], as the result [.., pieces, *taps].
    """
    rows, columns = (piece_taps(n, t) for n, t in zip(weights.shape[3:], taps, strict=True))
    pieces = [
        (plane, *each) for plane in range(weights.shape[2]) for each in product(rows, columns)
    ]
    cut = np.zeros((*weights.shape[:2], len(pieces), *taps), weights.dtype)
    for i, (plane, (row, below), (column, right)) in enumerate(pieces):
        own = weights[:, :, plane, below.start : below.stop, right.start : right.stop]
        cut[:, :, i, below.start - row :, right.start - column :] = own
    return [(plane, row, column) for plane, (row, _), (column, _) in pieces], cut


def _records(conv: CodeConvolution, most: int, taps: tuple[int, int]) -> Array:
    """int32 [blocks, rows, lanes]: the records of `CodeResults`."""
    codes = np.iinfo(host().codes)
    weights = conv.weights.reshape(conv.bias.size, -1).astype(np.int64)
    lowest = np.minimum(weights * codes.min, weights * codes.max).sum(1)
    _, shift = inverse_and_shift(most, taps)
    assert (np.abs(weights).sum(1) * (codes.max - codes.min) < 1 << 32 - shift).all()
    before = -lowest << shift
    after = lowest + conv.bias - conv.x_zero * weights.sum(1)
    rows = [x.astype(np.int32) for x in (before, after)]
    return by_blocks(conv.y, np.stack([*rows, *(term.view(np.int32) for term in conv.terms)]))
