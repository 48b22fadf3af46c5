"""Requantizations: expressions that turn int32 sums of products of codes into codes or floats.

float scale   cast float32; mul factor; add offset; round; add zero; min high; max low; cast
fixed point   shift_left; doubling_high_product multiplier; rounding_shift; add zero; min; max; cast
to float      cast float32; mul factor; add offset; min high; max low

Input 0 of the expression is the sums.  A bias in int32 may be added first.  Terms that are 0 and
bounds that are infinite have no step.  Front ends emit the same steps (`to_codes` of
`nnefc.frontends.common.operators.quantization`), and passes fuse them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

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


def requantization_expression(result: Requantization | ToFloat) -> Expression:
    """The expression of a requantization; the inputs are numbered 1, 2, ... without gaps.

    Raises ValueError for inputs with gaps or for an input that is used twice.
    """
    steps = _Writer(result)
    steps.optional("add", result.bias, DType.INT32)
    if isinstance(result, ToFloat):
        steps.product(result.factor, result.offset)
        for name, bound in (("min", result.high), ("max", result.low)):
            if math.isfinite(bound):
                steps.binary(name, bound, DType.FLOAT32)
        return steps.expression()
    scale = result.scale
    if isinstance(scale, FloatScale):
        kind = DType.FLOAT32
        steps.product(scale.factor, scale.offset)
        steps.unary(scale.rounding, kind)
    else:
        kind = DType.INT32
        steps.optional("shift_left", scale.left, kind)
        steps.binary("doubling_high_product", scale.multiplier, kind)
        steps.optional("rounding_shift", scale.right, kind)
    steps.optional("add", result.zero, kind)
    steps.binary("min", result.high, kind)
    steps.binary("max", result.low, kind)
    steps.unary("cast", result.dtype)
    return steps.expression()


class _Writer:
    """Writes the steps of an expression, each of which takes the result of the one before."""

    def __init__(self, result: Requantization | ToFloat) -> None:
        self._types: dict[int, DType] = {0: DType.INT32}
        self._steps: list[Step] = []
        self._inputs = 1 + len(_inputs(result))
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

    def expression(self) -> Expression:
        if sorted(self._types) != list(range(self._inputs)):
            raise ValueError(f"inputs of a requantization have gaps: {sorted(self._types)}")
        inputs = tuple(self._types[i] for i in range(self._inputs))
        return Expression(inputs, tuple(self._steps), (self._last,))


def _inputs(result: Requantization | ToFloat) -> list[Input]:
    """The terms that are inputs."""
    terms = [result.bias]
    if isinstance(result, ToFloat):
        terms += [result.factor, result.offset]
    else:
        scale = result.scale
        terms.append(result.zero)
        terms += (
            [scale.factor, scale.offset]
            if isinstance(scale, FloatScale)
            else [scale.multiplier, scale.left, scale.right]
        )
    return [term for term in terms if isinstance(term, Input)]


# -- recognition


def requantization_of(expression: Expression) -> Requantization | ToFloat | None:
    """The requantization that an expression computes; None if it has another form."""
    links = _chain(expression)
    if links is None or expression.inputs[0] is not DType.INT32:
        return None
    result = _Reader(links).requantization()
    if result is None or len(_inputs(result)) != len(expression.inputs) - 1:
        return None
    return result


@dataclass(frozen=True, slots=True)
class _Link:
    """A step that takes the result of the one before as its first operand, and at most a term."""

    op: str
    dtype: DType
    term: Term | None


_COMMUTATIVE: Final = ("add", "mul", "min", "max")


def _chain(expression: Expression) -> list[_Link] | None:
    """The steps of an expression that form a chain from input 0 to its only result; else None."""
    count, current = len(expression.inputs), 0
    literals: dict[int, int | float] = {}
    links: list[_Link] = []
    for number, step in enumerate(expression.steps, count):
        if step.op == "literal":
            literals[number] = step.value or 0
            continue
        operands = step.operands
        if step.op in _COMMUTATIVE and operands[0] != current:
            operands = operands[::-1]
        first, *others = operands
        if first != current or current in others or len(others) > 1:
            return None
        term: Term | None = None
        for other in others:
            if 0 < other < count:
                term = Input(other)
            elif other in literals:
                term = literals[other]
            else:
                return None
        links.append(_Link(step.op, step.dtype, term))
        current = number
    return links if expression.results == (current,) else None


class _Reader:
    """Takes the steps of a chain from its start."""

    def __init__(self, links: Sequence[_Link]) -> None:
        self._links = list(links)

    def _take(self, op: str, dtype: DType) -> _Link | None:
        """The next step if it is `op` with a result of `dtype`, else None."""
        if self._links and (self._links[0].op, self._links[0].dtype) == (op, dtype):
            return self._links.pop(0)
        return None

    def _term(self, op: str, dtype: DType) -> Term | None:
        link = self._take(op, dtype)
        return None if link is None else link.term

    def requantization(self) -> Requantization | ToFloat | None:
        bias = self._term("add", DType.INT32) or 0
        if self._take("cast", DType.FLOAT32) is None:
            fixed = self._fixed_point()
            return None if fixed is None else self._codes(fixed, DType.INT32, bias)
        factor = self._term("mul", DType.FLOAT32)
        if factor is None:
            return None
        offset = self._term("add", DType.FLOAT32) or 0
        for rounding in ("round_even", "round"):
            if self._take(rounding, DType.FLOAT32) is not None:
                return self._codes(FloatScale(factor, rounding, offset), DType.FLOAT32, bias)
        high, low = self._real_bound("min", math.inf), self._real_bound("max", -math.inf)
        if self._links or low is None or high is None or not low <= high:
            return None
        return ToFloat(factor, bias, offset, low, high)

    def _fixed_point(self) -> FixedPoint | None:
        left = self._term("shift_left", DType.INT32)
        multiplier = self._term("doubling_high_product", DType.INT32)
        right = self._term("rounding_shift", DType.INT32)
        return None if multiplier is None else FixedPoint(multiplier, left or 0, right or 0)

    def _codes(
        self, scale: FloatScale | FixedPoint, kind: DType, bias: Term
    ) -> Requantization | None:
        """The last steps: the addition of the zero point, the clamp and the cast to codes."""
        zero = self._term("add", kind)
        high, low = self._bound("min", kind), self._bound("max", kind)
        last = self._links[0] if len(self._links) == 1 else None
        if low is None or high is None or last is None or last.op != "cast":
            return None
        if not last.dtype.is_integer or last.dtype.itemsize > 2:
            return None
        codes = np.iinfo(last.dtype.numpy)
        if not codes.min <= low <= high <= codes.max:
            return None
        return Requantization(scale, last.dtype, low, high, zero or 0, bias)

    def _real_bound(self, op: str, default: float) -> float | None:
        """A bound of real numbers; `default` without such a step, None if it is an input."""
        link = self._take(op, DType.FLOAT32)
        if link is None:
            return default
        return None if link.term is None or isinstance(link.term, Input) else float(link.term)

    def _bound(self, op: str, kind: DType) -> int | None:
        """A bound that is a whole number."""
        term = self._term(op, kind)
        if isinstance(term, Input) or term is None or not float(term).is_integer():
            return None
        return int(term)
