"""Real numbers computed from symbolic integers, exactly: extents times a factor, rounded.

Exporters compute sizes as floor(float(extent) * 2.0).  Such reals are values of the graph, because
no KnownTensor has them.  This module also knows their items as whole numbers divided by a power of
two.  A cast back to integers is therefore known while the graph is built.  Operations whose results
float32 may not hold exactly are not followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.values import Array, KnownTensor, Operand, has_no_items, integer_array
from nnefc.ir import DType, Value
from nnefc.ops.core.spec import OpSpec
from nnefc.symbolic.counted_extent import CountedExtent
from nnefc.symbolic.sym_int_base import Untraceable

LARGEST: Final = 1 << 24
"""Whole numbers up to this one are exact in float32."""
MAX_BITS: Final = 12
MAX_ITEMS: Final = 64
_MOVES: Final = ("reshape", "squeeze", "unsqueeze", "transpose", "slice")


@dataclass(frozen=True, slots=True, eq=False)
class SymbolicReals:
    """Items numerators / 2^bits; numerators are integers, plain or symbolic."""

    numerators: Array
    bits: int

    def scaled(self, bits: int) -> Array:
        """The numerators for at least as many bits."""
        return np.asarray(self.numerators * (1 << bits - self.bits), object)

    def whole(self) -> Array:
        """The items rounded towards zero."""
        unit = 1 << self.bits
        items = [n // unit if n >= 0 else -(-n // unit) for n in self.numerators.flat]
        return integer_array(items).reshape(self.numerators.shape)


def of_integers(x: KnownTensor) -> SymbolicReals | None:
    """Symbolic integers as reals; None if float32 does not hold them, or only a run tells them."""
    if any(isinstance(item, CountedExtent) for item in x.array.flat):
        return None
    return _checked(x.array, 0)


def _checked(items: Any, bits: int) -> SymbolicReals | None:
    """Reals, unless they are too many or float32 may not hold them exactly."""
    numerators = np.asarray(items, object)  # NumPy computes items of rank 0 as no arrays
    if bits > MAX_BITS or numerators.size > MAX_ITEMS:
        return None
    if not all(-LARGEST <= n <= LARGEST for n in numerators.flat):  # a guard of each symbol
        return None
    return SymbolicReals(numerators, bits)


def follow(
    known: Mapping[Value, SymbolicReals],
    spec: OpSpec,
    tensors: Sequence[Operand],
    attributes: Mapping[str, Any],
) -> SymbolicReals | None:
    """The items of an operation's result; None if they are not known or not exact."""
    if not tensors or tensors[0].type.dtype is not DType.FLOAT32:
        return None
    with suppress(Untraceable, TypeError, ValueError):
        return _result(known, spec, tensors, attributes)
    return None


def _result(
    known: Mapping[Value, SymbolicReals],
    spec: OpSpec,
    tensors: Sequence[Operand],
    attributes: Mapping[str, Any],
) -> SymbolicReals | None:
    name, reals = spec.name, [_reals_of(known, x) for x in tensors]
    x = reals[0]
    if x is None:
        return None
    if name in ("floor", "ceil", "round_even") and not x.bits:
        return x
    if name == "floor":
        return _checked(x.numerators // (1 << x.bits), 0)
    if name == "ceil":
        return _checked(-(-x.numerators // (1 << x.bits)), 0)
    if name in _MOVES and spec.reference is not None:
        return _checked(spec.reference(x.numerators, **attributes), x.bits)
    if name == "gather" and isinstance(tensors[1], KnownTensor) and not tensors[1].is_symbolic:
        return _checked(np.take(x.numerators, tensors[1].array, attributes["axis"]), x.bits)
    several = [each for each in reals if each is not None]
    if len(several) < len(reals):
        return None
    bits = max(each.bits for each in several)
    if name == "concat":
        joined = np.concatenate([each.scaled(bits) for each in several], attributes["axis"])
        return _checked(joined, bits)
    return _arithmetic(name, x, several[-1], bits)


def _arithmetic(name: str, x: SymbolicReals, y: SymbolicReals, bits: int) -> SymbolicReals | None:
    """The result of an operation of two operands."""
    match name:
        case "add":
            return _checked(x.scaled(bits) + y.scaled(bits), bits)
        case "sub":
            return _checked(x.scaled(bits) - y.scaled(bits), bits)
        case "mul":
            return _checked(x.numerators * y.numerators, x.bits + y.bits)
        case "div":
            inverse = _inverse(y)
            return None if inverse is None else _arithmetic("mul", x, inverse, bits)
        case _:
            return None


def _inverse(x: SymbolicReals) -> SymbolicReals | None:
    """1 / x for a plain power of two; None for others."""
    item = x.numerators.reshape(-1)[0]
    if x.numerators.size != 1 or not isinstance(item, int) or item < 1 or item & (item - 1):
        return None
    shift = item.bit_length() - 1 - x.bits
    inverse = np.full(x.numerators.shape, 1 << max(-shift, 0), object)
    return SymbolicReals(inverse, max(shift, 0))


def _reals_of(known: Mapping[Value, SymbolicReals], x: Operand) -> SymbolicReals | None:
    """The items of an operand, if they are followed or plain numbers with few bits."""
    if isinstance(x, Value):
        return known.get(x)
    if has_no_items(x) or x.is_symbolic or not x.dtype.is_float or x.array.size > MAX_ITEMS:
        return None
    wide = x.array.astype(np.float64)
    if not np.isfinite(wide).all():
        return None
    ratios = [item.as_integer_ratio() for item in wide.reshape(-1).tolist()]
    unit = max(below for _, below in ratios)
    if unit > 1 << MAX_BITS:
        return None
    items = np.array([above * (unit // below) for above, below in ratios], object)
    return SymbolicReals(items.reshape(wide.shape), unit.bit_length() - 1)
