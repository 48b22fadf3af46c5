"""Means of regions with a sample per item that a cell covers, as products with two matrices.

Bilinear samples on a grid are separable: the mean over a cell is a sum over items of weights of
rows times weights of columns.  Few samples are near an item, however large the region is.
"""

from __future__ import annotations

from typing import Final

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.ir import DType

_NEAR: Final = 6
"""Samples that may be near an item: they are more than half an item apart, unless there is one."""


def averaging_weights(
    make: OpBuilder, start: Operand, size: Operand, cells: int, extent: int
) -> tuple[Operand, Operand]:
    """Weights of items [n, cells, extent] in the sums over samples, and samples in a cell [n, 1].

    `start`, `size`: [n, 1], of the regions in units of items.  Samples farther than an item outside
    of the image are 0, nearer ones are those of its border.
    """
    count, dtype = start.type.dims[0], start.type.dtype
    bin_size = make("div", size, float(cells))
    number = make("ceil", bin_size)
    step = make.reshape(make("div", bin_size, make("max", number, 1.0)), (count, 1, 1))
    cell = make.cast(make.reshape(make.iota(cells), (1, cells, 1)), dtype)
    item = make.cast(make.reshape(make.iota(extent), (1, 1, extent)), dtype)
    begin, width, limit = (make.reshape(x, (count, 1, 1)) for x in (start, bin_size, number))
    first = make("add", begin, make("add", make("mul", width, cell), make("mul", step, 0.5)))
    reach = make("sub", make("sub", item, 1.0), first)
    spacing = make("max", step, 1e-30)
    nearest = make("max", make("sub", make("ceil", make("div", reach, spacing)), 1.0), 0.0)
    total: Operand | None = None
    for i in range(_NEAR):
        index = make("add", nearest, float(i))
        at = make("add", first, make("mul", index, step))
        is_inside = make("and", make("ge", at, -1.0), make("le", at, float(extent)))
        clamped = make("min", make("max", at, 0.0), float(extent - 1))
        weight = make("sub", 1.0, make("abs", make("sub", clamped, item)))
        is_used = make("and", is_inside, make("lt", index, limit))
        term = make("select", is_used, make("max", weight, 0.0), 0.0)
        total = term if total is None else make("add", total, term)
    assert total is not None
    return total, number


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
