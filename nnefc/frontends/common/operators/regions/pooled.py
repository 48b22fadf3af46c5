"""Pooling of regions of interest.

Means of samples are weighted sums of items (`weighted_gather`).  Maxima are pooled in a loop: the
samples of one region fit into a cache, those of all need not fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from nnefc.frontends.common.counted_tensors import filled
from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_shape
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.regions.adaptive import (
    averaging_weights,
    extreme_weights,
    region_maxima,
    region_sums,
)
from nnefc.frontends.common.values import EmptyTensor, KnownTensor, Operand, OperatorError, operand
from nnefc.ir import DType, TensorType


def roi_align(
    make: OpBuilder,
    X: Operand,
    rois: Operand,
    batch_indices: Operand,
    *,
    coordinate_transformation_mode: str,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
) -> Operand:
    """Means or maxima of interpolated samples in the cells of regions (x0, y0, x1, y1).

    Without a `sampling_ratio`, a cell has a sample per item that it covers.  Coordinates are
    `half_pixel`, or `output_half_pixel`, where regions have an extent of 1 at least.  Raises
    OperatorError.
    """
    batch, channels, height, width = of_rank("roi_align", "X", X, 4)
    count = _count_of_regions("roi_align", rois, 4)
    of_shape("roi_align", "batch_indices", batch_indices, (count,))
    modes = ("half_pixel", "output_half_pixel")
    if mode not in ("avg", "max") or coordinate_transformation_mode not in modes:
        message = f"mode = '{mode}', coordinate_transformation_mode = "
        message += f"'{coordinate_transformation_mode}'"
        raise OperatorError("argument/roi_align", message, f"use avg or max, {' or '.join(modes)}")
    if count == 0 or channels == 0:
        return EmptyTensor(TensorType(X.type.dtype, (count, channels, output_height, output_width)))
    is_whole = coordinate_transformation_mode == "half_pixel"
    corners = _corners(make, rois, 0, spatial_scale, 0.5 if is_whole else 0.0)
    ratio = max(sampling_ratio, 0)
    if not ratio:
        shape = output_height, output_width
        pool = _adaptive_means if mode == "avg" else _adaptive_maxima
        return pool(make, X, batch_indices, corners, shape, is_whole)
    rows = _samples(make, corners[1], corners[3], output_height, height, ratio, is_whole)
    columns = _samples(make, corners[0], corners[2], output_width, width, ratio, is_whole)
    items = make.reshape(make.transpose(X, (0, 2, 3, 1)), (batch * height * width, channels))
    tops = KnownTensor(np.arange(batch, dtype=np.int64) * height, DType.INT64)
    first = make.reshape(make("gather", tops, batch_indices, axis=0), (count, 1))
    pool = _maxima if mode == "max" else _means
    return pool(make, items, first, rows, columns, width)


def _adaptive_means(
    make: OpBuilder,
    x: Operand,
    images: Operand,
    corners: Sequence[Operand],
    cells: tuple[int, int],
    is_whole: bool,
) -> Operand:
    """The means of the cells of regions with a sample per item."""
    weights: list[Operand] = []
    counts: list[Operand] = []
    for start, size, parts, extent in _axes(make, x, corners, cells, is_whole):
        weight, number = averaging_weights(make, start, size, parts, extent)
        weights.append(weight)
        counts.append(number)
    sums = region_sums(make, x, images, *weights)
    number = make("max", make("mul", *counts), 1.0)
    shape = (images.type.volume, 1, 1, 1)
    return make("div", sums, make.cast(make.reshape(number, shape), x.type.dtype))


def _adaptive_maxima(
    make: OpBuilder,
    x: Operand,
    images: Operand,
    corners: Sequence[Operand],
    cells: tuple[int, int],
    is_whole: bool,
) -> Operand:
    """The maxima of the cells of regions with a sample per item."""
    rows, columns = (
        extreme_weights(make, start, size, parts, extent)
        for start, size, parts, extent in _axes(make, x, corners, cells, is_whole)
    )
    return region_maxima(make, x, images, rows, columns)


def _axes(
    make: OpBuilder,
    x: Operand,
    corners: Sequence[Operand],
    cells: tuple[int, int],
    is_whole: bool,
) -> Iterator[tuple[Operand, Operand, int, int]]:
    """Start and size of the regions, cells, and extent of `x` along rows, then along columns."""
    ends = ((corners[1], corners[3]), (corners[0], corners[2]))
    for (start, end), parts, extent in zip(ends, cells, x.type.dims[2:], strict=True):
        yield start, _size(make, start, end, parts, is_whole), parts, extent


def _size(make: OpBuilder, start: Operand, end: Operand, cells: int, is_whole: bool) -> Operand:
    """The extents of regions, [n, 1]; raises OperatorError."""
    if cells < 1:
        raise OperatorError("argument/roi_align", f"{cells} is no extent of a result")
    size = make("sub", end, start)
    return size if is_whole else make("max", size, 1.0)


def _count_of_regions(what: str, rois: Operand, width: int) -> int:
    """The number of regions, each with `width` numbers; raises OperatorError."""
    count, numbers = of_rank(what, "rois", rois, 2)
    if numbers != width:
        message = f"rois has shape {list(rois.type.dims)}, not [n, {width}]"
        raise OperatorError(f"argument/{what}", message)
    return count


def _corners(
    make: OpBuilder, rois: Operand, first: int, scale: float, offset: float
) -> list[Operand]:
    """Columns x0, y0, x1, y1 of the regions in units of items, each [n, 1], from column `first`."""
    dtype = rois.type.dtype if rois.type.dtype is DType.FLOAT64 else DType.FLOAT32
    x = make("sub", make("mul", make.cast(rois, dtype), scale), offset)
    return [slice_in_dim(make, x, 1, first + i, first + i + 1) for i in range(4)]


@dataclass(frozen=True, slots=True)
class _Samples:
    """Samples of each region along an axis; S is the number of cells times `per_cell`."""

    cells: int
    per_cell: int
    indices: tuple[Operand, Operand]
    """[n, S]: the items before and behind each sample."""
    weights: tuple[Operand, Operand]
    """[n, S]: their weights; 0 for samples outside of the input."""


def _samples(
    make: OpBuilder,
    start: Operand,
    end: Operand,
    cells: int,
    extent: int,
    ratio: int,
    is_whole: bool,
) -> _Samples:
    """`ratio`: the samples per cell."""
    dtype = start.type.dtype
    bin_size = make("div", _size(make, start, end, cells, is_whole), float(cells))
    index = make.reshape(make.iota(cells * ratio), (1, cells * ratio))
    cell, within = (make.cast(make(name, index, ratio), dtype) for name in ("div", "remainder"))
    steps = make("add", cell, make("div", make("add", within, 0.5), float(ratio)))
    at = make("add", start, make("mul", bin_size, steps))
    is_inside = make("and", make("ge", at, -1.0), make("le", at, float(extent)))
    at = make("min", make("max", at, 0.0), float(extent - 1))
    low = make("floor", at)
    behind = make("sub", at, low)
    lower = make.cast(low, DType.INT64)
    weights = make("add", make("neg", behind), 1.0), behind
    return _Samples(
        cells,
        ratio,
        (lower, make("min", make("add", lower, 1), extent - 1)),
        (make("select", is_inside, weights[0], 0.0), make("select", is_inside, weights[1], 0.0)),
    )


def _means(
    make: OpBuilder, items: Operand, first: Operand, rows: _Samples, columns: _Samples, width: int
) -> Operand:
    """The means of the samples of each cell, [n, channels, rows, columns].

    `items`: [all, channels]; `first`: [n, 1], the number of the first row of the image of each
    region.
    """
    where = [make("mul", make("add", first, each), width) for each in rows.indices]
    taps: list[Operand] = []
    for pair in (where, rows.weights, columns.indices, columns.weights):
        count, number = pair[0].type.dims
        both = [make.reshape(each, (count, number, 1)) for each in pair]
        taps.append(make.reshape(make("concat", both, axis=2), (count, 2 * number)))
    taps[1], taps[3] = (make.cast(each, items.type.dtype) for each in (taps[1], taps[3]))
    # regions that are not valid have no weights
    taps[1] = filled(make, make("mul", taps[1], 1 / (rows.per_cell * columns.per_cell)), 0)
    sums = make("weighted_gather", items, *taps, cells=(rows.cells, columns.cells))
    return make.transpose(sums, (0, 3, 1, 2))


def _maxima(
    make: OpBuilder, items: Operand, first: Operand, rows: _Samples, columns: _Samples, width: int
) -> Operand:
    """The maxima of the samples of each cell; as `_means`."""
    count, channels = first.type.dims[0], items.type.dims[1]
    grid = (rows.cells, rows.per_cell, columns.cells, columns.per_cell)
    dtype = items.type.dtype
    scanned = [make("mul", make("add", first, each), width) for each in rows.indices]
    scanned += columns.indices
    scanned += [make.cast(each, dtype) for each in (*rows.weights, *columns.weights)]

    def turn(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        del before
        result: Operand | None = None
        for i, j in product(range(2), range(2)):
            where = _outer(within, "add", slices[i], slices[2 + j])
            weight = _outer(within, "mul", slices[4 + i], slices[6 + j])
            where = within.reshape(where, (math.prod(grid),))
            weight = within.reshape(weight, (math.prod(grid), 1))
            term = within("mul", within("gather", whole[0], where, axis=0), weight)
            # as in onnxruntime, a maximum is that of the weighted items
            result = term if result is None else within("max", result, term)
        assert result is not None
        cells = within("max_reduce", within.reshape(result, (*grid, channels)), axes=(1, 3))
        return [], [within.reshape(cells, (1, grid[0], grid[2], channels))]

    _, (pooled,) = loop(make, count, [], scanned, [items], turn)
    return make.transpose(pooled, (0, 3, 1, 2))


def _outer(make: OpBuilder, name: str, x: Operand, y: Operand) -> Operand:
    """An operation on all pairs of items of x [n, a] and y [n, b], as [n, a, b]."""
    count, width = y.type.dims
    return make(name, make.reshape(x, (*x.type.dims, 1)), make.reshape(y, (count, 1, width)))


# -- maxima of items


def max_roi_pool(
    make: OpBuilder,
    X: Operand,
    rois: Operand,
    pooled_shape: Sequence[int],
    spatial_scale: float,
) -> Operand:
    """Maxima of the items in the cells of regions (image, x0, y0, x1, y1); 0 for empty cells."""
    _, channels, height, width = of_rank("max_roi_pool", "X", X, 4)
    count = _count_of_regions("max_roi_pool", rois, 5)
    if len(pooled_shape) != 2 or min(pooled_shape) < 1:
        raise OperatorError("argument/max_roi_pool", f"pooled_shape = {list(pooled_shape)}")
    if count == 0 or channels == 0:
        return EmptyTensor(TensorType(X.type.dtype, (count, channels, *pooled_shape)))
    x0, y0, x1, y1 = _corners(make, rois, 1, spatial_scale, 0.0)
    image = make.cast(slice_in_dim(make, rois, 1, 0, 1), DType.INT64)
    rows = _covered(make, y0, y1, pooled_shape[0], height)
    columns = _covered(make, x0, x1, pooled_shape[1], width)
    lowest = make.cast(operand(-math.inf), X.type.dtype)

    def turn(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        del before
        x = within("gather", whole[0], within.reshape(slices[0], (1,)), axis=0)
        x = within.reshape(x, (channels, 1, height, width))
        of_row = within.reshape(slices[1], (1, pooled_shape[0], height, 1))
        x = within("max_reduce", within("select", of_row, x, lowest), axes=(2,))
        of_column = within.reshape(slices[2], (1, 1, pooled_shape[1], width))
        x = within("max_reduce", within("select", of_column, x, lowest), axes=(3,))
        return [], [within.reshape(x, (1, channels, *pooled_shape))]

    _, (y,) = loop(make, count, [], [image, rows, columns], [X], turn)
    has_items = make(
        "and",
        make("any_reduce", make.reshape(rows, (count, 1, pooled_shape[0], 1, height)), axes=(4,)),
        make("any_reduce", make.reshape(columns, (count, 1, 1, pooled_shape[1], width)), axes=(4,)),
    )
    return make("select", make.reshape(has_items, (count, 1, *pooled_shape)), y, 0.0)


def mean_roi_pool(
    make: OpBuilder,
    X: Operand,
    rois: Operand,
    pooled_shape: Sequence[int],
    spatial_scale: float,
) -> Operand:
    """Means of the items in the cells of regions (image, x0, y0, x1, y1); 0 for empty cells.

    A cell ends before the item at its end, and before the last item of a row or column, as in
    torchvision.
    """
    _, channels, height, width = of_rank("mean_roi_pool", "X", X, 4)
    count = _count_of_regions("mean_roi_pool", rois, 5)
    if len(pooled_shape) != 2 or min(pooled_shape) < 1:
        raise OperatorError("argument/mean_roi_pool", f"pooled_shape = {list(pooled_shape)}")
    if count == 0 or channels == 0:
        return EmptyTensor(TensorType(X.type.dtype, (count, channels, *pooled_shape)))
    x0, y0, x1, y1 = _corners(make, rois, 1, spatial_scale, 0.0)
    images = make.reshape(slice_in_dim(make, rois, 1, 0, 1), (count,))
    weights: list[Operand] = []
    numbers: list[Operand] = []
    for (start, end), parts, extent in zip(
        ((y0, y1), (x0, x1)), pooled_shape, (height, width), strict=True
    ):
        covered = _covered(make, start, end, parts, extent, last=extent - 1, more=0.0)
        weight = make.cast(covered, X.type.dtype)
        weights.append(weight)
        number = make("sum_reduce", weight, axes=(2,))
        shape = (parts, 1) if not numbers else (1, parts)
        numbers.append(make.reshape(number, (count, 1, *shape)))
    sums = region_sums(make, X, images, *weights)
    return make("div", sums, make("max", make("mul", *numbers), 1.0))


def _covered(
    make: OpBuilder,
    start: Operand,
    end: Operand,
    cells: int,
    extent: int,
    *,
    last: int | None = None,
    more: float = 1.0,
) -> Operand:
    """Which items [n, cells, extent] lie in the cells of regions.

    `more`: what the bounds of a region have in addition to their difference, 1 if both are
    included.  `last`: no item from there on does.
    """
    count = start.type.dims[0]
    first, final = _rounded(make, start), _rounded(make, end)
    size = make("max", make("add", make("sub", final, first), more), 1.0)
    bin_size = make("div", size, float(cells))
    cell = make.cast(make.reshape(make.iota(cells), (1, cells)), start.type.dtype)
    low = make("add", first, make("floor", make("mul", bin_size, cell)))
    high = make("add", first, make("ceil", make("mul", bin_size, make("add", cell, 1.0))))
    item = make.cast(make.reshape(make.iota(extent), (1, 1, extent)), start.type.dtype)
    low, high = (make.reshape(x, (count, cells, 1)) for x in (low, high))
    if last is not None:
        high = make("min", high, float(last))
    return make("and", make("ge", item, low), make("lt", item, high))


def _rounded(make: OpBuilder, x: Operand) -> Operand:
    """Whole numbers; halves are rounded away from 0."""
    return make("mul", make("sign", x), make("floor", make("add", make("abs", x), 0.5)))
