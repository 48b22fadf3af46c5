"""Items at indices: gathering and scattering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.indices import gather as gather_in_dim
from nnefc.frontends.common.operators.nonzero import nonzero_positions
from nnefc.frontends.common.values import (
    EmptyTensor,
    Operand,
    OperatorError,
    has_no_items,
)
from nnefc.frontends.torch.operators.elementwise import scaled, truth
from nnefc.frontends.torch.operators.masks import masked_put
from nnefc.frontends.torch.operators.movement import broadcast, filled
from nnefc.frontends.torch.operators.quotients import div_mode
from nnefc.frontends.torch.registry import Number, OptionalTensors, operator
from nnefc.ir import DType, TensorType

# -- by tensors of indices


def _whole_indices(make: OpBuilder, x: Operand, indices: OptionalTensors) -> list[Operand | None]:
    """Indices without masks: a mask becomes the indices of its items."""
    found: list[Operand | None] = []
    for each in indices:
        if each is None or each.type.dtype not in (DType.BOOL, DType.UINT8):
            found.append(each)
            continue
        if has_no_items(each) or not each.type.rank:
            raise OperatorError("torch/unsupported", f"a mask {each.type} as an index")
        rows = nonzero_positions(make, truth(make, each))
        for axis in range(each.type.rank):
            row = slice_in_dim(make, rows, 0, axis, axis + 1)
            found.append(make.reshape(row, rows.type.dims[1:]))
    return found + [None] * (x.type.rank - len(found))


def _indexed_first(given: Sequence[Operand | None]) -> tuple[list[int], list[int], int]:
    """The axes with indices, then all others; and where the result has the axes of indices."""
    chosen = [axis for axis, each in enumerate(given) if each is not None]
    rest = [axis for axis, each in enumerate(given) if each is None]
    are_neighbours = chosen == [*range(chosen[0], chosen[-1] + 1)]
    return chosen, chosen + rest, chosen[0] if are_neighbours else 0


def _joined_indices(make: OpBuilder, given: Sequence[Operand | None]) -> Operand:
    """Indices [.., n] of n axes, broadcast to a common shape."""
    several = [make.cast(each, DType.INT64) for each in given if each is not None]
    dims = np.broadcast_shapes(*(each.type.dims for each in several))
    columns = [
        make.reshape(broadcast(make, each, dims), (*dims, 1)) if len(several) > 1 else each
        for each in several
    ]
    if len(columns) == 1:
        return make.reshape(columns[0], (*dims, 1))
    return make("concat", columns, axis=len(dims))


@operator("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(make: OpBuilder, self: Operand, indices: OptionalTensors) -> Any:
    """Items at indices of some axes, as NumPy's advanced indexing."""
    given = _whole_indices(make, self, indices)
    if all(each is None for each in given):
        return self
    chosen, order, at = _indexed_first(given)
    if len(chosen) == 1:
        only = given[chosen[0]]
        assert only is not None
        return gather_in_dim(make, self, only, chosen[0])
    where = _joined_indices(make, given)
    front = make.transpose(self, order)
    own, rest = where.type.rank - 1, len(order) - len(chosen)
    if has_no_items(where) or has_no_items(front):
        dims = (*where.type.dims[:-1], *front.type.dims[len(chosen) :])
        y: Operand = EmptyTensor(TensorType(self.type.dtype, dims))
    else:
        y = make("gather_nd", front, where)
    return make.transpose(y, (*range(own, own + at), *range(own), *range(own + at, own + rest)))


@operator("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    make: OpBuilder,
    self: Operand,
    indices: OptionalTensors,
    values: Operand,
    accumulate: bool = False,
) -> Any:
    """A tensor with other items at indices of some axes, or these added to its own."""
    masked = masked_put(make, self, indices, values, accumulate)
    if masked is not None:
        return masked
    given = _whole_indices(make, self, indices)
    if all(each is None for each in given):
        new = broadcast(make, values, self.type.dims)
        return make("add", self, new) if accumulate else new
    chosen, order, at = _indexed_first(given)
    only = given[chosen[-1]]
    if only is not None and len(chosen) == 1 and chosen[0] > 0 and only.type.rank == 1:
        return _put_along(make, self, chosen[0], only, values, accumulate)
    where = _joined_indices(make, given)
    front = make.transpose(self, order)
    if has_no_items(where) or has_no_items(front):
        return self
    own, rest = where.type.dims[:-1], front.type.dims[len(chosen) :]
    dims = (*rest[:at], *own, *rest[at:])
    new = broadcast(make, make.cast(values, self.type.dtype), dims)
    count = len(own)
    new = make.transpose(new, (*range(at, at + count), *range(at), *range(at + count, len(dims))))
    found = scattered(make, "scatter_nd", front, where, new, "add" if accumulate else "none")
    return make.transpose(found, [order.index(i) for i in range(len(order))])


