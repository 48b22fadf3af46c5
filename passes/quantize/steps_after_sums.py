"""The steps behind sums of codes, as few numbers per channel: a requantization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from nnefc.ir import DType, Graph, Op, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.extended.quantized import code_limits, exceeds_float32, nearest
from nnefc.passes.analysis.computed_items import computed_items
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import only_user


def _zero() -> Array:
    return np.zeros(())


def _whole() -> Array:
    return np.zeros((), np.int64)


@dataclass(frozen=True, slots=True)
class Codes:
    """The last step: reals are rounded to codes, which are clamped."""

    dtype: DType
    zero: int
    low: int
    high: int
    rounding: Literal["round_even", "round"]
    """To even numbers, or halves up."""


@dataclass(frozen=True, slots=True)
class Addend:
    """Reals of other codes: (codes - zero) factor."""

    codes: Value
    zero: int
    factor: float


@dataclass(frozen=True, slots=True)
class FixedSteps:
    """rounding_shift(doubling_high_product((sums + bias) << left, multiplier), right) + zero."""

    left: Array = field(default_factory=_whole)
    multiplier: Array | None = None
    """None before the product."""
    right: Array = field(default_factory=_whole)
    zero: int = 0
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class StepsAfterSums:
    """clamp((sums + bias) factor + offset + addend, low, high), with numbers in float64.

    Numbers per channel are arrays of rank 1, others of rank 0.  With `first`, its codes less their
    zero point take the place of sums + bias.  With `fixed`, sums + bias are scaled in fixed point.
    """

    value: Value
    """The result of the last step."""
    bias: Array = field(default_factory=_whole)
    factor: Array | None = None
    """None while numbers are int32."""
    offset: Array = field(default_factory=_zero)
    low: float = -math.inf
    high: float = math.inf
    addend: Addend | None = None
    codes: Codes | None = None
    """None while numbers are reals.  Otherwise factors and offset are in units of codes."""
    first: StepsAfterSums | None = None
    """Steps that end with codes."""
    fixed: FixedSteps | None = None
    """Steps of int32, which end with codes; there is no factor."""
    steps: Sequence[Op] = ()
    """The operations, in order."""

    @property
    def is_bounded(self) -> bool:
        return math.isfinite(self.low) or math.isfinite(self.high)

    @property
    def exceeds_float32(self) -> bool:
        """Whether float32 cannot hold a number that sums or codes are multiplied with."""
        factors = [np.ones(()) if self.factor is None else self.factor, np.abs(self.offset)]
        factors += [] if self.addend is None else [np.array(self.addend.factor)]
        return any(map(exceeds_float32, factors))

    @property
    def is_complete(self) -> bool:
        """Whether a requantization has this form."""
        if self.codes is None:
            return self.addend is None and self.first is None and self.fixed is None
        return self.first is None or self.addend is not None


def follow(graph: Graph, start: StepsAfterSums, known: KnownValues) -> StepsAfterSums:
    """As many steps as a requantization can have, each the only user of the one before."""
    state = complete = start
    while (op := only_user(graph, state.value)) is not None:
        if len(op.outputs) != 1 or op.output.type.shape != state.value.type.shape:
            break
        after = _Step(op, state, known).taken()
        if after is None or after.exceeds_float32:
            break
        state = replace(after, value=op.output, steps=(*state.steps, op))
        if state.is_complete:
            complete = state
    return complete


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
        if self.before.codes is not None:
            return self._of_codes(self.before.codes)
        match self.op.name:
            case "add" | "sub":
                return self._added() or self._added_codes()
            case "mul" | "div":
                return self._scaled()
            case "relu" | "max" | "min":
                return self._clamped()
            case "quantize":
                return self._rounded()
            case _:
                return None

    def _of_integers(self) -> StepsAfterSums | None:
        op, before = self.op, self.before
        if before.codes is not None:
            return self._of_codes(before.codes)
        if before.fixed is not None or op.name in ("shift_left", "doubling_high_product"):
            return self._in_fixed_point(before.fixed or FixedSteps())
        if op.name == "cast" and op.output.type.dtype is DType.FLOAT32:
            return replace(before, factor=np.ones(()))
        number = self._other() if op.name == "add" else None
        return None if number is None else replace(before, bias=before.bias + number)

    def _in_fixed_point(self, fixed: FixedSteps) -> StepsAfterSums | None:
        """The next step of int32, in the order that requantizations have."""
        if self.op.name == "cast":
            return self._cast_to_codes(fixed)
        number = self._other() if self._is_first(self.op.name) or self._commutes() else None
        if number is None or self.op.output.type.dtype is not DType.INT32:
            return None
        is_scaled, is_bounded = fixed.multiplier is not None, fixed.high is not None
        match self.op.name:
            case "shift_left" if not is_scaled and not fixed.left.any():
                fixed = replace(fixed, left=number)
            case "doubling_high_product" if not is_scaled:
                fixed = replace(fixed, multiplier=number)
            case "rounding_shift" if is_scaled and not fixed.right.any() and not fixed.zero:
                fixed = replace(fixed, right=number)
            case "add" if is_scaled and not is_bounded and number.size == 1 and not fixed.zero:
                fixed = replace(fixed, zero=int(number.item()))
            case "min" if is_scaled and not is_bounded and number.size == 1:
                fixed = replace(fixed, high=int(number.item()))
            case "max" if is_bounded and fixed.low is None and number.size == 1:
                fixed = replace(fixed, low=int(number.item()))
            case _:
                return None
        return replace(self.before, fixed=fixed)

    def _commutes(self) -> bool:
        return self.op.name in ("add", "min", "max")

    def _cast_to_codes(self, fixed: FixedSteps) -> StepsAfterSums | None:
        """Codes of bounded numbers; the type holds both bounds."""
        dtype, low, high = self.op.output.type.dtype, fixed.low, fixed.high
        if not dtype.is_integer or dtype.itemsize > 1 or low is None or high is None:
            return None
        lowest, highest = code_limits(dtype)
        if not lowest <= low <= high <= highest:
            return None
        codes = Codes(dtype, fixed.zero, low, high, "round_even")
        return replace(self.before, fixed=fixed, codes=codes)

    def _of_codes(self, codes: Codes) -> StepsAfterSums | None:
        """The reals of codes that the steps before give."""
        terms = _scale_and_zero(self.op, self.known) if self.op.name == "dequantize" else None
        if self.before.first is not None or self.before.addend is not None or terms is None:
            return None
        scale, zero = terms
        if self.op.inputs[0] is not self.before.value or zero != codes.zero:
            return None
        return StepsAfterSums(self.before.value, factor=np.array(scale), first=self.before)

    def _added_codes(self) -> StepsAfterSums | None:
        """The sum with reals of other codes."""
        others = [v for v in self.op.inputs if v is not self.before.value]
        before = self.before
        if self.op.name != "add" or len(others) != 1 or before.is_bounded or before.addend:
            return None
        source = others[0].op
        if source is None or source.name != "dequantize" or others[0].type != self.op.output.type:
            return None
        terms, codes = _scale_and_zero(source, self.known), source.inputs[0]
        if terms is None or codes.type.dtype.itemsize > 1 or codes in self.known:
            return None
        return replace(before, addend=Addend(codes, terms[1], terms[0]))

    def _added(self) -> StepsAfterSums | None:
        number, before = self._other(), self.before
        if number is None or before.is_bounded or before.first or not self._is_first("sub"):
            return None
        sign = -1 if self.op.name == "sub" else 1
        return replace(before, offset=before.offset + sign * number)

    def _scaled(self) -> StepsAfterSums | None:
        number, before = self._other(), self.before
        if number is None or not (number > 0).all() or not self._is_first("div"):
            return None
        if number.size > 1 and (before.is_bounded or before.addend or before.first):
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
            case _:
                return None
        before = self.before
        low, high = (min(max(b, low), high) for b in (before.low, before.high))
        return replace(before, low=low, high=high) if low <= high else None

    def _rounded(self) -> StepsAfterSums | None:
        """Codes; scales may vary along channels if the clamped codes have common bounds."""
        terms, dtype = _scales_and_zero(self.op, self.known), self.op.output.type.dtype
        if terms is None or dtype.itemsize > 1 or not self._is_first("quantize"):
            return None
        scale, point = terms
        rounding, first = self.op.attributes["rounding"], self.before.first
        if scale.size > 1 and (first is not None or self.before.addend is not None):
            return None
        name: Literal["round_even", "round"] = "round" if rounding == "up" else "round_even"
        if first is not None and (first.codes is None or first.codes.rounding != name):
            return None
        limits = code_limits(dtype)
        # rounding keeps the order of numbers, so bounds may be rounded instead
        bounds = (bound * (1 / scale) for bound in (self.before.low, self.before.high))
        low, high = (np.clip(nearest(b, rounding) + point, *limits) for b in bounds)
        if np.ptp(low) or np.ptp(high):
            return None
        codes = Codes(dtype, point, int(low.flat[0]), int(high.flat[0]), name)
        return replace(_scaled(self.before, 1 / scale), codes=codes)

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
    addend = steps.addend
    if addend is not None:
        addend = replace(addend, factor=addend.factor * float(number.flat[0]))
    return replace(
        steps,
        addend=addend,
        factor=steps.factor * number,
        offset=steps.offset * number,
        low=steps.low * float(number.flat[0]),
        high=steps.high * float(number.flat[0]),
    )


def _scales_and_zero(op: Op, known: KnownValues) -> tuple[Array, int] | None:
    """The scales in float64, of rank 0 or one per channel, and the common zero point of a
    conversion, if they are known and the scales are positive.
    """
    scale, point = (computed_items(v, known) for v in op.inputs[1:])
    if scale is None or point is None or not (scale > 0).all() or np.ptp(point):
        return None
    if scale.size > 1 and (scale.ndim < 2 or scale.shape[1] != scale.size):
        return None
    numbers = scale.astype(np.float64).reshape(-1 if scale.size > 1 else ())
    return numbers, int(point.flat[0])


def _scale_and_zero(op: Op, known: KnownValues) -> tuple[float, int] | None:
    """Scale and zero point of a conversion, if both are known numbers and the scale is positive."""
    items = [computed_items(v, known) for v in op.inputs[1:]]
    numbers = [x.item() for x in items if x is not None and x.size == 1]
    if len(numbers) != 2 or not numbers[0] > 0:
        return None
    return float(numbers[0]), int(numbers[1])
