"""Embeddings of bags of rows, and images of blocks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.regions.blocks import blocks_of_images, sum_of_blocks
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.torch.item_types import filled_tuple, tensor
from nnefc.frontends.torch.operators.indexing import index_add, index_reduce
from nnefc.frontends.torch.operators.movement import filled
from nnefc.frontends.torch.registry import Integers, operator
from nnefc.ir import DType

# -- embeddings


class _Bags(NamedTuple):
    """Consecutive rows that belong together."""

    number: int
    bag_of_row: Operand | None
    """[rows]; None if all bags have the same number of rows."""

    def reduced(self, make: OpBuilder, rows: Operand, name: str) -> Operand:
        """The sum (`add`) or maxima (`max`) of the rows [n, ..] of each bag; 0 for empty ones."""
        total, width = rows.type.dims
        if self.bag_of_row is None:
            x = make.reshape(rows, (self.number, total // self.number, width))
            reduction = "sum_reduce" if name == "add" else "max_reduce"
            return make.reshape(make(reduction, x, axes=(1,)), (self.number, width))
        zeros = filled(make, (self.number, width), 0, rows.type.dtype)
        if name == "add":
            return index_add(make, zeros, 0, self.bag_of_row, rows)
        return index_reduce(make, zeros, 0, self.bag_of_row, rows, "amax", include_self=False)


def _bags(make: OpBuilder, rows: int, offsets: Operand, includes_last: bool) -> _Bags:
    """The bags whose first rows are at `offsets`; `includes_last`: the last offset ends a bag."""
    count = offsets.type.dims[0] - int(includes_last)
    starts = slice_in_dim(make, offsets, 0, 0, count)
    if isinstance(starts, KnownTensor) and not starts.is_symbolic and isinstance(rows, int):
        is_even = np.array_equal(starts.array * count, np.arange(count) * rows)
        if count and is_even:
            return _Bags(count, None)
    numbers = make.reshape(make.cast(make.iota(rows), starts.type.dtype), (rows, 1))
    begun = make.cast(make("le", make.reshape(starts, (1, count)), numbers), DType.INT64)
    before = make("sub", make("sum_reduce", begun, axes=(1,)), 1)
    return _Bags(count, make.reshape(before, (rows,)))


@operator("aten.embedding_bag.padding_idx")
def embedding_bag_from_end(
    make: OpBuilder,
    weight: Operand,
    indices: Operand,
    offsets: Operand,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Operand | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """As `embedding_bag`, where a negative row of padding counts from the end."""
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.type.dims[0]
    options = (mode, sparse, per_sample_weights, include_last_offset, padding_idx)
    return embedding_bag(make, weight, indices, offsets, scale_grad_by_freq, *options)


@operator("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(
    make: OpBuilder,
    weight: Operand,
    indices: Operand,
    offsets: Operand,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Operand | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Sums (mode 0), means (1) or maxima (2) of rows of `weight` [n, width], of each bag.

    Rows `padding_idx` do not count; a negative one is none.
    The other results, which gradients need, are None.
    """
    count, width = indices.type.volume, weight.type.dims[1]
    bags = _bags(make, count, offsets, include_last_offset)
    if not count or not bags.number:
        return filled(make, (bags.number, width), 0, weight.type.dtype), None, None, None
    rows = make("gather", weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = make("mul", rows, make.reshape(per_sample_weights, (count, 1)))
    is_valid: Operand | None = None
    if padding_idx is not None and padding_idx >= 0:
        is_valid = make.reshape(make("ne", indices, padding_idx), (count, 1))
        absent = tensor(make, -math.inf if mode == 2 else 0.0, rows.type.dtype)
        rows = make("select", is_valid, rows, absent)
    found = bags.reduced(make, rows, "max" if mode == 2 else "add")
    if mode == 1 or (mode == 2 and is_valid is not None):
        ones = is_valid or KnownTensor(np.ones((1, 1), np.bool_), DType.BOOL)
        ones = make.repeated(make.cast(ones, rows.type.dtype), (count, 1))
        numbers = bags.reduced(make, ones, "add")
        if mode == 1:
            found = make("div", found, make("max", numbers, 1.0))
        else:
            none = tensor(make, 0.0, found.type.dtype)
            found = make("select", make("eq", numbers, 0.0), none, found)
    return found, None, None, None


# -- blocks


def _image(make: OpBuilder, x: Operand, rank: int) -> Operand:
    """A tensor with a batch, of extent 1 if it has none."""
    if x.type.rank not in (rank, rank - 1):
        raise OperatorError("torch/arguments", f"a tensor of shape {list(x.type.dims)}")
    return x if x.type.rank == rank else make.reshape(x, (1, *x.type.dims))


def _pairs(padding: Integers) -> tuple[tuple[int, int], ...]:
    return tuple((n, n) for n in filled_tuple(padding, 2))


@operator("aten.im2col.default")
def im2col(
    make: OpBuilder,
    self: Operand,
    kernel_size: Integers,
    dilation: Integers,
    padding: Integers,
    stride: Integers,
) -> Any:
    """The blocks of images as columns."""
    x = _image(make, self, 4)
    block, steps, gaps = (filled_tuple(each, 2) for each in (kernel_size, stride, dilation))
    y = blocks_of_images(make, x, block, steps, _pairs(padding), gaps)
    return y if x is self else make.reshape(y, y.type.dims[1:])


@operator("aten.col2im.default")
def col2im(
    make: OpBuilder,
    self: Operand,
    output_size: Integers,
    kernel_size: Integers,
    dilation: Integers,
    padding: Integers,
    stride: Integers,
) -> Any:
    """Sums of blocks, which are columns, at their places in images."""
    x = _image(make, self, 3)
    image, block = filled_tuple(output_size, 2), filled_tuple(kernel_size, 2)
    steps, gaps = filled_tuple(stride, 2), filled_tuple(dilation, 2)
    y = sum_of_blocks(make, x, image, block, steps, _pairs(padding), gaps)
    return y if x is self else make.reshape(y, y.type.dims[1:])
