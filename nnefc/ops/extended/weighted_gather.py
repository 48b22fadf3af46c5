"""weighted_gather: weighted sums of rows of a table, for the cells of regions of interest."""

from __future__ import annotations

import numpy as np

from nnefc.ir import DType, TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import length, positive
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import OPAQUE
from nnefc.ops.core.value_text import listing


def _weighted_gather(call: Call) -> TensorType:
    cells = positive(call, "cells")
    length(call, "cells", cells, 2, "the number of axes of a region", optional=False)
    table = call.shape("table")
    shapes = {name: call.shape(name) for name in ("rows", "columns")}
    call.require(
        len(table) == 2 and min(table) > 0,
        f"table must have rows of items: table.shape = {listing(table)}",
    )
    call.stop_if_wrong()
    for (name, shape), count in zip(shapes.items(), cells, strict=True):
        weights = call.shape(f"{name[:-1]}_weights")
        call.require(
            len(shape) == 2 and shape == weights and shape[0] == shapes["rows"][0],
            f"{name} and their weights must have the shape [regions, taps]: "
            f"{name}.shape = {listing(shape)}, weights {listing(weights)}",
        )
        call.require(call.dtype(name) is call.dtype("rows"), "rows and columns must be of one type")
        call.stop_if_wrong()
        call.require(
            shape[1] > 0 and shape[1] % count == 0,
            f"each cell must have as many taps: {name}.shape = {listing(shape)}, {count} cells",
        )
    call.stop_if_wrong()
    return TensorType(call.dtype("table"), (shapes["rows"][0], *cells, table[1]))


def weighted_gather(
    table: Array,
    rows: Array,
    row_weights: Array,
    columns: Array,
    column_weights: Array,
    *,
    cells: tuple[int, int],
) -> Array:
    """y[n, i, j]: the sum over the taps of cell (i, j) of weight * table[row + column].

    table: [extent, width]; rows and row_weights: [n, taps], equally many for each cell, and columns
    likewise.  Taps with the weight 0 do not count; positions are clamped to the table.
    """
    result: list[Array] = []
    for row, row_weight, column, column_weight in zip(
        rows, row_weights, columns, column_weights, strict=True
    ):
        at = np.clip(np.add.outer(row, column).astype(np.int64), 0, len(table) - 1)
        weight = np.multiply.outer(row_weight, column_weight)[..., None]
        with np.errstate(invalid="ignore"):
            terms = np.where(weight != 0, table[at] * weight, 0.0)
        shape = (cells[0], len(row) // cells[0], cells[1], len(column) // cells[1], -1)
        result.append(terms.reshape(shape).sum((1, 3)))
    return np.stack(result)


def _sample(
    extent: int,
    width: int,
    cells: tuple[int, int],
    rows: list[list[int]],
    columns: list[list[int]],
    zeros: bool = False,
) -> Sample:
    shapes = [(len(each), len(each[0])) for each in (rows, columns)]
    values = {1: rows, 3: columns}
    return Sample(
        inputs=((extent, width), shapes[0], shapes[0], shapes[1], shapes[1]),
        attributes={"cells": cells},
        values={**values, 2: [[0.0] * shapes[0][1]] * shapes[0][0]} if zeros else values,
        dtypes={1: DType.INT64, 3: DType.INT64},
        data="ties",
    )


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="weighted_gather",
        signature="""
        fragment weighted_gather(
            table: tensor<scalar>,
            rows: tensor<integer>,
            row_weights: tensor<scalar>,
            columns: tensor<integer>,
            column_weights: tensor<scalar>,
            cells: integer[] )
        -> ( output: tensor<scalar> )""",
        section="tract",
        summary="Weighted sums of rows of a table, whose numbers are those of rows plus columns.",
        infer=_weighted_gather,
        reference=weighted_gather,
        traits=OPAQUE,
        samples=(
            _sample(12, 5, (1, 2), [[0, 4]], [[0, 1, 2, 3]]),
            _sample(12, 3, (2, 1), [[0, 4], [8, 8]], [[0, 1, 3], [2, 2, 2]]),
            _sample(6, 4, (1, 1), [[-3, 2]], [[0, 1, 9]]),
            _sample(6, 4, (1, 1), [[0, 2]], [[0, 1]], zeros=True),
        ),
    ),
)
