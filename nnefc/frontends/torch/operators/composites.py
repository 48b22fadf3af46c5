"""Operators that PyTorch decomposes into others: programs without decomposition have them."""

from __future__ import annotations

import math
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError, has_no_items
from nnefc.frontends.torch.item_types import tensor
from nnefc.frontends.torch.operators.elementwise import binary, dropout, to_copy
from nnefc.frontends.torch.operators.layers import softmax
from nnefc.frontends.torch.operators.movement import (
    broadcast,
    cat,
    completed,
    constant_pad,
    filled,
    repeat,
)
from nnefc.frontends.torch.operators.reductions import vector_norm
from nnefc.frontends.torch.registry import Integers, Number, Tensors, find, operator
from nnefc.ir import DType

_BORDERS: Final = {"reflect": "reflection", "replicate": "replication"}


@operator("aten.to.device", "aten.to.dtype_layout")
def to(make: OpBuilder, self: Operand, dtype: DType | None = None) -> Any:
    """Items of another type; all tensors are on the CPU."""
    return to_copy(make, self, dtype)


@operator("aten.type_as.default", "aten.to.other")
def type_as(make: OpBuilder, self: Operand, other: Operand) -> Any:
    return to_copy(make, self, other.type.dtype)


@operator("aten.dropout_.default")
def dropout_(make: OpBuilder, self: Operand, p: float, train: bool) -> Any:
    return dropout(make, self, p, train)


def _bitwise(name: str, operation: str) -> None:
    """Register a Python operator on bits, `__and__`."""

    def compute(make: OpBuilder, self: Number, other: Number) -> Any:
        return binary(make, operation, self, other)

    operator(*(f"aten.{name}.{overload}" for overload in ("Tensor", "Scalar")))(compute)


for _name, _operation in (("__and__", "bitand"), ("__or__", "bitor"), ("__xor__", "bitxor")):
    _bitwise(_name, _operation)


@operator("aten.min.other")
def min_other(make: OpBuilder, self: Operand, other: Operand) -> Any:
    return binary(make, "min", self, other)


@operator("aten.max.other")
def max_other(make: OpBuilder, self: Operand, other: Operand) -> Any:
    return binary(make, "max", self, other)


@operator("aten.expand_as.default")
def expand_as(make: OpBuilder, self: Operand, other: Operand) -> Any:
    return broadcast(make, self, other.type.dims)


@operator("aten.tile.default")
def tile(make: OpBuilder, self: Operand, dims: Integers) -> Any:
    return repeat(make, self, dims)


@operator("aten.meshgrid.default", "aten.meshgrid.indexing")
def meshgrid(make: OpBuilder, tensors: Tensors, indexing: str = "ij") -> Any:
    """Tensors of rank 1, each repeated along the dimensions of the others."""
    count = len(tensors)
    axes = [1, 0, *range(2, count)] if indexing == "xy" and count > 1 else [*range(count)]
    extents = [each.type.volume for each in tensors]
    dims = [extents[axis] for axis in axes]
    shapes = [[n if axes[i] == axis else 1 for i in range(count)] for axis, n in enumerate(extents)]
    return tuple(
        make.repeated(make.reshape(x, shape), dims)
        for x, shape in zip(tensors, shapes, strict=True)
    )


@operator("aten.linspace.default")
def linspace(
    make: OpBuilder, start: float, end: float, steps: int, dtype: DType | None = None
) -> Any:
    """Reals at equal distances, with both bounds."""
    if dtype is not None and not dtype.is_float:
        raise OperatorError("torch/arguments", f"dtype = {dtype.value}: reals are expected")
    numbers = make.cast(make.iota(steps), DType.FLOAT64)
    step = (end - start) / (steps - 1) if steps != 1 else 0.0
    items = make("add", make("mul", numbers, float(step)), float(start))
    return make.cast(items, dtype or DType.FLOAT32)


@operator("aten.diff.default")
def diff(
    make: OpBuilder,
    self: Operand,
    n: int = 1,
    dim: int = -1,
    prepend: Operand | None = None,
    append: Operand | None = None,
) -> Any:
    """Differences of neighbours, `n` times."""
    axis = normalize_axis(dim, self.type.rank)
    several = [each for each in (prepend, self, append) if each is not None]
    x = cat(make, tuple(several), axis) if len(several) > 1 else self
    name = "ne" if x.type.dtype is DType.BOOL else "sub"
    for _ in range(min(n, x.type.dims[axis])):
        extent = x.type.dims[axis]
        later = slice_in_dim(make, x, axis, 1, extent)
        x = binary(make, name, later, slice_in_dim(make, x, axis, 0, extent - 1))
    return x


@operator("aten._weight_norm.default")
def weight_norm(make: OpBuilder, v: Operand, g: Operand, dim: int = 0) -> Any:
    """Vectors v with the lengths g; they lie across dimension `dim`."""
    axes = tuple(axis for axis in range(v.type.rank) if dim == -1 or axis != dim)
    length = vector_norm(make, v, 2.0, axes, keepdim=True)
    return make("mul", v, make("div", g, length))


@operator("aten._safe_softmax.default")
def safe_softmax(make: OpBuilder, self: Operand, dim: int, dtype: DType | None = None) -> Any:
    """Zeros in rows of negative infinities only."""
    y = softmax(make, self, dim, dtype)
    if has_no_items(y) or not y.type.rank:
        return y
    most = make("max_reduce", self, axes=(normalize_axis(dim, y.type.rank),))
    zero = make.reshape(tensor(make, 0, y.type.dtype), (1,) * y.type.rank)
    return make("select", make("eq", most, -math.inf), zero, y)


@operator("aten.reshape_as.default", "aten.view_as.default")
def reshape_as(make: OpBuilder, self: Operand, other: Operand) -> Any:
    return make.reshape(self, other.type.dims)


@operator("aten.unflatten.int")
def unflatten(make: OpBuilder, self: Operand, dim: int, sizes: Integers) -> Any:
    """A dimension as several ones; one of them may be -1, the rest."""
    dims = self.type.dims
    axis = normalize_axis(dim, len(dims))
    return make.reshape(self, (*dims[:axis], *completed(dims[axis], sizes), *dims[axis + 1 :]))


@operator("aten.zero.default")
def zero(make: OpBuilder, self: Operand) -> Any:
    return filled(make, self.type.dims, 0, self.type.dtype)


@operator("aten.pad.default")
def pad(
    make: OpBuilder,
    self: Operand,
    pad: Integers,
    mode: str = "constant",
    value: float | None = None,
) -> Any:
    """Borders of a number, or of other items."""
    if mode == "constant":
        return constant_pad(make, self, pad, 0 if value is None else value)
    known = find(f"aten.{_BORDERS.get(mode)}_pad{len(pad) // 2}d.default")
    if known is None:
        raise OperatorError("torch/arguments", f"mode = '{mode}' of {len(pad) // 2} dimensions")
    return known.function(make, self, pad)
