"""Arithmetic of numbers that depend on symbols: extents, and functions of them."""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.torch.item_types import DEFAULT_REAL, tensor
from nnefc.frontends.torch.registry import Number, operator
from nnefc.ir import DType
from nnefc.ops.core.interface import sequence
from nnefc.symbolic.integers import at_least, at_most


@operator("aten.sym_size.int")
def sym_size(make: OpBuilder, self: Operand, dim: int) -> Any:
    return self.type.dims[normalize_axis(dim, self.type.rank)]


@operator("aten.sym_numel.default")
def sym_numel(make: OpBuilder, self: Operand) -> Any:
    return math.prod(self.type.dims)


@operator("aten.sym_stride.int")
def sym_stride(make: OpBuilder, self: Operand, dim: int) -> Any:
    """The stride of a contiguous tensor."""
    return math.prod(self.type.dims[normalize_axis(dim, self.type.rank) + 1 :])


@operator("aten.sym_storage_offset.default")
def sym_storage_offset(make: OpBuilder, self: Operand) -> Any:
    return 0


@operator("operator.getitem")
def getitem(make: OpBuilder, values: Number, index: int) -> Any:
    """A result of an operator that has several."""
    several = sequence(values) or ()
    if not -len(several) <= index < len(several):
        raise OperatorError("torch/arguments", f"there is no result {index}")
    found = several[index]
    if found is None:
        raise OperatorError("torch/unsupported", f"its result {index} is not supported")
    return found


def _binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    """Register a function of two numbers."""

    def compute(make: OpBuilder, a: Number, b: Number) -> Any:
        return function(a, b)

    operator(name)(compute)


def _unary(name: str, function: Callable[[Any], Any]) -> None:
    """Register a function of a number."""

    def compute(make: OpBuilder, a: Number) -> Any:
        return function(a)

    operator(name)(compute)


_BINARY: Final = (
    *("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"),
    *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_"),
)
for _name in _BINARY:
    _binary(f"operator.{_name}", getattr(python, _name))
_binary("torch.sym_max", at_least)
_binary("torch.sym_min", at_most)
_unary("operator.neg", python.neg)
_unary("torch.sym_int", int)
_unary("torch.sym_float", float)
_unary("torch.sym_not", python.not_)
_unary("torch.sym_sum", sum)
_unary("math.ceil", math.ceil)
_unary("math.floor", math.floor)
_unary("math.trunc", math.trunc)


@operator("torch.sym_ite")
def either(make: OpBuilder, a: Number, b: Number, c: Number) -> Any:
    """`b` if a condition holds, else `c`."""
    return b if a else c


@operator("aten.scalar_tensor.default")
def scalar_tensor(make: OpBuilder, s: Number, dtype: DType | None = None) -> Any:
    return tensor(make, s, dtype or DEFAULT_REAL)


@operator("aten._local_scalar_dense.default", "aten.item.default")
def item(make: OpBuilder, self: Operand) -> Any:
    """The number in a tensor that is known before the model runs; raises OperatorError."""
    if isinstance(self, KnownTensor) and self.array.size == 1:
        return self.array.reshape(-1).tolist()[0]
    message = "the module takes a number out of a tensor that it computes, as item() does"
    hint = "keep it a tensor, or use torch.cond"
    raise OperatorError("torch/value", message, hint, [self])
