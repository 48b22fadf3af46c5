"""Operators that PyTorch decomposes into others: programs without decomposition have them."""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.torch.operators.elementwise import binary, dropout, to_copy
from nnefc.frontends.torch.operators.movement import broadcast, completed, constant_pad, filled
from nnefc.frontends.torch.registry import Integers, Number, find, operator
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


@operator("aten.reshape_as.default")
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
