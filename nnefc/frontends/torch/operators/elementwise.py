"""Element-wise arithmetic, comparisons, logic and casts."""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators import boolean_arithmetic
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.torch.item_types import common, in_reals, result_type, tensor
from nnefc.frontends.torch.registry import Number, operator
from nnefc.ir import DType


def binary(make: OpBuilder, name: str, x: Number, y: Number, dtype: DType | None = None) -> Any:
    """An operation of two operands of their common item type, or of `dtype`; also of booleans."""
    a, b = common(make, x, y, dtype=dtype)
    if a.type.dtype is DType.BOOL:
        found = boolean_arithmetic.binary(make, name, a, b)
        if found is not None:
            return found
    return make(name, a, b)


def scaled(make: OpBuilder, x: Number, factor: Number) -> Number:
    """x times a Python number."""
    if isinstance(factor, int | float) and factor == 1:
        return x
    return binary(make, "mul", x, factor)


@operator("aten.add.Tensor", "aten.add.Scalar")
def add(make: OpBuilder, self: Number, other: Number, alpha: Number = 1) -> Any:
    return binary(make, "add", self, scaled(make, other, alpha))


@operator("aten.sub.Tensor", "aten.sub.Scalar")
def sub(make: OpBuilder, self: Number, other: Number, alpha: Number = 1) -> Any:
    return binary(make, "sub", self, scaled(make, other, alpha))


