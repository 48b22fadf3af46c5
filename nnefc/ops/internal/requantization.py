"""Requantizations: expressions that turn int32 sums of products of codes into codes or floats.

float scale   cast float32; mul factor; add offset; round; add zero; min high; max low; cast
fixed point   shift_left; doubling_high_product multiplier; rounding_shift; add zero; min; max; cast
to float      cast float32; mul factor; add offset; min high; max low
residual      cast float32 of other codes; add - their zero; mul their factor; add to the product
              of a float scale, or of codes: cast float32; add - zero; mul factor

Input 0 of the expression is the sums.  A bias in int32 may be added first.  Terms that are 0 and
bounds that are infinite have no step.  Front ends emit the same steps (`to_codes` of
`nnefc.frontends.common.operators.quantization`), and passes fuse them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from nnefc.ir import DType, Expression, Step


@dataclass(frozen=True, slots=True)
class Input:
    """A term that is an input of the expression, for instance one number per channel."""

    index: int
    """At least 1, because input 0 is the sums."""


Term = Input | int | float
"""An input of the expression, or a number."""


@dataclass(frozen=True, slots=True)
class FloatScale:
    """round(sum * factor + offset) in float32."""

    factor: Term
    rounding: Literal["round_even", "round"] = "round_even"
    """`round_even` for ONNX and tract, `round` (halves up) for NNEF 4.9.5."""
    offset: Term = 0
    residual: Residual | None = None
    """Added before the sum is rounded."""


@dataclass(frozen=True, slots=True)
class Residual:
    """Reals of other codes in units of the result: (codes - zero) * factor in float32."""

    codes: Input
    dtype: DType
    zero: int
    factor: float


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """rounding_shift(doubling_high_product(sum << left, multiplier), right) in int32, as TFLite."""

    multiplier: Term
    left: Term = 0
    right: Term = 0


@dataclass(frozen=True, slots=True)
class Requantization:
    """clamp(scaled sum + zero, low, high), codes of at most 16 bits."""

    scale: FloatScale | FixedPoint
    dtype: DType
    low: int
    high: int
    """Bounds within the range of `dtype`; the lower one is not larger."""
    zero: Term = 0
    """The zero point of the codes, float32 for a float scale and int32 in fixed point."""
    bias: Term = 0
    """Added to the sums, in int32."""


@dataclass(frozen=True, slots=True)
class ToFloat:
    """The sums as real numbers: clamp(sum * factor + offset, low, high) in float32."""

    factor: Term
    bias: Term = 0
    offset: Term = 0
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True, slots=True)
class SumOfCodes:
    """clamp(round((code - its zero) * factor + residual) + zero, low, high), codes of a sum.

    The code is that of `first`, which has no residual.  Both sums are rounded alike, to even
    numbers if `first` is in fixed point.
    """

    first: Requantization
    factor: float
    residual: Residual
    dtype: DType
    low: int
    high: int
    zero: int

    @property
    def rounding(self) -> Literal["round_even", "round"]:
        """How sums are rounded to codes."""
        scale = self.first.scale
        return scale.rounding if isinstance(scale, FloatScale) else "round_even"


Result = Requantization | ToFloat | SumOfCodes


def requantization_expression(result: Result) -> Expression:
    """The expression of a requantization; the inputs are numbered 1, 2, ... without gaps.

    Raises ValueError for inputs with gaps or for an input that is used twice.
    """
    steps = _Writer(result)
    if isinstance(result, SumOfCodes):
        first = result.first
        assert not isinstance(first.zero, Input)
        _write_codes(steps, first)
        steps.unary("cast", DType.FLOAT32)
        steps.optional("add", -first.zero, DType.FLOAT32)
        steps.binary("mul", result.factor, DType.FLOAT32)
        steps.residual(result.residual)
        steps.unary(result.rounding, DType.FLOAT32)
        steps.codes(result, DType.FLOAT32)
    elif isinstance(result, Requantization):
        _write_codes(steps, result)
    else:
        steps.optional("add", result.bias, DType.INT32)
        steps.product(result.factor, result.offset)
        for name, bound in (("min", result.high), ("max", result.low)):
            if math.isfinite(bound):
                steps.binary(name, bound, DType.FLOAT32)
    return steps.expression()


def _write_codes(steps: _Writer, result: Requantization) -> None:
    scale = result.scale
    steps.optional("add", result.bias, DType.INT32)
    if isinstance(scale, FloatScale):
        kind = DType.FLOAT32
        steps.product(scale.factor, scale.offset)
        if scale.residual is not None:
            steps.residual(scale.residual)
        steps.unary(scale.rounding, kind)
    else:
        kind = DType.INT32
        steps.optional("shift_left", scale.left, kind)
        steps.binary("doubling_high_product", scale.multiplier, kind)
        steps.optional("rounding_shift", scale.right, kind)
    steps.codes(result, kind)


class _Writer:
    """Writes the steps of an expression, each of which takes the result of the one before."""

    def __init__(self, result: Result) -> None:
        self._types: dict[int, DType] = {0: DType.INT32}
        self._steps: list[Step] = []
        self._inputs = 1 + len(inputs_of(result))
        self._last = 0

    def _append(self, step: Step) -> int:
        self._steps.append(step)
        return self._inputs + len(self._steps) - 1

    def unary(self, op: str, dtype: DType) -> None:
        self._last = self._append(Step(op, (self._last,), dtype))

    def binary(self, op: str, term: Term, dtype: DType) -> None:
        if isinstance(term, Input):
            if term.index in self._types:
                raise ValueError(f"input {term.index} of a requantization is used twice")
            self._types[term.index] = dtype
            other = term.index
        else:
            number = float(term) if dtype.is_float else int(term)
            other = self._append(Step("literal", (), dtype, number))
        self._last = self._append(Step(op, (self._last, other), dtype))

    def optional(self, op: str, term: Term, dtype: DType) -> None:
        """A step that changes nothing if the term is 0."""
        if term != 0:
            self.binary(op, term, dtype)

    def product(self, factor: Term, offset: Term) -> None:
        """The sums as float32, times a factor, plus an offset."""
        self.unary("cast", DType.FLOAT32)
        self.binary("mul", factor, DType.FLOAT32)
        self.optional("add", offset, DType.FLOAT32)

    def residual(self, residual: Residual) -> None:
        """Add the reals of other codes."""
        self._types[residual.codes.index] = residual.dtype
        product, self._last = self._last, residual.codes.index
        self.unary("cast", DType.FLOAT32)
        self.optional("add", -residual.zero, DType.FLOAT32)
        self.binary("mul", residual.factor, DType.FLOAT32)
        self._last = self._append(Step("add", (product, self._last), DType.FLOAT32))

    def codes(self, result: Requantization | SumOfCodes, kind: DType) -> None:
        """The last steps, from rounded numbers of type `kind`."""
        self.optional("add", result.zero, kind)
        self.binary("min", result.high, kind)
        self.binary("max", result.low, kind)
        self.unary("cast", result.dtype)

    def expression(self) -> Expression:
        if sorted(self._types) != list(range(self._inputs)):
            raise ValueError(f"inputs of a requantization have gaps: {sorted(self._types)}")
        inputs = tuple(self._types[i] for i in range(self._inputs))
        return Expression(inputs, tuple(self._steps), (self._last,))


def inputs_of(result: Result) -> list[Input]:
    """The terms that are inputs."""
    if isinstance(result, SumOfCodes):
        return [*inputs_of(result.first), result.residual.codes]
    terms = [result.bias]
    if isinstance(result, ToFloat):
        terms += [result.factor, result.offset]
        return [term for term in terms if isinstance(term, Input)]
    scale = result.scale
    terms.append(result.zero)
    if isinstance(scale, FloatScale):
        residual = scale.residual
        terms += [scale.factor, scale.offset, *([residual.codes] if residual else [])]
    else:
        terms += [scale.multiplier, scale.left, scale.right]
    return [term for term in terms if isinstance(term, Input)]
