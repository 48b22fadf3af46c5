"""Sorting, order statistics, cumulative functions and binary search."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.binary_search import count_before
from nnefc.frontends.common.operators.sums import running_sum
from nnefc.frontends.common.values import EmptyTensor, Operand, has_no_items
from nnefc.frontends.torch.item_types import common, tensor
from nnefc.frontends.torch.operators.movement import filled
from nnefc.frontends.torch.operators.reductions import summable
from nnefc.frontends.torch.operators.special_functions import log_of_sum
from nnefc.frontends.torch.registry import Number, operator
from nnefc.ir import DType, TensorType

Pair = tuple[Operand, Operand]


def ordered(make: OpBuilder, x: Operand, dim: int, count: int | None, *, largest: bool) -> Pair:
    """The first `count` items along an axis in order, and their indices; equal ones keep theirs."""
    if not x.type.rank:
        return x, tensor(make, 0, DType.INT64)
    at = normalize_axis(dim, x.type.rank)
    k = x.type.dims[at] if count is None else count
    dtype = x.type.dtype
    if has_no_items(x) or k == 0:
        dims = tuple(k if i == at else n for i, n in enumerate(x.type.dims))
        return EmptyTensor(TensorType(dtype, dims)), EmptyTensor(TensorType(DType.INT64, dims))
    keys = make.cast(x, DType.UINT8) if dtype is DType.BOOL else x
    values, indices = make("topk", keys, k=k, axis=at, largest=largest)
    return make.cast(values, dtype), indices


@operator("aten.sort.default", "aten.sort.stable")
def sort(
    make: OpBuilder,
    self: Operand,
    dim: int = -1,
    descending: bool = False,
    stable: bool | None = None,
) -> Any:
    return ordered(make, self, dim, None, largest=descending)


@operator("aten.argsort.default", "aten.argsort.stable")
def argsort(
    make: OpBuilder, self: Operand, dim: int = -1, descending: bool = False, stable: bool = True
) -> Any:
    return ordered(make, self, dim, None, largest=descending)[1]


@operator("aten.topk.default")
def topk(
    make: OpBuilder,
    self: Operand,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> Any:
    return ordered(make, self, dim, k, largest=largest)


def _at_end(make: OpBuilder, x: Operand, dim: int, keepdim: bool) -> Operand:
    """The last item along an axis."""
    if not x.type.rank:
        return x
    at = normalize_axis(dim, x.type.rank)
    extent = x.type.dims[at]
    last = slice_in_dim(make, x, at, extent - 1, extent)
    if keepdim:
        return last
    return make.reshape(last, (*x.type.dims[:at], *x.type.dims[at + 1 :]))


@operator("aten.kthvalue.default")
def kthvalue(make: OpBuilder, self: Operand, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    pair = ordered(make, self, dim, k, largest=False)
    return tuple(_at_end(make, each, dim, keepdim) for each in pair)


def _median(name: str, *, skips_nan: bool) -> None:
    """Register the lower median of items."""

    def along(make: OpBuilder, self: Operand, dim: int = -1, keepdim: bool = False) -> Any:
        if not self.type.rank:
            return self, tensor(make, 0, DType.INT64)
        at = normalize_axis(dim, self.type.rank)
        extent = self.type.dims[at]
        values, indices = ordered(make, self, at, None, largest=False)
        middle: Operand = tensor(make, (extent - 1) // 2, DType.INT64)
        if self.type.dtype.is_float:
            # items that are no numbers are last in order
            is_number = make.cast(make("eq", self, self), DType.INT64)
            count = make("sum_reduce", is_number, axes=(at,))
            if skips_nan:
                middle = make("max", make("div", make("sub", count, 1), 2), 0)
            else:
                middle = make("select", make("eq", count, extent), middle, count)
        dims = tuple(1 if i == at else n for i, n in enumerate(self.type.dims))
        where = make.repeated(make.aligned_right(middle, self.type.rank), dims)
        pair = (make("gather_elements", each, where, axis=at) for each in (values, indices))
        return tuple(_at_end(make, each, at, keepdim) for each in pair)

    def of_all(make: OpBuilder, self: Operand) -> Any:
        return along(make, make.reshape(self, (math.prod(self.type.dims),)))[0]

    operator(f"aten.{name}.dim")(along)
    operator(f"aten.{name}.default")(of_all)


_median("median", skips_nan=False)
_median("nanmedian", skips_nan=True)


@operator("aten.mode.default")
def mode(make: OpBuilder, self: Operand, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent items along an axis, and its last index."""
    values, indices = ordered(make, self, dim, None, largest=False)
    if not self.type.rank:
        return values, indices
    at = normalize_axis(dim, self.type.rank)
    extent, rank = self.type.dims[at], self.type.rank
    number = make.reshape(make.iota(extent), tuple(extent if i == at else 1 for i in range(rank)))
    if extent > 1:
        keys = make.cast(values, DType.UINT8) if values.type.dtype is DType.BOOL else values
        lower = slice_in_dim(make, keys, at, 0, extent - 1)
        upper = slice_in_dim(make, keys, at, 1, extent)
        behind = slice_in_dim(make, number, at, 1, extent)
        starts = make("select", make("ne", lower, upper), behind, 0)
        zero = make("mul", slice_in_dim(make, starts, at, 0, 1), 0)
        first = running_sum(make, make("concat", [zero, starts], axis=at), at, operation="max")
        last = make("argmax_reduce", make("sub", number, first), axes=(at,))
        values, indices = (
            make("gather_elements", each, last, axis=at) for each in (values, indices)
        )
    return tuple(_at_end(make, each, at, keepdim) for each in (values, indices))


