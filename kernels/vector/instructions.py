"""The table of element-wise operations on vectors.

Elementary functions of float32 are those of `nnefc.kernels.vector.math`.  For float64 they call the
C library lane by lane, through a table of addresses, so that a kernel has no undefined symbol.

Operands have the type of the result, except in comparisons, `select` (first operand bool) and
`cast` and `bitcast`.  `min`, `max` and `relu` propagate NaN.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from nnefc.kernels.abi import LIBM
from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector import math as vector_math
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.expression_argument import ELEMENTARY, Number
from nnefc.kernels.vector.integers import (
    doubling_high_product,
    power,
    quotient,
    remainder,
    rounding_shift,
    shift_left,
    shift_right,
)
from nnefc.kernels.vector.item_types import FLOATS, HALVES, INTEGERS, SCALARS
from nnefc.kernels.vector.lanes import (
    Lanes,
    absolute,
    ceil,
    constant,
    floor,
    rint,
    select,
    sqrt,
    vector_type,
)
from nnefc.kernels.vector.llvm_types import I32, I64, POINTER


class Call(NamedTuple):
    """A step of an expression on vectors."""

    operands: list[Lanes]
    numbers: list[Number | None]
    """The values of operands that are literals, None for others."""
    dtype: str
    """Type of the result."""
    libm: Any
    """Address of the table of the C library, an LLVM word."""


Emit = Callable[[Call], Lanes]
"""`emit(call)` emits an operation and returns its result."""


class Instruction(NamedTuple):
    """An element-wise operation."""

    types: tuple[str, ...]
    """Item types of the result; for comparisons, item types of the operands."""
    emit: Emit


def _unary(types: tuple[str, ...], function: Callable[[Lanes], Lanes]) -> Instruction:
    """An operation of one vector."""

    def emit(call: Call) -> Lanes:
        return function(*call.operands)

    return Instruction(types, emit)


def _binary(types: tuple[str, ...], function: Callable[[Lanes, Lanes], Lanes]) -> Instruction:
    """An operation of two vectors."""

    def emit(call: Call) -> Lanes:
        return function(*call.operands)

    return Instruction(types, emit)


def _elementary(name: str) -> Emit:
    """An elementary function: of `vector.math` for float32, of the C library for float64."""
    wide, narrow = _COMPOSED.get(name), getattr(vector_math, name)

    def emit(call: Call) -> Lanes:
        if call.dtype != "float64":
            return narrow(*call.operands)
        if wide is not None:
            return wide(call.libm, *call.operands)
        return _library(name, call.libm, *call.operands)

    return emit


MAX_PRODUCT: Final = 4
"""Powers up to this one are computed as products, within 2 ulp."""


def _product(x: Lanes, exponent: int) -> Lanes:
    """x ** exponent."""
    square = x * x
    match exponent:
        case 2:
            return square
        case 3:
            return square * x
        case _:
            return square * square


def _select(call: Call) -> Lanes:
    return select(*call.operands)


def _cast(call: Call) -> Lanes:
    return convert(call.operands[0], call.dtype)


def _bitcast(call: Call) -> Lanes:
    (x,) = call.operands
    return Lanes(x.v, call.dtype, x.v.builder.bitcast(x.value, vector_type(x.v, call.dtype)))


def _pow(call: Call) -> Lanes:
    x, y = call.operands
    exponent = call.numbers[1]
    if exponent in range(2, MAX_PRODUCT + 1):
        return _product(x, int(exponent or 0))
    return _elementary("pow")(call) if x.is_float else power(x, y)


def _quotient(x: Lanes, y: Lanes) -> Lanes:
    return x / y if x.is_float else quotient(x, y)


def _remainder(call: Call) -> Lanes:
    x, y = call.operands
    return _float_remainder(call.libm, x, y) if x.is_float else remainder(x, y)


def _min_or_max(op: str) -> Emit:
    def emit(call: Call) -> Lanes:
        x, y = call.operands
        first, second = call.numbers
        # a number as first operand: one instruction on x86, which selects the other if it is NaN
        if second is not None and second == second:
            return _extreme(op, y, x)
        if first is not None and first == first:
            return _extreme(op, x, y)
        result = _extreme(op, x, y)
        return select(x.is_nan(), x, result) if x.is_float else result

    return emit


def _extreme(op: str, x: Lanes, y: Lanes) -> Lanes:
    """The smaller or larger item; y if either is NaN."""
    return select(x < y if op == "min" else x > y, x, y)


def _sign(x: Lanes) -> Lanes:
    positive = select(x > 0, 1, x)  # NaN and zeros stay
    return select(x < 0, -1, positive) if x.is_signed else positive


def _relu(x: Lanes) -> Lanes:
    return _extreme("max", constant(x.v, x.dtype, 0), x)


def _rsqr(x: Lanes) -> Lanes:
    # 1 / (x * x) may be infinite or 0 although the result is neither
    y = 1 / x
    return y * y


def halves_up(x: Lanes) -> Lanes:
    """The nearest whole number, the larger one of two."""
    # floor(x + 1/2) without the rounding of the sum
    y = floor(x)
    return select(x - y >= 0.5, y + 1, y)


def _library(name: str, libm: Any, *operands: Lanes) -> Lanes:
    """A function of the C library, lane by lane."""
    assert libm is not None, f"{name} of float64 needs the table of the C library"
    x, builder = operands[0], operands[0].v.builder
    double = ir.DoubleType()
    index = [entry for entry, _ in LIBM].index(name)
    place = builder.inttoptr(builder.add(libm, I64(8 * index)), POINTER)
    address = builder.load(place, typ=I64, align=8)
    kind = ir.FunctionType(double, [double] * len(operands))
    function = builder.inttoptr(address, kind.as_pointer())
    result = ir.Constant(x.value.type, ir.Undefined)
    for lane in range(x.v.lanes):
        items = [builder.extract_element(y.value, I32(lane)) for y in operands]
        result = builder.insert_element(result, builder.call(function, items), I32(lane))
    return x.same(result)


def _float_remainder(libm: Any, x: Lanes, y: Lanes) -> Lanes:
    """x - y * trunc(x / y), exactly: float64 holds the remainder of float32 too."""
    wide = [convert(operand, "float64") for operand in (x, y)]
    return convert(_library("fmod", libm, *wide), x.dtype)


def _sigmoid64(libm: Any, x: Lanes) -> Lanes:
    return vector_math.sigmoid_of_exp(x, _library("exp", libm, -absolute(x)))


def _softplus64(libm: Any, x: Lanes) -> Lanes:
    tail = _library("log1p", libm, _library("exp", libm, -absolute(x)))
    return select(x < 0, 0, x) + tail


_COMPOSED: Final[Mapping[str, Callable[..., Lanes]]] = {
    "sigmoid": _sigmoid64,
    "softplus": _softplus64,
}
"""Functions of float64 that are composed of functions of the C library."""

_NUMBERS: Final = (*FLOATS, *INTEGERS)
_ANY: Final = (*SCALARS, *HALVES)
_BITS: Final = (*INTEGERS, "bool")
_LOGICAL: Final = ("bool",)
_INT32: Final = ("int32",)
_WIDE: Final = ("float32", "float64", "int32", "int64", "uint32", "uint64")

INSTRUCTIONS: Final[Mapping[str, Instruction]] = {
    "copy": _unary(_ANY, lambda x: x),
    "select": Instruction(_ANY, _select),
    "cast": Instruction(_ANY, _cast),
    "bitcast": Instruction(_WIDE, _bitcast),
    "lt": _binary(SCALARS, lambda x, y: x < y),
    "gt": _binary(SCALARS, lambda x, y: x > y),
    "le": _binary(SCALARS, lambda x, y: x <= y),
    "ge": _binary(SCALARS, lambda x, y: x >= y),
    "eq": _binary(SCALARS, lambda x, y: x.equals(y)),
    "ne": _binary(SCALARS, lambda x, y: x.differs(y)),
    "neg": _unary(_NUMBERS, lambda x: -x),
    "abs": _unary(_NUMBERS, absolute),
    "sign": _unary(_NUMBERS, _sign),
    "add": _binary(_NUMBERS, lambda x, y: x + y),
    "sub": _binary(_NUMBERS, lambda x, y: x - y),
    "mul": _binary(_NUMBERS, lambda x, y: x * y),
    "div": _binary(_NUMBERS, _quotient),
    "min": Instruction(_NUMBERS, _min_or_max("min")),
    "max": Instruction(_NUMBERS, _min_or_max("max")),
    "relu": _unary(_NUMBERS, _relu),
    "sqr": _unary(_NUMBERS, lambda x: x * x),
    "pow": Instruction(_NUMBERS, _pow),
    "remainder": Instruction(_NUMBERS, _remainder),
    "rcp": _unary(FLOATS, lambda x: 1 / x),
    "sqrt": _unary(FLOATS, sqrt),
    "rsqrt": _unary(FLOATS, lambda x: 1 / sqrt(x)),
    "rsqr": _unary(FLOATS, _rsqr),
    "floor": _unary(FLOATS, floor),
    "ceil": _unary(FLOATS, ceil),
    "round": _unary(FLOATS, halves_up),
    "round_even": _unary(FLOATS, rint),
    **{name: Instruction(FLOATS, _elementary(name)) for name in sorted(ELEMENTARY - {"pow"})},
    "shift_left": _binary(INTEGERS, shift_left),
    "shift_right": _binary(INTEGERS, shift_right),
    "doubling_high_product": _binary(_INT32, doubling_high_product),
    "rounding_shift": _binary(_INT32, rounding_shift),
    "bitand": _binary(_BITS, lambda x, y: x & y),
    "bitor": _binary(_BITS, lambda x, y: x | y),
    "bitxor": _binary(_BITS, lambda x, y: x ^ y),
    "bitnot": _unary(_BITS, lambda x: ~x),
    "not": _unary(_LOGICAL, lambda x: ~x),
    "and": _binary(_LOGICAL, lambda x, y: x & y),
    "or": _binary(_LOGICAL, lambda x, y: x | y),
    "xor": _binary(_LOGICAL, lambda x, y: x ^ y),
}
