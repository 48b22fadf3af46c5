"""Tables of linear interpolation of codes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Shape
from nnefc.kernels.window.upsample_table import CODE_RUN
from nnefc.ops.core.window_arithmetic import Interpolation
from nnefc.ops.internal.code_resize import How, points, whole_weights
from nnefc.program.tables.plane_records import Records, bits_of
from nnefc.program.tables.planes import Plane
from nnefc.program.tables.upsampling import pieces_of_rows
from nnefc.symbolic.captured_values import traceable


@traceable
def code_rows_between(
    x: Plane,
    y: Plane,
    name: str,
    shape: Shape,
    sizes: Shape,
    how: How,
    numbers: tuple[float, ...],
    divides: bool,
) -> tuple[Records, npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """(pieces, row by row; the table of runs and weights; numbers) of `upsample.code_linear`.

    `name`: of the operation on reals.  `numbers`: zero point and ratio of
    scales, zero point of the results and their bounds.
    """
    *rows, across = points(name, shape, sizes, how)
    columns, across_whole = whole_weights(x.spatial[-1], across.weight)
    weights, down_whole = np.zeros(1), 1
    if rows:
        weights, down_whole = whole_weights(x.spatial[-2], rows[-1].weight)
    runs = _runs(x, across)
    pieces = pieces_of_rows(x, y, rows, weights, DType.FLOAT32, len(runs))
    table = np.concatenate([runs.ravel(), bits_of(columns.astype(np.float32))])
    whole = down_whole * across_whole
    zero, ratio, result_zero, low, high = numbers
    factor = ratio if divides else ratio / whole
    bounds = (result_zero, low - result_zero, high - result_zero)
    used = (down_whole, across_whole, zero * whole, factor, *bounds, whole)
    return pieces, table.astype(np.int32), np.array(used, np.float32)


def _runs(x: Plane, across: Interpolation) -> npt.NDArray[np.int64]:
    """[runs, CODE_RUN]: the runs of outputs between the same two pixels."""
    pairs = np.stack([across.low, across.high], 1)
    firsts = np.flatnonzero(np.r_[True, (pairs[1:] != pairs[:-1]).any(1)])
    ends = np.append(firsts[1:], len(pairs))
    runs = np.concatenate([pairs[firsts] * x.pixel_bytes, np.stack([firsts, ends], 1)], 1)
    assert runs.shape[1] == CODE_RUN
    return runs