# -- cumulative functions


def _cumulative(name: str, operation: str) -> None:
    """Register cumulative sums or products."""

    def compute(make: OpBuilder, self: Operand, dim: int, dtype: DType | None = None) -> Any:
        x = summable(make, self, dtype)
        if not x.type.rank:
            return x
        return running_sum(make, x, normalize_axis(dim, x.type.rank), operation=operation)

    operator(f"aten.{name}.default")(compute)


_cumulative("cumsum", "add")
_cumulative("cumprod", "mul")


def _cumulative_extreme(name: str, operation: str) -> None:
    """Register cumulative extremes, with their last indices."""

    def compute(make: OpBuilder, self: Operand, dim: int) -> Any:
        if not self.type.rank:
            return self, tensor(make, 0, DType.INT64)
        if has_no_items(self):
            return self, EmptyTensor(self.type.with_dtype(DType.INT64))
        at = normalize_axis(dim, self.type.rank)
        dtype = self.type.dtype
        x = make.cast(self, DType.INT64) if dtype is DType.BOOL else self
        values = running_sum(make, x, at, operation=operation)
        is_new = make("eq", x, values)
        if dtype.is_float:
            is_new = make("or", is_new, make("is_nan", x))
        extent = x.type.dims[at]
        dims = tuple(extent if i == at else 1 for i in range(x.type.rank))
        number = make.reshape(make.iota(extent), dims)
        found = make("select", is_new, number, tensor(make, -1, DType.INT64))
        return make.cast(values, dtype), running_sum(make, found, at, operation="max")

    operator(f"aten.{name}.default")(compute)


_cumulative_extreme("cummax", "max")
_cumulative_extreme("cummin", "min")


@operator("aten.logcumsumexp.default")
def logcumsumexp(make: OpBuilder, self: Operand, dim: int) -> Any:
    if not self.type.rank:
        return self
    at = normalize_axis(dim, self.type.rank)
    return running_sum(make, self, at, operation=log_of_sum)


# -- binary search


def _searched(
    make: OpBuilder,
    none: Operand,
    count: int,
    item_at: Callable[[Operand], Operand],
    x: Operand,
    right: bool,
) -> Operand:
    """How many sorted items are less than `x`; `right`: or equal."""

    def is_before(index: Operand) -> Operand:
        return make("not", make("gt" if right else "ge", item_at(index), x))

    before = count_before(make, none, count, is_before)
    return make("add", before, make.cast(is_before(before), DType.INT64))


@operator("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(
    make: OpBuilder,
    sorted_sequence: Operand,
    self: Operand,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Operand | None = None,
) -> Any:
    """For each item, its place in sorted rows; a single row is for all."""
    rows = sorted_sequence
    if sorter is not None:
        rows = make("gather_elements", rows, sorter, axis=rows.type.rank - 1)
    rows, x = common(make, rows, self) if rows.type.rank > 1 else _of_one_type(make, rows, self)
    count = rows.type.dims[-1]
    result = DType.INT32 if out_int32 else DType.INT64
    if count == 0 or has_no_items(x):
        return filled(make, x.type.dims, 0, result)
    none = filled(make, x.type.dims, 0, DType.INT64)

    def item_at(index: Operand) -> Operand:
        if rows.type.rank == 1:
            return make("gather", rows, index, axis=0)
        return make("gather_elements", rows, index, axis=rows.type.rank - 1)

    right = side == "right" if side is not None else right
    return make.cast(_searched(make, none, count, item_at, x, right), result)


def _of_one_type(make: OpBuilder, rows: Operand, x: Operand) -> Pair:
    """Two tensors in a common item type, with ranks of their own."""
    a, b = common(make, rows, x)
    return make.reshape(a, rows.type.dims), make.reshape(b, x.type.dims)


@operator("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(
    make: OpBuilder,
    self: Operand,
    boundaries: Operand,
    out_int32: bool = False,
    right: bool = False,
) -> Any:
    return searchsorted(make, boundaries, self, out_int32, right)


# -- histograms


@operator("aten.histc.default")
def histc(make: OpBuilder, self: Operand, bins: int = 100, min: Number = 0, max: Number = 0) -> Any:
    """The number of items in each of `bins` equal intervals; without bounds, those of the items."""
    dtype = self.type.dtype
    x = make.reshape(self, (1, math.prod(self.type.dims)))
    low, high = tensor(make, min, dtype), tensor(make, max, dtype)
    if min == max:
        low, high = (make(f"{each}_reduce", x, axes=(1,)) for each in ("min", "max"))
        single = make.cast(make("eq", low, high), dtype)
        low, high = make("sub", low, single), make("add", high, single)
    scaled = make("div", make("mul", make("sub", x, low), float(bins)), make("sub", high, low))
    bin_of = make("min", make("floor", scaled), bins - 1.0)
    numbers = make.cast(make.reshape(make.iota(bins), (bins, 1)), dtype)
    inside = make("and", make("ge", x, low), make("le", x, high))
    hit = make("and", make("eq", bin_of, numbers), inside)
    return make.reshape(make("sum_reduce", make.cast(hit, dtype), axes=(1,)), (bins,))
