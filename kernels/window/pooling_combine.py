"""The combinations of two vectors in pooling."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.expression_argument import Number
from nnefc.kernels.vector.item_types import limits
from nnefc.kernels.vector.lanes import Lanes, select

Combine = Callable[[Lanes, Lanes], Lanes]


def add(x: Lanes, held: Lanes) -> Lanes:
    return x + held


def number(sign: Literal["<", ">"]) -> Combine:
    """The larger or smaller item, or `held` if either is NaN; one instruction on x86."""

    def combine(x: Lanes, held: Lanes) -> Lanes:
        return select(x > held if sign == ">" else x < held, x, held)

    return combine


def extreme(sign: Literal["<", ">"]) -> Combine:
    """The larger or smaller item, or NaN if either is NaN."""
    quick = number(sign)

    def combine(x: Lanes, held: Lanes) -> Lanes:
        if not x.is_float:
            return quick(x, held)
        missing = x.is_nan()
        return select(missing, x, quick(x, held))

    return combine


COMBINE: Final[dict[str, Combine]] = {"sum": add, "max": extreme(">"), "min": extreme("<")}
"""The combination of two vectors by reduction."""


def neutral(kind: str, item: str) -> Number:
    """The number of a type that the reduction `kind` starts from."""
    lowest, highest = limits(item)
    return {"sum": 0, "max": lowest, "min": highest}[kind]


def has_nan(x: Lanes) -> Any:
    """Whether any lane is NaN, as an LLVM i1."""
    builder, bits = x.v.builder, ir.IntType(x.v.lanes)
    return builder.icmp_unsigned("!=", builder.bitcast(x.is_nan().value, bits), bits(0))