def _put_along(
    make: OpBuilder,
    x: Operand,
    axis: int,
    indices: Operand,
    values: Operand,
    accumulate: bool,
) -> Operand:
    """A tensor with other items along an axis behind the first one, without moving axes."""
    if has_no_items(indices) or has_no_items(x):
        return x
    dims = (*x.type.dims[:axis], *indices.type.dims, *x.type.dims[axis + 1 :])
    new = broadcast(make, make.cast(values, x.type.dtype), dims)
    where = _expanded(make, x, axis, make.cast(indices, DType.INT64), dims)
    how = "add" if accumulate else "none"
    return scattered(make, "scatter_elements", x, where, new, how, axis=axis)


def scattered(
    make: OpBuilder,
    operation: str,
    x: Operand,
    where: Operand,
    new: Operand,
    reduction: str,
    **attributes: Any,
) -> Operand:
    """A tensor with items at indices, also a tensor of booleans."""
    dtype = x.type.dtype
    if dtype is DType.BOOL and reduction != "none":
        reduction = {"add": "max", "mul": "min"}.get(reduction, reduction)
        x, new = (make.cast(each, DType.INT32) for each in (x, new))
        y = make(operation, x, where, new, reduction=reduction, **attributes)
        return make("ne", y, 0)
    return make(operation, x, where, new, reduction=reduction, **attributes)


# -- along an axis


def _at_least_1(make: OpBuilder, x: Operand) -> Operand:
    """A tensor with an axis at least."""
    return x if x.type.rank else make.reshape(x, (1,))


@operator("aten.gather.default")
def gather(make: OpBuilder, self: Operand, dim: int, index: Operand) -> Any:
    if has_no_items(index):
        return EmptyTensor(TensorType(self.type.dtype, index.type.dims))
    x, where = _at_least_1(make, self), _at_least_1(make, index)
    at = normalize_axis(dim, x.type.rank)
    return make.reshape(make("gather_elements", x, where, axis=at), index.type.dims)


_REDUCTIONS: Final = {
    "sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min",
    "mean": "add",
}  # fmt: skip
"""The reduction of `scatter_elements` for that of PyTorch."""


def scatter_in_dim(
    make: OpBuilder,
    self: Operand,
    dim: int,
    index: Operand,
    src: Operand,
    reduction: str = "none",
) -> Any:
    """A tensor with the items of `src` at indices along an axis; `src` may be larger."""
    x, where, new = (_at_least_1(make, each) for each in (self, index, src))
    if has_no_items(where):
        return self
    for axis, extent in enumerate(where.type.dims):
        new = slice_in_dim(make, new, axis, 0, extent)
    at = normalize_axis(dim, x.type.rank)
    new = make.cast(new, x.type.dtype)
    where = make.cast(where, DType.INT64)
    found = scattered(make, "scatter_elements", x, where, new, reduction, axis=at)
    return make.reshape(found, self.type.dims)


@operator("aten.scatter.src", "aten.scatter.reduce")
def scatter(
    make: OpBuilder,
    self: Operand,
    dim: int,
    index: Operand,
    src: Operand,
    reduce: str | None = None,
) -> Any:
    how = "none" if reduce is None else _REDUCTIONS[reduce]
    return scatter_in_dim(make, self, dim, index, src, how)


@operator("aten.scatter.value", "aten.scatter.value_reduce")
def scatter_value(
    make: OpBuilder,
    self: Operand,
    dim: int,
    index: Operand,
    value: Number,
    reduce: str | None = None,
) -> Any:
    return scatter(
        make, self, dim, index, filled(make, index.type.dims, value, self.type.dtype), reduce
    )


@operator("aten.scatter_add.default")
def scatter_add(make: OpBuilder, self: Operand, dim: int, index: Operand, src: Operand) -> Any:
    return scatter_in_dim(make, self, dim, index, src, "add")


