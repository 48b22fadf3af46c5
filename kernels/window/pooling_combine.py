"""How the kernels of pooling put two vectors together."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir

from nnefc.kernels.vector.builder import Vector

Combine = Callable[[Vector, Any, Any], Any]


def add(v: Vector, x: Any, held: Any) -> Any:
    return v.add(x, held)


def number(sign: str) -> Combine:
    """The larger or smaller, `held` if one is NaN: one instruction on x86."""

    def combine(v: Vector, x: Any, held: Any) -> Any:
        return v.builder.select(v.builder.fcmp_ordered(sign, x, held), x, held)

    return combine


def extreme(sign: str) -> Combine:
    """The larger or smaller; NaN if one is NaN."""
    quick = number(sign)

    def combine(v: Vector, x: Any, held: Any) -> Any:
        missing = v.builder.fcmp_unordered("uno", x, x)
        return v.builder.select(missing, x, quick(v, x, held))

    return combine


COMBINE: Final[dict[str, tuple[Combine, float]]] = {
    "sum": (add, 0.0),
    "max": (extreme(">"), -math.inf),
    "min": (extreme("<"), math.inf),
}
"""How two vectors are put together, and what changes nothing."""


def has_nan(v: Vector, x: Any) -> Any:
    """Whether a lane is NaN."""
    missing = v.builder.fcmp_unordered("uno", x, x)
    bits = ir.IntType(v.lanes)
    return v.builder.icmp_unsigned("!=", v.builder.bitcast(missing, bits), bits(0))
