"""Reductions along axes, statistics and norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import distinct_axes
from nnefc.frontends.common.values import KnownTensor, Operand, has_no_items
from nnefc.frontends.torch.item_types import in_reals, tensor
from nnefc.frontends.torch.operators.elementwise import sub, truth
from nnefc.frontends.torch.operators.placing import require_room
from nnefc.frontends.torch.registry import Integers, Number, operator
from nnefc.ir import DType


def axes_of(x: Operand, dim: Integers | None) -> tuple[int, ...]:
    """The axes of a reduction; without any, all.  A number has an axis, which is not there."""
    named = distinct_axes("reduce", dim or (), max(x.type.rank, 1))
    return named if named and x.type.rank else tuple(range(x.type.rank))


def without_axes(make: OpBuilder, x: Operand, axes: tuple[int, ...], keepdim: bool) -> Operand:
    """A reduced tensor without the axes of extent 1, unless they are kept."""
    if keepdim:
        return x
    return make.reshape(x, tuple(n for i, n in enumerate(x.type.dims) if i not in axes))


def reduced(
    make: OpBuilder, name: str, x: Operand, dim: Integers | None, keepdim: bool, **attributes: Any
) -> Operand:
    """A reduction by an operation."""
    axes = axes_of(x, dim)
    return without_axes(make, make(name, x, axes=axes, **attributes), axes, keepdim)


def summable(make: OpBuilder, x: Operand, dtype: DType | None) -> Operand:
    """A tensor in the item type of its sums: int64 for booleans and integers."""
    kind = x.type.dtype
    return make.cast(x, dtype or (kind if kind.is_float else DType.INT64))


@operator("aten.sum.dim_IntList", "aten.sum.default")
def sum_(
    make: OpBuilder,
    self: Operand,
    dim: Integers | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Any:
    """Sums; of booleans and integers in int64."""
    return reduced(make, "sum_reduce", summable(make, self, dtype), dim, keepdim)


@operator("aten.prod.default", "aten.prod.dim_int")
def prod(
    make: OpBuilder,
    self: Operand,
    dim: Integers | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Any:
    return reduced(make, "product_reduce", summable(make, self, dtype), dim, keepdim)


@operator("aten.mean.dim", "aten.mean.default")
def mean(
    make: OpBuilder,
    self: Operand,
    dim: Integers | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Any:
    x = in_reals(make, self if dtype is None else make.cast(self, dtype))
    return reduced(make, "sum_reduce", x, dim, keepdim, normalize=True)


def _of_truth(name: str, operation: str) -> None:
    """Register whether any or all items differ from 0; dimensions () reduce nothing."""

    def compute(
        make: OpBuilder, self: Operand, dim: Integers | None = None, keepdim: bool = False
    ) -> Any:
        x = truth(make, self)
        return x if dim == () else reduced(make, operation, x, dim, keepdim)

    operator(*(f"aten.{name}.{each}" for each in ("default", "dim", "dims")))(compute)


_of_truth("any", "any_reduce")
_of_truth("all", "all_reduce")

# -- extremes


def extreme(
    make: OpBuilder, x: Operand, dim: Integers | None, keepdim: bool, *, largest: bool
) -> Operand:
    """Maxima or minima, also of booleans."""
    if x.type.dtype is DType.BOOL:
        return reduced(make, "any_reduce" if largest else "all_reduce", x, dim, keepdim)
    return reduced(make, "max_reduce" if largest else "min_reduce", x, dim, keepdim)


def index_of_extreme(
    make: OpBuilder, x: Operand, dim: int | None, keepdim: bool, *, largest: bool
) -> Operand:
    """The first indices of maxima or minima along an axis; of all items without one."""
    name = "argmax_reduce" if largest else "argmin_reduce"
    if x.type.dtype is DType.BOOL:
        x = make.cast(x, DType.INT64)
    if dim is None:
        flat = make.reshape(x, (math.prod(x.type.dims),))
        dims = (1,) * x.type.rank if keepdim else ()
        return make.reshape(make(name, flat, axes=(0,)), dims)
    if not x.type.rank:
        return tensor(make, 0, DType.INT64)
    return reduced(make, name, x, (dim,), keepdim)


def _extremes(suffix: str, largest: bool) -> None:
    """Register maxima or minima, with and without their indices."""

    def values(make: OpBuilder, self: Operand, dim: Integers = (), keepdim: bool = False) -> Any:
        return extreme(make, self, dim, keepdim, largest=largest)

    def index(make: OpBuilder, self: Operand, dim: int | None = None, keepdim: bool = False) -> Any:
        return make.cast(index_of_extreme(make, self, dim, keepdim, largest=largest), DType.INT64)

    def both(make: OpBuilder, self: Operand, dim: int, keepdim: bool = False) -> Any:
        return values(make, self, (dim,), keepdim), index(make, self, dim, keepdim)

    operator(f"aten.a{suffix}.default", f"aten.{suffix}.default")(values)
    operator(f"aten.arg{suffix}.default")(index)
    operator(f"aten.{suffix}.dim")(both)


_extremes("max", True)
_extremes("min", False)


@operator("aten.aminmax.default")
def aminmax(make: OpBuilder, self: Operand, dim: int | None = None, keepdim: bool = False) -> Any:
    axes = None if dim is None else (dim,)
    return tuple(extreme(make, self, axes, keepdim, largest=each) for each in (False, True))


# -- statistics


def moments(
    make: OpBuilder, x: Operand, dim: Integers | None, correction: float, keepdim: bool
) -> tuple[Operand, Operand]:
    """Variances and means along axes."""
    axes = axes_of(x, dim)
    count = math.prod(x.type.dims[i] for i in axes)
    center = make("sum_reduce", x, axes=axes, normalize=True)
    if has_no_items(x):
        variance = center
    else:
        total = make("sum_reduce", make("sqr", make("sub", x, center)), axes=axes)
        rest = count - correction
        rest = max(rest, 0) if isinstance(rest, int | float) else rest
        variance = make("div", total, tensor(make, rest, x.type.dtype))
    return without_axes(make, variance, axes, keepdim), without_axes(make, center, axes, keepdim)


def _statistics(name: str, root: bool) -> None:
    """Register variances or deviations, with and without means."""

    def both(
        make: OpBuilder,
        self: Operand,
        dim: Integers | None = None,
        correction: Number = None,
        keepdim: bool = False,
    ) -> Any:
        correction = 1 if correction is None else correction
        variance, center = moments(make, self, dim, correction, keepdim)
        return (make("sqrt", variance) if root else variance), center

    def one(
        make: OpBuilder,
        self: Operand,
        dim: Integers | None = None,
        correction: Number = None,
        keepdim: bool = False,
    ) -> Any:
        return both(make, self, dim, correction, keepdim)[0]

    def unbiased(
        make: OpBuilder,
        self: Operand,
        dim: Integers | None = None,
        unbiased: bool = True,
        keepdim: bool = False,
    ) -> Any:
        return both(make, self, dim, int(unbiased), keepdim)[0]

    operator(f"aten.{name}.correction")(one)
    operator(f"aten.{name}.dim")(unbiased)
    operator(f"aten.{name}_mean.correction")(both)


_statistics("var", root=False)
_statistics("std", root=True)


@operator("aten.log_softmax.int", "aten._log_softmax.default")
def log_softmax(
    make: OpBuilder,
    self: Operand,
    dim: int,
    dtype: DType | None = None,
    half_to_float: bool = False,
) -> Any:
    """x - log(sum(exp(x))) along an axis, without its maximum, so that nothing overflows."""
    x = self if dtype is None else make.cast(self, dtype)
    if has_no_items(x) or not x.type.rank:
        return make("mul", x, 0.0)
    axes = axes_of(x, (dim,))
    rest = make("sub", x, make("max_reduce", x, axes=axes))
    return make("sub", rest, make("log", make("sum_reduce", make("exp", rest), axes=axes)))


# -- norms


@operator("aten.linalg_vector_norm.default")
def vector_norm(
    make: OpBuilder,
    self: Operand,
    ord: float = 2.0,
    dim: Integers | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Any:
    """(sum |x|^ord)^(1/ord), and its limits."""
    x = self if dtype is None else make.cast(self, dtype)
    size = make("abs", x)
    if math.isinf(ord):
        return extreme(make, size, dim, keepdim, largest=ord > 0)
    if ord == 0:
        counts = make.cast(make("ne", x, 0.0), x.type.dtype)
        return reduced(make, "sum_reduce", counts, dim, keepdim)
    if ord == 1:
        return reduced(make, "sum_reduce", size, dim, keepdim)
    if ord == 2:
        return make("sqrt", reduced(make, "sum_reduce", make("sqr", x), dim, keepdim))
    total = reduced(make, "sum_reduce", make("pow", size, ord), dim, keepdim)
    return make("pow", total, 1 / ord)


@operator("aten.norm.Scalar", "aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dim_dtype")
def norm(
    make: OpBuilder,
    self: Operand,
    p: Number = 2,
    dim: Integers | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Any:
    return vector_norm(make, self, 2.0 if p is None else float(p), dim, keepdim, dtype)


@operator("aten.dist.default")
def dist(make: OpBuilder, self: Operand, other: Operand, p: Number = 2) -> Any:
    """The norm of a difference."""
    return vector_norm(make, sub(make, self, other), float(p))


@operator("aten._cdist_forward.default")
def cdist(make: OpBuilder, x1: Operand, x2: Operand, p: float, compute_mode: Number = None) -> Any:
    """Distances [.., n, m] between rows [.., n, d] and [.., m, d]."""
    rank = max(x1.type.rank, x2.type.rank)
    a, b = (make.aligned_right(x, rank) for x in (x1, x2))
    a = make.reshape(a, (*a.type.dims[:-1], 1, a.type.dims[-1]))
    b = make.reshape(b, (*b.type.dims[:-2], 1, *b.type.dims[-2:]))
    if 0 in a.type.dims[-1:]:
        dims = np.broadcast_shapes(a.type.dims[:-1], b.type.dims[:-1])
        return make.repeated(make.reshape(tensor(make, 0, x1.type.dtype), (1,) * rank), dims)
    return vector_norm(make, make("sub", a, b), p, (-1,))


@operator("aten._pdist_forward.default")
def pdist(make: OpBuilder, self: Operand, p: float = 2.0) -> Any:
    """Distances between each two rows of a matrix."""
    require_room(self.type.dims[0] ** 2)
    first, second = np.triu_indices(self.type.dims[0], 1)
    a, b = (make("gather", self, known(each), axis=0) for each in (first, second))
    return vector_norm(make, make("sub", a, b), p, (-1,))


def known(items: Any) -> Any:
    """Known integers as a tensor."""
    return KnownTensor(np.asarray(items, np.int64), DType.INT64)
