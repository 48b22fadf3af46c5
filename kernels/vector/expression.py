"""Element-wise expressions as vector IR.

`emit` emits a whole expression, the steps of an `ir.Expression`, for any number of lanes and every
element-wise operation and type.  Functions on float32 are those of `nnefc.kernels.vector.math`.  On
float64 they call the C library lane by lane, through a table of addresses, so that a kernel has no
undefined symbol.

Operands have the type of the result, but for comparisons, `select` (first operand bool) and
`cast`.  `min`, `max`, `relu` of a NaN are NaN.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir

from nnefc.kernels.abi import LIBM
from nnefc.kernels.vector import math as vector_math
from nnefc.kernels.vector.builder import LaneBuilder
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.integers import INTEGERS, remainder, shift_left, shift_right
from nnefc.kernels.vector.lanes import Lanes, absolute, ceil, constant, floor, rint, select, sqrt
from nnefc.kernels.vector.llvm_types import I32, I64, POINTER
from nnefc.kernels.vector.scalar import ELEMENTARY, Expression, Number


def emit(
    v: LaneBuilder, expression: Expression, inputs: Sequence[Lanes], libm: Any = None
) -> list[Lanes]:
    """The results, given vectors of the inputs.

    `libm`: address of the table of the C library, an LLVM word; needed if the expression
    `calls_library`.
    """
    values = list(inputs)
    literals: dict[int, Number] = {}
    for op, operands, dtype, number in expression.steps:
        if op == "literal":
            assert number is not None
            literals[len(values)] = number
            values.append(constant(v, dtype, number))
            continue
        known = [literals.get(operand) for operand in operands]
        values.append(_step(op, [values[operand] for operand in operands], known, dtype, libm))
    return [values[result] for result in expression.results]


MAX_PRODUCT: Final = 4
"""Powers up to this one are products: within 2 ulp, at a fraction of the cost."""


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


def _step(
    op: str, operands: list[Lanes], known: list[Number | None], dtype: str, libm: Any
) -> Lanes:
    """One operation; `known` holds the operands that are literals."""
    x = operands[0]
    if op == "cast":
        return convert(x, dtype)
    if op in ("min", "max"):
        first, second = operands
        # one instruction on x86: it selects the other operand if that is NaN
        if known[1] is not None and known[1] == known[1]:
            return _extreme(op, second, first)
        if known[0] is not None and known[0] == known[0]:
            return _extreme(op, first, second)
        y = _extreme(op, first, second)
        return select(first.is_nan(), first, y) if first.is_float else y
    if op == "select":
        return select(*operands)
    if op == "pow" and known[1] in range(2, MAX_PRODUCT + 1):
        return _product(x, int(known[1] or 0))
    if op == "remainder" and x.is_float:
        return _float_remainder(libm, *operands)
    if op in INTEGERS and not x.is_float:
        return INTEGERS[op](*operands)
    if op in ELEMENTARY and dtype == "float64":
        return _LIBRARY[op](libm, x) if op in _LIBRARY else _library(op, libm, *operands)
    if op in ELEMENTARY:
        return getattr(vector_math, op)(*operands)
    return _UNARY[op](x) if len(operands) == 1 else _BINARY[op](*operands)


def _extreme(op: str, x: Lanes, y: Lanes) -> Lanes:
    """The smaller or larger; y if one is NaN."""
    return select(x < y if op == "min" else x > y, x, y)


def _sign(x: Lanes) -> Lanes:
    positive = select(x > 0, 1, x)  # NaN and zeros stay
    return select(x < 0, -1, positive) if x.is_signed else positive


def _relu(x: Lanes) -> Lanes:
    return _extreme("max", constant(x.v, x.dtype, 0), x)


def _rsqr(x: Lanes) -> Lanes:
    # 1 / (x * x) would underflow although the result is a number.
    y = 1 / x
    return y * y


def _round(x: Lanes) -> Lanes:
    # floor(x + 1/2) without the rounding of the sum
    y = floor(x)
    return select(x - y >= 0.5, y + 1, y)


_UNARY: Final[dict[str, Callable[[Lanes], Lanes]]] = {
    "copy": lambda x: x,
    "neg": lambda x: -x,
    "abs": absolute,
    "sign": _sign,
    "relu": _relu,
    "rcp": lambda x: 1 / x,
    "sqr": lambda x: x * x,
    "sqrt": sqrt,
    "rsqrt": lambda x: 1 / sqrt(x),
    "rsqr": _rsqr,
    "floor": floor,
    "ceil": ceil,
    "round": _round,
    "round_even": rint,
    "not": lambda x: ~x,
    "bitnot": lambda x: ~x,
}
_BINARY: Final[dict[str, Callable[[Lanes, Lanes], Lanes]]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "bitand": lambda x, y: x & y,
    "bitor": lambda x, y: x | y,
    "bitxor": lambda x, y: x ^ y,
    "shift_left": shift_left,
    "shift_right": shift_right,
    "remainder": remainder,
    "lt": lambda x, y: x < y,
    "gt": lambda x, y: x > y,
    "le": lambda x, y: x <= y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x.equals(y),
    "ne": lambda x, y: x.differs(y),
}

# -- float64


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


_LIBRARY: Final[dict[str, Callable[[Any, Lanes], Lanes]]] = {
    "sigmoid": _sigmoid64,
    "softplus": _softplus64,
}
"""Functions composed of those of the C library."""
