"""Tables of up-sampling and interpolation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType
from nnefc.kernels.window.upsample_table import COLUMN, ONE_ROW, TWO_ROWS
from nnefc.ops.core.window_arithmetic import Interpolation, interpolation
from nnefc.program.tables.plane_records import Records, bits_of, records
from nnefc.program.tables.planes import Plane
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.table_size import PYTHON_ITEM, check_items

Array = np.ndarray[Any, Any]


@traceable
def interpolation_points(
    extent: int, factor: int, method: str, border: str
) -> tuple[Array, Array, Array]:
    points = interpolation(extent, factor, method, border)
    return points.low, points.high, points.weight


@traceable
def repeated_rows(x: Plane, y: Plane, factors: tuple[int, ...]) -> tuple[Records]:
    check_items(PYTHON_ITEM, *y.spatial[:-1])
    for extents in zip(x.spatial, factors):
        check_items(*extents)
    sources = [np.arange(n * f) // f for n, f in zip(x.spatial, factors)]
    pieces = records(
        [ONE_ROW] * math.prod(y.spatial[:-1]),
        x.offsets(*sources, [0]).astype(np.int64),
        y.rows().astype(np.int64),
        np.zeros(1, np.int64),
        0,
        x.spatial[-1],
    )
    return (pieces,)


@traceable
def rows_between(
    x: Plane, y: Plane, weight: DType, factors: tuple[int, ...], method: str, border: str
) -> tuple[Records, npt.NDArray[np.int32]]:
    """(pieces, row by row; the table of `upsample.linear`); `weight`: type of the weights."""
    *rows, across = [
        interpolation(n, f, method, border) for n, f in zip(x.spatial, factors, strict=True)
    ]
    weights = rows[-1].weight if rows else np.zeros(1)
    pieces = pieces_of_rows(x, y, rows, weights, weight, y.spatial[-1])
    return pieces, _columns(across, x.pixel_bytes, weight)


def pieces_of_rows(
    x: Plane,
    y: Plane,
    rows: Sequence[Interpolation],
    weights: Array,
    weight: DType,
    extent: int,
) -> Records:
    """The rows of y, each between two rows of x, which `rows` tells for the dimension of height.

    `weights`: those of the second rows, or one 0 without height; stored in the type `weight`.
    `extent`: what a row has, pixels or runs of them.
    """
    low = [range(n) for n in x.spatial[:-2]] + [r.low for r in rows[-1:]]
    high = [range(n) for n in x.spatial[:-2]] + [r.high for r in rows[-1:]]
    count = math.prod(y.spatial[:-1])
    check_items(count)
    every = np.tile(weights, count // weights.size)
    return records(
        np.where(every == 0, ONE_ROW, TWO_ROWS),
        x.offsets(*low, [0]).astype(np.int64),
        y.rows().astype(np.int64),
        x.offsets(*high, [0]).astype(np.int64),
        0,
        extent,
        every.astype(weight.numpy),
    )


def _columns(across: Interpolation, pixel_bytes: int, weight: DType) -> npt.NDArray[np.int32]:
    """[outputs, COLUMN]: the table of `upsample.linear`."""
    table = np.empty((across.low.size, COLUMN), np.int32)
    table[:, 0] = across.low * pixel_bytes
    table[:, 1] = across.high * pixel_bytes
    table[:, 2] = bits_of(across.weight.astype(weight.numpy))
    return table
