"""Rounded quotients, remainders and shifts."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.torch.item_types import common, tensor
from nnefc.frontends.torch.operators.elementwise import binary, div
from nnefc.frontends.torch.registry import Number, operator
from nnefc.ir import DType


def truncated(make: OpBuilder, x: Operand) -> Operand:
    """Reals rounded towards zero."""
    return make("select", make("lt", x, 0.0), make("ceil", x), make("floor", x))


@operator("aten.trunc.default", "aten.fix.default")
def trunc(make: OpBuilder, self: Operand) -> Any:
    return truncated(make, self) if self.type.dtype.is_float else self


@operator("aten.frac.default")
def frac(make: OpBuilder, self: Operand) -> Any:
    return make("sub", self, truncated(make, self))


@operator("aten.round.decimals")
def round_decimals(make: OpBuilder, self: Operand, decimals: int) -> Any:
    """Rounded to a number of decimals, which may be negative."""
    if not self.type.dtype.is_float:
        return self
    factor = 10.0 ** abs(decimals)
    there, back = ("mul", "div") if decimals >= 0 else ("div", "mul")
    return make(back, make("round_even", make(there, self, factor)), factor)


def _numbers(make: OpBuilder, x: Number, y: Number) -> tuple[Operand, Operand]:
    """Operands of their common item type; raises OperatorError for booleans."""
    a, b = common(make, x, y)
    if a.type.dtype is DType.BOOL:
        raise OperatorError("torch/type", "quotients of booleans are not defined")
    return a, b


@operator("aten.div.Tensor_mode", "aten.div.Scalar_mode", "aten.floor_divide.default")
def div_mode(
    make: OpBuilder, self: Number, other: Number, rounding_mode: str | None = "floor"
) -> Any:
    """A quotient that is rounded down or towards zero."""
    if rounding_mode is None:
        return div(make, self, other)
    a, b = common(make, self, other)
    if a.type.dtype is DType.BOOL:  # the divisor is True; PyTorch keeps booleans
        return binary(make, "mul", a, b)
    if a.type.dtype.is_float:
        return _rounded_quotient(make, a, b, rounding_mode)
    quotient = make("div", a, b)
    if rounding_mode == "trunc" or not a.type.dtype.is_signed:
        return quotient
    rest = make("sub", a, make("mul", quotient, b))
    return make("sub", quotient, make.cast(_has_other_sign(make, rest, b), a.type.dtype))


def _rounded_quotient(make: OpBuilder, a: Operand, b: Operand, rounding_mode: str) -> Operand:
    """A quotient of reals as Python rounds it down: of a - a mod b, which is a whole number."""
    if rounding_mode == "trunc":
        return truncated(make, make("div", a, b))
    rest = make("remainder", a, b)
    whole = make("round_even", make("div", make("sub", a, rest), b))
    less = make.cast(_has_other_sign(make, rest, b), a.type.dtype)
    return make("select", make("eq", b, 0.0), make("div", a, b), make("sub", whole, less))


def _has_other_sign(make: OpBuilder, rest: Operand, divisor: Operand) -> Operand:
    """Whether a remainder is not 0, and has another sign than the divisor."""
    zero = tensor(make, 0, rest.type.dtype)
    differ = make("xor", make("lt", rest, zero), make("lt", divisor, zero))
    return make("and", make("ne", rest, zero), differ)


def _floored_remainder(make: OpBuilder, a: Operand, b: Operand) -> Operand:
    """The remainder with the sign of the divisor."""
    rest = make("remainder", a, b)
    if not a.type.dtype.is_signed:
        return rest
    return make("select", _has_other_sign(make, rest, b), make("add", rest, b), rest)


@operator("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(make: OpBuilder, self: Number, other: Number) -> Any:
    """The remainder with the sign of the dividend."""
    return make("remainder", *_numbers(make, self, other))


@operator("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(make: OpBuilder, self: Number, other: Number) -> Any:
    return _floored_remainder(make, *_numbers(make, self, other))


# -- shifts


def _shift(name: str, overload: str) -> None:
    """Register a shift; a shift by the width of the items or more leaves no bits."""

    def compute(make: OpBuilder, self: Number, other: Number) -> Any:
        a, b = common(make, self, other)
        dtype = a.type.dtype
        width = 8 * dtype.itemsize
        is_right = name == "shift_right"
        # signed items have one bit that stays when they are shifted to the right
        last = tensor(make, width - 1, dtype)
        outside = make("ge", b, tensor(make, width, dtype))
        if dtype.is_signed:
            outside = make("or", outside, make("lt", b, tensor(make, 0, dtype)))
        within = make(name, a, make("select", outside, last, b))
        if is_right and dtype.is_signed:
            return within
        return make("select", outside, tensor(make, 0, dtype), within)

    names = [f"aten.bitwise_{overload}_shift.{each}" for each in ("Tensor", "Tensor_Scalar")]
    symbol = "lshift" if overload == "left" else "rshift"
    names += [f"aten.bitwise_{overload}_shift.Scalar_Tensor"]
    names += [f"aten.__{symbol}__.{each}" for each in ("Tensor", "Scalar")]
    operator(*names)(compute)


_shift("shift_left", "left")
_shift("shift_right", "right")
