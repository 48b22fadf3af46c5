"""Maxima of cells of regions, as OpenVX pools them (`vxROIPoolingLayer`).

A region (x0, y0, x1, y1) includes its corners.  Cell i of n begins at floor(i extent / n) and ends
at ceil((i + 1) extent / n), exclusive, so cells may overlap.  A region whose end is before its
start has an extent of 1.  Cells without items are 0.
"""

from __future__ import annotations

import numpy as np

from nnefc.ir import DType, TensorType
from nnefc.ops.core import batch_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt, length, positive_items
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import OPAQUE
from nnefc.ops.core.value_text import listing


def _infer(call: Call) -> TensorType:
    size = positive_items(call, "output_size")
    length(call, "output_size", size, 2, "the spatial dimensions", optional=False)
    regions = attempt(lambda: call.dtype("regions"))
    if regions is not None:
        call.require(regions.is_integer, f"regions are integers, not {regions}")
    input, rows = call.shape("input"), call.shape("regions")
    call.require(
        len(input) == 4 and len(rows) == 3 and rows[0] == input[0] and rows[2] == 4,
        f"expected input [n, c, h, w] and regions [n, count, 4]: {listing(input)}, {listing(rows)}",
    )
    call.stop_if_wrong()
    return TensorType(call.dtype("input"), (*rows[:2], input[1], *call["output_size"]))


def region_max(
    input: Array, regions: Array, *, output_size: tuple[int, int], drops_outside: bool
) -> Array:
    """Maxima; with `drops_outside` a cell that begins at a negative coordinate is empty."""
    batch, maps, *sides = input.shape
    result = np.zeros((batch, regions.shape[1], maps, *output_size), input.dtype)
    for n, r in np.ndindex(*regions.shape[:2]):
        x0, y0, x1, y1 = map(int, regions[n, r])
        for cell in np.ndindex(*output_size):
            spans = [
                _span(start, end, i, count, side, drops_outside)
                for start, end, i, count, side in zip(
                    (y0, x0), (y1, x1), cell, output_size, sides, strict=True
                )
            ]
            items = input[(n, slice(None), *(slice(*span) for span in spans))]
            if items.size:
                result[(n, r, slice(None), *cell)] = items.reshape(maps, -1).max(axis=1)
    return result


def _span(
    start: int, end: int, i: int, count: int, side: int, drops_outside: bool
) -> tuple[int, int]:
    extent = max(end - start, 0) + 1
    begin, stop = start + i * extent // count, start - (-(i + 1) * extent // count)
    if drops_outside and begin < 0:
        return 0, 0
    return min(max(begin, 0), side), min(max(stop, 0), side)


def _sample(size: tuple[int, int], drops_outside: bool, dtype: DType) -> Sample:
    regions = [
        [[0, 0, 7, 6], [2, 1, 5, 3], [3, 3, 3, 3], [-2, -1, 4, 9]],
        [[5, 2, 1, 6], [20, 20, 30, 30], [0, 0, 0, 0], [-30, -9, -2, -1]],
    ]
    return Sample(
        inputs=((2, 3, 7, 8), (2, 4, 4)),
        values={1: regions},
        dtypes={1: dtype},
        attributes={"output_size": size, "drops_outside": drops_outside},
    )


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="region_max",
        signature="""
        fragment region_max(
            input: tensor<scalar>,
            regions: tensor<integer>,
            output_size: integer[],
            drops_outside: logical = false )
        -> ( output: tensor<scalar> )""",
        section="tract",
        summary="Maxima of cells of regions (x0, y0, x1, y1), corners included; "
        "[n, count, c, ...].",
        infer=_infer,
        reference=region_max,
        integers=True,
        traits=OPAQUE._replace(batch=batch_rules.every),
        samples=(
            _sample((2, 3), False, DType.INT32),
            _sample((2, 3), True, DType.INT16),
            _sample((7, 8), False, DType.INT8),
        ),
    ),
)