def _first_item(dtype: DType, reduce: str) -> Any:
    """The item that does not change a reduction."""
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    if dtype is DType.BOOL:
        return reduce == "amin"
    if dtype.is_float:
        return math.inf if reduce == "amin" else -math.inf
    info = np.iinfo(dtype.numpy)
    return int(info.max if reduce == "amin" else info.min)


@operator("aten.scatter_reduce.two")
def scatter_reduce(
    make: OpBuilder,
    self: Operand,
    dim: int,
    index: Operand,
    src: Operand,
    reduce: str,
    include_self: bool = True,
) -> Any:
    """A tensor whose items at indices are reduced with those of `src`."""
    if has_no_items(index):
        return self
    dtype, x = self.type.dtype, self
    if not include_self:
        start = filled(make, index.type.dims, _first_item(dtype, reduce), dtype)
        x = scatter_in_dim(make, x, dim, index, start)
    x = scatter_in_dim(make, x, dim, index, src, _REDUCTIONS[reduce])
    if reduce != "mean":
        return x
    kind = dtype if dtype.is_float else DType.INT64
    one = filled(make, self.type.dims, int(include_self), kind)
    counts = scatter_in_dim(make, one, dim, index, filled(make, index.type.dims, 1, kind), "add")
    counts = make("max", counts, 1)
    if dtype.is_float:
        return make("div", x, counts)
    return make.cast(div_mode(make, x, counts), dtype)


def _expanded(make: OpBuilder, x: Operand, dim: int, index: Operand, dims: Sequence[int]) -> Any:
    """Indices [n] of slices along an axis as indices of all their items."""
    at = normalize_axis(dim, x.type.rank)
    shape = tuple(index.type.volume if i == at else 1 for i in range(x.type.rank))
    return make.repeated(make.reshape(index, shape), dims)


def _along(
    make: OpBuilder, self: Operand, dim: int, index: Operand, source: Operand
) -> tuple[Operand, Operand, Operand]:
    """A tensor, indices and new items of one rank, which is at least 1."""
    x, new = _at_least_1(make, self), _at_least_1(make, source)
    return x, _expanded(make, x, dim, index, new.type.dims), new


@operator("aten.index_add.default")
def index_add(
    make: OpBuilder,
    self: Operand,
    dim: int,
    index: Operand,
    source: Operand,
    alpha: Number = 1,
) -> Any:
    x, where, new = _along(make, self, dim, index, source)
    found = scatter_in_dim(make, x, dim, where, scaled(make, new, alpha), "add")
    return make.reshape(found, self.type.dims)


@operator("aten.index_copy.default")
def index_copy(make: OpBuilder, self: Operand, dim: int, index: Operand, source: Operand) -> Any:
    x, where, new = _along(make, self, dim, index, source)
    return make.reshape(scatter_in_dim(make, x, dim, where, new), self.type.dims)


@operator("aten.index_reduce.default")
def index_reduce(
    make: OpBuilder,
    self: Operand,
    dim: int,
    index: Operand,
    source: Operand,
    reduce: str,
    include_self: bool = True,
) -> Any:
    x, where, new = _along(make, self, dim, index, source)
    return make.reshape(
        scatter_reduce(make, x, dim, where, new, reduce, include_self), self.type.dims
    )


@operator("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(make: OpBuilder, self: Operand, dim: int, index: Operand, value: Number) -> Any:
    x = _at_least_1(make, self)
    at = normalize_axis(dim, x.type.rank)
    dims = tuple(index.type.volume if i == at else n for i, n in enumerate(x.type.dims))
    new = filled(make, dims, value, self.type.dtype)
    found = scatter_in_dim(make, x, at, _expanded(make, x, at, index, dims), new)
    return make.reshape(found, self.type.dims)


# -- of all items in order


@operator("aten.take.default")
def take(make: OpBuilder, self: Operand, index: Operand) -> Any:
    flat = make.reshape(self, (math.prod(self.type.dims),))
    if has_no_items(index):
        return EmptyTensor(TensorType(self.type.dtype, index.type.dims))
    return make("gather", flat, index, axis=0)


@operator("aten.put.default")
def put(
    make: OpBuilder, self: Operand, index: Operand, source: Operand, accumulate: bool = False
) -> Any:
    flat, where, new = (make.reshape(x, (math.prod(x.type.dims),)) for x in (self, index, source))
    found = scatter_in_dim(make, flat, 0, where, new, "add" if accumulate else "none")
    return make.reshape(found, self.type.dims)
