"""The steps behind sums of codes, as few numbers per channel: a requantization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nnefc.ir import DType, Graph, Op, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.extended.quantized import code_limits
from nnefc.passes.analysis.computed_items import computed_items
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import only_user


def _zero() -> Array:
    return np.zeros(())


@dataclass(frozen=True, slots=True)
class Codes:
    """The last step: reals are rounded to codes, which are clamped."""

    dtype: DType
    zero: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class StepsAfterSums:
    """clamp((sums + bias) factor + offset, low, high), with numbers in float64.

    Numbers per channel are arrays of rank 1, others of rank 0.
    """

    value: Value
    """The result of the last step."""
    bias: Array = field(default_factory=lambda: _zero().astype(np.int64))
    factor: Array | None = None
    """None while numbers are int32."""
    offset: Array = field(default_factory=_zero)
    low: float = -math.inf
    high: float = math.inf
    codes: Codes | None = None
    """None while numbers are reals.  Otherwise factor and offset are in units of codes."""
    steps: Sequence[Op] = ()
    """The operations, in order."""

    @property
    def is_bounded(self) -> bool:
        return math.isfinite(self.low) or math.isfinite(self.high)


def follow(graph: Graph, start: StepsAfterSums, known: KnownValues) -> StepsAfterSums:
    """As many steps as a requantization can have, each the only user of the one before."""
    state = start
    while state.codes is None and (op := only_user(graph, state.value)) is not None:
        if len(op.outputs) != 1 or op.output.type.shape != state.value.type.shape:
            break
        after = _Step(op, state, known).taken()
        if after is None:
            break
        state = replace(after, value=op.output, steps=(*state.steps, op))
    return state


@dataclass(frozen=True, slots=True)
class _Step:
    """An operation that takes the result of the steps before."""

    op: Op
    before: StepsAfterSums
    known: KnownValues

    def taken(self) -> StepsAfterSums | None:
        """The steps with this one; None if they have another form."""
        if self.before.factor is None:
            return self._of_integers()
        match self.op.name:
            case "add" | "sub":
                return self._added()
            case "mul" | "div":
                return self._scaled()
            case "relu" | "max" | "min" | "clamp":
                return self._clamped()
            case "quantize":
                return self._rounded()
            case _:
                return None

    def _of_integers(self) -> StepsAfterSums | None:
        op, before = self.op, self.before
        if op.name == "cast" and op.output.type.dtype is DType.FLOAT32:
            return replace(before, factor=np.ones(()))
        number = self._other() if op.name == "add" else None
        return None if number is None else replace(before, bias=before.bias + number)

    def _added(self) -> StepsAfterSums | None:
        number, before = self._other(), self.before
        if number is None or before.is_bounded or not self._is_first("sub"):
            return None
        sign = -1 if self.op.name == "sub" else 1
        return replace(before, offset=before.offset + sign * number)

    def _scaled(self) -> StepsAfterSums | None:
        number, before = self._other(), self.before
        if number is None or not (number > 0).all() or not self._is_first("div"):
            return None
        if before.is_bounded and number.size > 1:
            return None
        return _scaled(before, 1 / number if self.op.name == "div" else number)

    def _clamped(self) -> StepsAfterSums | None:
        bounds = [computed_items(v, self.known) for v in self.op.inputs[1:]]
        if self.op.name in ("max", "min"):
            bounds = [self._other()]
        numbers = [float(x.flat[0]) for x in bounds if x is not None and x.size == 1]
        if len(numbers) < len(bounds) or any(map(math.isnan, numbers)):
            return None
        low, high = -math.inf, math.inf
        match self.op.name, numbers:
            case "relu", []:
                low = 0.0
            case "max", [low]:
                pass
            case "min", [high]:
                pass
            case "clamp", [low, high] if self._is_first("clamp"):
                pass
            case _:
                return None
        before = self.before
        low, high = (min(max(b, low), high) for b in (before.low, before.high))
        return replace(before, low=low, high=high) if low <= high else None

    def _rounded(self) -> StepsAfterSums | None:
        _, scale, zero = (computed_items(v, self.known) for v in self.op.inputs)
        dtype = self.op.output.type.dtype
        if scale is None or zero is None or scale.size != 1 or zero.size != 1 or dtype.itemsize > 1:
            return None
        units = _scaled(self.before, 1 / scale.astype(np.float64).reshape(()))
        limits, point = code_limits(dtype), int(zero.item())
        # rounding keeps the order of numbers, so bounds may be rounded instead
        low, high = (np.clip(np.rint(b) + point, *limits) for b in (units.low, units.high))
        return replace(units, codes=Codes(dtype, point, int(low), int(high)))

    def _is_first(self, name: str) -> bool:
        """Whether the steps before give the first operand, if the operation is `name`."""
        return self.op.name != name or self.op.inputs[0] is self.before.value

    def _other(self) -> Array | None:
        """The other of two operands in float64, if it is known and varies along channels alone."""
        others = [v for v in self.op.inputs if v is not self.before.value]
        items = computed_items(others[0], self.known) if len(others) == 1 else None
        if items is None or any(n != 1 for axis, n in enumerate(items.shape) if axis != 1):
            return None
        numbers = items.astype(np.int64 if others[0].type.dtype.is_integer else np.float64)
        return numbers.reshape(numbers.shape[1:2]) if np.isfinite(numbers).all() else None


def _scaled(steps: StepsAfterSums, number: Array) -> StepsAfterSums:
    """The steps with results times a positive number, in float64."""
    assert steps.factor is not None
    return replace(
        steps,
        factor=steps.factor * number,
        offset=steps.offset * number,
        low=steps.low * float(number.flat[0]),
        high=steps.high * float(number.flat[0]),
    )
