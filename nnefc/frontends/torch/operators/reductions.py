"""Reductions along axes."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import distinct_axes
from nnefc.frontends.common.values import Operand
from nnefc.frontends.torch.item_types import in_reals
from nnefc.frontends.torch.registry import Integers, operator
from nnefc.ir import DType


def axes_of(x: Operand, dim: Integers | None) -> tuple[int, ...]:
    """The axes of a reduction; without any, all."""
    return distinct_axes("reduce", dim, x.type.rank) if dim else tuple(range(x.type.rank))


def without_axes(make: OpBuilder, x: Operand, axes: tuple[int, ...], keepdim: bool) -> Operand:
    """A reduced tensor without the axes of extent 1, unless they are kept."""
    if keepdim:
        return x
    return make.reshape(x, tuple(n for i, n in enumerate(x.type.dims) if i not in axes))


@operator("aten.sum.dim_IntList", "aten.sum.default")
def sum_(
    make: OpBuilder,
    self: Operand,
    dim: Integers | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Any:
    """Sums; of booleans and integers in int64."""
    kind = self.type.dtype
    x = make.cast(self, dtype or (kind if kind.is_float else DType.INT64))
    axes = axes_of(x, dim)
    return without_axes(make, make("sum_reduce", x, axes=axes), axes, keepdim)


@operator("aten.mean.dim", "aten.mean.default")
def mean(
    make: OpBuilder,
    self: Operand,
    dim: Integers | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Any:
    x = in_reals(make, self if dtype is None else make.cast(self, dtype))
    axes = axes_of(x, dim)
    y = make("sum_reduce", x, axes=axes, normalize=True)
    return without_axes(make, y, axes, keepdim)


def _extreme(name: str, operation: str) -> None:
    """Register a maximum or minimum along axes."""

    def compute(make: OpBuilder, self: Operand, dim: Integers = (), keepdim: bool = False) -> Any:
        axes = axes_of(self, dim)
        return without_axes(make, make(operation, self, axes=axes), axes, keepdim)

    operator(name)(compute)


_extreme("aten.amax.default", "max_reduce")
_extreme("aten.amin.default", "min_reduce")
