"""Elementary functions and conversions for results that are rounded to halves.

Kernels that multiply halves use them in expressions whose results are halves.  Functions differ
by a few ulp of float32 from those of `nnefc.kernels.vector.math`, because quotients are products
with reciprocals.  Denormal numbers may become 0, as in the products.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector import math
from nnefc.kernels.vector.lanes import Lanes, clamp, constant, fma, vector_type
from nnefc.kernels.vector.llvm_types import BFLOAT

LOWEST: Final = -87.0
LARGEST: Final = 88.0
"""e**x is a normal number between these."""
_LN2: Final = 0.6931471824645996
_LOG2E: Final = 1.4426950408889634
_ROUND: Final = 1.5 * 2.0**23
"""Added, it rounds to an integer, which the low bits of the sum are."""


def narrow(x: Lanes, dtype: str) -> Lanes:
    """float32 as halves, rounded to nearest, ties to even.

    By one instruction, which processors that multiply these halves have.
    """
    builder = x.v.builder
    kind = ir.HalfType() if dtype == "float16" else BFLOAT
    halves = builder.fptrunc(x.value, ir.VectorType(kind, x.v.lanes))
    return Lanes(x.v, dtype, builder.bitcast(halves, vector_type(x.v, dtype)))


def quotient(x: Lanes, y: Lanes) -> Lanes:
    """x / y within 3 ulp, for positive y within 2**-126 and 2**127, or NaN."""
    isa, v = host(), x.v
    if not isa.reciprocal or v.lanes != isa.float32_lanes:
        return x / y
    every = ir.Constant(ir.IntType(v.lanes), -1)
    near = y.same(
        v.call(isa.reciprocal, y.value.type, y.value, constant(v, x.dtype, 0).value, every)
    )
    error = fma(-y, near, 1.0)
    return x * fma(near, error, near)


def exp(x: Lanes) -> Lanes:
    """e**x, within 6 ulp, for x within `LOWEST` and `LARGEST`, or NaN.

    Its chain of dependent instructions is short, as tiles have few vectors to compute meanwhile.
    """
    t = fma(x, _LOG2E, _ROUND)
    r = fma(t - _ROUND, -_LN2, x)
    square = r * r
    # minimax for abs(r) <= ln(2) / 2
    low = fma(r, 0.16667114198207855, 0.499992311000824)
    high = fma(r, 0.008312520571053028, 0.04189015552401543)
    y = fma(square, fma(square, high, low), r + 1.0)
    return (y.bits() + (t.bits() << 23)).from_bits()


def sigmoid(x: Lanes) -> Lanes:
    """1 / (1 + e**-x), within 8 ulp where it is at least 2**-126."""
    v = x.v
    low, high = (constant(v, x.dtype, number) for number in (LOWEST, LARGEST))
    return quotient(constant(v, x.dtype, 1), 1.0 + exp(clamp(-x, low, high)))


def tanh(x: Lanes) -> Lanes:
    """Hyperbolic tangent, within 8 ulp."""
    return math.tanh(x, quotient)


def erf(x: Lanes) -> Lanes:
    """Error function, within 8 ulp."""
    return math.erf(x, quotient)


_FUNCTIONS: Final[Mapping[str, Callable[[Lanes], Lanes]]] = {
    "sigmoid": sigmoid,
    "tanh": tanh,
    "erf": erf,
}


def quick(operation: str, x: Lanes, dtype: str) -> Lanes | None:
    """The operation on float32; None for others than conversions to halves and functions."""
    if x.dtype != "float32":
        return None
    if operation == "cast" and (dtype == "bfloat16" or (dtype == "float16" and host().float16)):
        return narrow(x, dtype)
    function = _FUNCTIONS.get(operation)
    return function(x) if function else None