@operator("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(make: OpBuilder, self: Number, other: Number, alpha: Number = 1) -> Any:
    return binary(make, "sub", other, scaled(make, self, alpha))


@operator("aten.mul.Tensor", "aten.mul.Scalar")
def mul(make: OpBuilder, self: Number, other: Number) -> Any:
    return binary(make, "mul", self, other)


@operator("aten.addcmul.default")
def addcmul(
    make: OpBuilder, self: Operand, tensor1: Operand, tensor2: Operand, value: Number = 1
) -> Any:
    """self + value tensor1 tensor2."""
    return add(make, self, mul(make, scaled(make, tensor1, value), tensor2))


@operator("aten.addcdiv.default")
def addcdiv(
    make: OpBuilder, self: Operand, tensor1: Operand, tensor2: Operand, value: Number = 1
) -> Any:
    """self + value tensor1 / tensor2."""
    return add(make, self, div(make, scaled(make, tensor1, value), tensor2))


@operator("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(make: OpBuilder, self: Operand, end: Operand, weight: Number) -> Any:
    """self + weight (end - self); from the other end where the weight is 1/2 or more."""
    distance = sub(make, end, self)
    if not isinstance(weight, int | float):
        near = add(make, self, mul(make, distance, weight))
        far = sub(make, end, mul(make, distance, sub(make, 1.0, weight)))
        size = make("abs", tensor(make, weight, near.type.dtype))
        return where(make, make("lt", size, 0.5), near, far)
    if abs(weight) < 0.5:
        return add(make, self, mul(make, distance, weight))
    return sub(make, end, mul(make, distance, 1.0 - weight))


@operator("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(make: OpBuilder, self: Number, other: Number) -> Any:
    """The quotient of reals; integers become reals."""
    dtype = result_type(self, other)
    return binary(make, "div", self, other, dtype if dtype.is_float else DType.FLOAT32)


@operator("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def power(make: OpBuilder, self: Number, exponent: Number) -> Any:
    dtype = result_type(self, exponent)
    if isinstance(exponent, int | float) and dtype.is_float:
        x = tensor(make, self, dtype)
        simple = {1: None, 2: "sqr", 0.5: "sqrt", -0.5: "rsqrt", -1: "rcp"}
        if exponent in simple:
            name = simple[exponent]
            return make(name, x) if name else x
    return binary(make, "pow", self, exponent)


def _binary(name: str, *overloads: str) -> None:
    """Register a function of two operands that is one operation."""

    def compute(make: OpBuilder, self: Number, other: Number) -> Any:
        return binary(make, name, self, other)

    operator(*(f"aten.{each}" for each in overloads))(compute)


for _name, _torch in (("eq", "eq"), ("ne", "ne"), ("lt", "lt"), ("le", "le"), ("gt", "gt")):
    _binary(_name, f"{_torch}.Tensor", f"{_torch}.Scalar")
_binary("ge", "ge.Tensor", "ge.Scalar")
_binary("max", "maximum.default")
_binary("min", "minimum.default")
for _name, _torch in (("bitand", "and"), ("bitor", "or"), ("bitxor", "xor")):
    _binary(_name, f"bitwise_{_torch}.Tensor", f"bitwise_{_torch}.Scalar")


def _logical(name: str) -> None:
    """Register a function of truth values."""

    def compute(make: OpBuilder, self: Operand, other: Operand) -> Any:
        return binary(make, name, truth(make, self), truth(make, other))

    operator(f"aten.logical_{name}.default")(compute)


def truth(make: OpBuilder, x: Operand) -> Operand:
    """Whether items differ from 0."""
    return x if x.type.dtype is DType.BOOL else make("ne", x, tensor(make, 0, x.type.dtype))


for _name in ("and", "or", "xor"):
    _logical(_name)


@operator("aten.logical_not.default")
def logical_not(make: OpBuilder, self: Operand) -> Any:
    return make("not", truth(make, self))


@operator("aten.bitwise_not.default")
def bitwise_not(make: OpBuilder, self: Operand) -> Any:
    return make("not" if self.type.dtype is DType.BOOL else "bitnot", self)


# -- of one operand


def _real(name: str, overload: str) -> None:
    """Register a function of reals; integers become reals."""

    def compute(make: OpBuilder, self: Operand) -> Any:
        return make(name, in_reals(make, self))

    operator(f"aten.{overload}.default")(compute)


_REAL: Final = (
    *("exp", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh"),
    *("acosh", "atanh", "sqrt", "rsqrt", "sigmoid", "erf", "log", "log2"),
)
for _name in _REAL:
    _real(_name, _name)
_real("rcp", "reciprocal")


def _plain(name: str, *overloads: str) -> None:
    """Register a function that keeps the item type; booleans and integers for themselves."""

    def compute(make: OpBuilder, self: Operand) -> Any:
        return make(name, self)

    operator(*(f"aten.{each}" for each in overloads))(compute)


_plain("neg", "neg.default")
_plain("relu", "relu.default")


def _rounding(name: str, overload: str) -> None:
    """Register a rounding; integers stay as they are."""

    def compute(make: OpBuilder, self: Operand) -> Any:
        return make(name, self) if self.type.dtype.is_float else self

    operator(f"aten.{overload}.default")(compute)


for _name, _torch in (("floor", "floor"), ("ceil", "ceil"), ("round_even", "round")):
    _rounding(_name, _torch)


@operator("aten.abs.default")
def absolute(make: OpBuilder, self: Operand) -> Any:
    return make("abs", self) if self.type.dtype.is_signed else self


@operator("aten.sign.default", "aten.sgn.default")
def sign(make: OpBuilder, self: Operand) -> Any:
    if self.type.dtype.is_signed:
        return make("sign", self)
    return make.cast(truth(make, self), self.type.dtype)


def nowhere(make: OpBuilder, x: Operand) -> Operand:
    """False for each item."""
    return binary(make, "ne", x, x)


@operator("aten.isnan.default")
def isnan(make: OpBuilder, self: Operand) -> Any:
    return make("is_nan", self) if self.type.dtype.is_float else nowhere(make, self)


@operator("aten.isinf.default")
def isinf(make: OpBuilder, self: Operand) -> Any:
    return make("is_inf", self) if self.type.dtype.is_float else nowhere(make, self)


@operator("aten.clamp.default", "aten.clamp.Tensor")
def clamp(make: OpBuilder, self: Operand, min: Number = None, max: Number = None) -> Any:
    bounds = [each for each in (min, max) if each is not None]
    dtype = result_type(self, *bounds)
    x: Any = self
    if min is not None:
        x = binary(make, "max", x, min, dtype)
    return x if max is None else binary(make, "min", x, max, dtype)


@operator("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(make: OpBuilder, self: Operand, min: Number) -> Any:
    return clamp(make, self, min)


@operator("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(make: OpBuilder, self: Operand, max: Number) -> Any:
    return clamp(make, self, None, max)


@operator("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(make: OpBuilder, condition: Operand, self: Number, other: Number) -> Any:
    a, b = common(make, self, other)
    rank = max(condition.type.rank, a.type.rank, b.type.rank)
    aligned = (make.aligned_right(x, rank) for x in (truth(make, condition), a, b))
    return make("select", *aligned)


@operator("prims.convert_element_type.default")
def convert_element_type(make: OpBuilder, a: Operand, dtype: DType) -> Any:
    """Items of another type."""
    return to_copy(make, a, dtype)


@operator("aten._to_copy.default", "aten.to.dtype")
def to_copy(make: OpBuilder, self: Operand, dtype: DType | None = None) -> Any:
    """Items of another type; the copy of a tensor is itself, as nothing changes it."""
    if dtype is None or dtype is self.type.dtype:
        return self
    if dtype is DType.BOOL:
        return truth(make, self)
    return make.cast(self, dtype)


@operator(
    *("aten.clone.default", "aten.alias.default", "aten.detach.default", "aten.lift_fresh.default"),
    *("aten.contiguous.default", "aten.lift_fresh_copy.default"),
)
def same(make: OpBuilder, self: Operand) -> Any:
    return self


@operator("aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default")
def dropout(make: OpBuilder, input: Operand, p: float, train: bool) -> Any:
    """The input itself; raises OperatorError for training."""
    if train and p:
        message = "dropout is active: the module is in training mode"
        raise OperatorError("torch/training", message, "call module.eval() first")
    return input
