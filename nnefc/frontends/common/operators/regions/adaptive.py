"""Means and maxima of regions with a sample per item that a cell covers, by weights of the items.

Bilinear samples on a grid are separable: the mean over a cell is a sum over items of weights of
rows times weights of columns, and the largest weighted item is found along rows, then columns.
Few samples are near an item, however large the region is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Final, NamedTuple

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, operand
from nnefc.ir import DType

_NEAR: Final = 6
"""Samples that may be near an item: they are more than half an item apart, unless there is one."""


@dataclass(frozen=True, slots=True)
class _Samples:
    """The samples of n regions along an axis, divided into cells; each tensor has rank 3."""

    first: Operand
    """[n, cells, 1]: the first sample of each cell, in units of items."""
    step: Operand
    """[n, 1, 1]: the distance of samples."""
    number: Operand
    """[n, 1, 1]: samples in a cell."""
    item: Operand
    """[1, 1, extent]: 0, 1, ..."""
    extent: int

    def near(self, make: OpBuilder) -> Iterator[tuple[Operand, Operand]]:
        """Positions [n, cells, extent] of the samples near each item, and whether they exist.

        Samples beyond the border of the image are on it; those farther than an item do not count.
        """
        reach = make("sub", make("sub", self.item, 1.0), self.first)
        spacing = make("max", self.step, 1e-30)
        nearest = make("max", make("sub", make("ceil", make("div", reach, spacing)), 1.0), 0.0)
        for i in range(_NEAR):
            index = make("add", nearest, float(i))
            at = make("add", self.first, make("mul", index, self.step))
            is_inside = make("and", make("ge", at, -1.0), make("le", at, float(self.extent)))
            clamped = make("min", make("max", at, 0.0), float(self.extent - 1))
            yield clamped, make("and", is_inside, make("lt", index, self.number))


def _samples(make: OpBuilder, start: Operand, size: Operand, cells: int, extent: int) -> _Samples:
    """`start`, `size`: [n, 1], of the regions in units of items."""
    count, dtype = start.type.dims[0], start.type.dtype
    bin_size = make("div", size, float(cells))
    number = make("ceil", bin_size)
    step = make.reshape(make("div", bin_size, make("max", number, 1.0)), (count, 1, 1))
    cell = make.cast(make.reshape(make.iota(cells), (1, cells, 1)), dtype)
    item = make.cast(make.reshape(make.iota(extent), (1, 1, extent)), dtype)
    begin, width, limit = (make.reshape(x, (count, 1, 1)) for x in (start, bin_size, number))
    first = make("add", begin, make("add", make("mul", width, cell), make("mul", step, 0.5)))
    return _Samples(first, step, limit, item, extent)


def averaging_weights(
    make: OpBuilder, start: Operand, size: Operand, cells: int, extent: int
) -> tuple[Operand, Operand]:
    """Weights of items [n, cells, extent] in the sums over samples, and samples in a cell [n, 1].

    `start`, `size`: [n, 1], of the regions in units of items.  Samples farther than an item outside
    of the image are 0, nearer ones are those of its border.
    """
    samples = _samples(make, start, size, cells, extent)
    total: Operand | None = None
    for at, is_used in samples.near(make):
        weight = make("sub", 1.0, make("abs", make("sub", at, samples.item)))
        term = make("select", is_used, make("max", weight, 0.0), 0.0)
        total = term if total is None else make("add", total, term)
    assert total is not None
    return total, make.reshape(samples.number, (start.type.dims[0], 1))


class ExtremeWeights(NamedTuple):
    """The weights of items in the samples of cells, along one axis of n regions."""

    largest: Operand
    """[n, cells, extent]; -1 for items that no sample has."""
    smallest: Operand
    """[n, cells, extent]."""
    leaves: Operand
    """[n, cells]: whether a sample is farther than an item outside of the image, so 0."""
    exist: Operand
    """[n, 1]: whether the cells have samples."""


def extreme_weights(
    make: OpBuilder, start: Operand, size: Operand, cells: int, extent: int
) -> ExtremeWeights:
    """The extremes of the weights of items; arguments are those of `averaging_weights`.

    A sample has the items before and behind it, though the weight of the latter may be 0: that of
    item 1 is 0 in samples on the border.
    """
    samples = _samples(make, start, size, cells, extent)
    largest: Operand = make.cast(operand(-1.0), start.type.dtype)
    smallest: Operand = make.cast(operand(2.0), start.type.dtype)
    near = list(samples.near(make))
    if extent > 1:  # samples beyond the border are near item 0, not item 1
        on_border: list[Operand] = []
        for at, is_used in near:
            first = make("and", is_used, make("eq", at, 0.0))
            on_border.append(slice_in_dim(make, first, 2, 0, 1))
        is_second = make("eq", samples.item, 1.0)
        has_item = make("and", reduce(partial(make, "or"), on_border), is_second)
        zero = make.cast(operand(0.0), start.type.dtype)
        largest = make("select", has_item, zero, largest)
        smallest = make("select", has_item, zero, smallest)
    for at, is_used in near:
        before = make("floor", at)
        weight = make("sub", at, before)
        behind = make("min", make("add", before, 1.0), float(extent - 1))
        pairs = (before, make("sub", 1.0, weight)), (behind, weight)
        for items, weights in pairs:
            has_item = make("and", is_used, make("eq", items, samples.item))
            largest = make("max", largest, make("select", has_item, weights, -1.0))
            smallest = make("min", smallest, make("select", has_item, weights, 2.0))
    count = start.type.dims[0]
    more = make("sub", samples.number, 1.0)
    last = make("add", samples.first, make("mul", more, samples.step))
    leaves = make("or", make("lt", samples.first, -1.0), make("gt", last, float(extent)))
    exist = make.reshape(make("ge", samples.number, 1.0), (count, 1))
    return ExtremeWeights(largest, smallest, make.reshape(leaves, (count, cells)), exist)


def region_sums(
    make: OpBuilder, x: Operand, images: Operand, rows: Operand, columns: Operand
) -> Operand:
    """Weighted sums [n, c, h, w] of images x [b, c, height, width].

    `images` [n]: the image of each region; `rows` [n, h, height], `columns` [n, w, width].
    """
    batch, channels, height, width = x.type.dims
    count, down, _ = rows.type.dims
    across = columns.type.dims[1]
    flat = make.reshape(make.transpose(x, (0, 2, 3, 1)), (batch, height, width * channels))
    index = make.reshape(make.cast(images, DType.INT64), (count, 1))
    weights = [make.cast(each, x.type.dtype) for each in (rows, columns)]

    def turn(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        del before
        image = within("gather", whole[0], within.reshape(slices[0], (1,)), axis=0)
        lines = within("matmul", slices[1], image)
        lines = within.reshape(lines, (down, width, channels))
        return [], [within.reshape(within("matmul", slices[2], lines), (1, down, across, channels))]

    _, (sums,) = loop(make, count, [], [index, *weights], [flat], turn)
    return make.transpose(sums, (0, 3, 1, 2))


def region_maxima(
    make: OpBuilder, x: Operand, images: Operand, rows: ExtremeWeights, columns: ExtremeWeights
) -> Operand:
    """The largest weighted items [n, c, h, w] of images x [b, c, height, width].

    `images` [n]: the image of each region.  A sample outside of its image has the item 0, and so
    have cells without samples.
    """
    batch, channels, height, width = x.type.dims
    count, down, _ = rows.largest.type.dims
    across = columns.largest.type.dims[1]
    flat = make.reshape(make.transpose(x, (0, 2, 3, 1)), (batch, height, width * channels))
    scanned = [
        _per_row(make, make.reshape(make.cast(images, DType.INT64), (count, 1)), down),
        *(make.reshape(make.cast(each, x.type.dtype), (count * down, height)) for each in rows[:2]),
        *(_per_row(make, make.cast(each, x.type.dtype), down) for each in columns[:2]),
    ]

    def turn(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        del before
        image = within("gather", whole[0], within.reshape(slices[0], (1,)), axis=0)
        image = within.reshape(image, (height, width * channels))
        pair = [within.reshape(each, (height, 1)) for each in slices[1:3]]
        line = within("max_reduce", _weighted(within, image, *pair), axes=(0,))
        line = within.reshape(line, (1, width, channels))
        pair = [within.reshape(each, (across, width, 1)) for each in slices[3:]]
        cells = within("max_reduce", _weighted(within, line, *pair), axes=(1,))
        return [], [within.reshape(cells, (1, across, channels))]

    _, (largest,) = loop(make, count * down, [], scanned, [flat], turn)
    y = make.transpose(make.reshape(largest, (count, down, across, channels)), (0, 3, 1, 2))
    leaves = make("or", make.reshape(rows.leaves, (count, 1, down, 1)),
                  make.reshape(columns.leaves, (count, 1, 1, across)))  # fmt: skip
    exist = make.reshape(make("and", rows.exist, columns.exist), (count, 1, 1, 1))
    has_items = make("and", exist, make("gt", y, -math.inf))
    limited = make("select", leaves, make("max", y, 0.0), y)
    return make("select", has_items, limited, 0.0)


def _per_row(make: OpBuilder, x: Operand, down: int) -> Operand:
    """x [n, ...] repeated for the rows of cells: [n down, ...]."""
    count, *rest = x.type.dims
    repeated = make.repeated(make.reshape(x, (count, 1, *rest)), (count, down, *rest))
    return make.reshape(repeated, (count * down, *rest))


def _weighted(make: OpBuilder, x: Operand, largest: Operand, smallest: Operand) -> Operand:
    """The largest products of items and their weights; -inf for items without weights."""
    weight = make("select", make("ge", x, 0.0), largest, smallest)
    has_items = make("and", make("ge", largest, 0.0), make("gt", x, -math.inf))
    return make("select", has_items, make("mul", x, weight), -math.inf)
