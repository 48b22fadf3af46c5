"""Recognition of requantizations among expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nnefc.ir import DType, Expression, Step
from nnefc.ops.internal.requantization import (
    FixedPoint,
    FloatScale,
    Input,
    Requantization,
    Residual,
    Result,
    SumOfCodes,
    Term,
    ToFloat,
    inputs_of,
)


def requantization_of(expression: Expression) -> Result | None:
    """The requantization that an expression computes; None if it has another form."""
    links = _Chain(expression).links()
    if links is None or expression.inputs[0] is not DType.INT32:
        return None
    result = _Reader(links).requantization()
    if result is None or len(inputs_of(result)) != len(expression.inputs) - 1:
        return None
    return result


@dataclass(frozen=True, slots=True)
class _Link:
    """A step that takes the result of the one before as its first operand, and at most a term."""

    op: str
    dtype: DType
    term: Term | Residual | None


_COMMUTATIVE: Final = ("add", "mul", "min", "max")


class _Chain:
    """Reads the steps of an expression that form a chain from input 0 to its only result.

    Beside the chain are literals and the steps of a residual; its factor is NaN until it is known.
    """

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._current = 0
        self._literals: dict[int, int | float] = {}
        self._residuals: dict[int, Residual] = {}
        self._links: list[_Link] = []

    def links(self) -> list[_Link] | None:
        """The steps of the chain; None if there are others."""
        for number, step in enumerate(self._expression.steps, len(self._expression.inputs)):
            if step.op == "literal":
                self._literals[number] = step.value or 0
            elif (residual := self._residual(step)) is not None:
                self._residuals[number] = residual
            elif self._extend(step):
                self._current = number
            else:
                return None
        return self._links if self._expression.results == (self._current,) else None

    def _residual(self, step: Step) -> Residual | None:
        """The residual that a step computes; None if it is no step of one."""
        types, first = self._expression.inputs, step.operands[0]
        if step.op == "cast" and 0 < first < len(types) and step.dtype is DType.FLOAT32:
            return Residual(Input(first), types[first], 0, math.nan)
        before = self._residuals.get(first)
        if before is None or len(step.operands) != 2 or step.operands[1] not in self._literals:
            return None
        number = float(self._literals[step.operands[1]])
        is_bare = math.isnan(before.factor) and not before.zero
        if step.op == "add" and is_bare and number.is_integer():
            return Residual(before.codes, before.dtype, -int(number), math.nan)
        if step.op == "mul" and math.isnan(before.factor):
            return Residual(before.codes, before.dtype, before.zero, number)
        return None

    def _extend(self, step: Step) -> bool:
        """Add a step to the chain; returns False if it does not follow."""
        operands = step.operands
        if step.op in _COMMUTATIVE and operands[0] != self._current:
            operands = operands[::-1]
        first, *others = operands
        if first != self._current or self._current in others or len(others) > 1:
            return False
        term: Term | Residual | None = None
        for other in others:
            if 0 < other < len(self._expression.inputs):
                term = Input(other)
            elif other in self._literals:
                term = self._literals[other]
            elif other in self._residuals and not math.isnan(self._residuals[other].factor):
                term = self._residuals[other]
            else:
                return False
        self._links.append(_Link(step.op, step.dtype, term))
        return True


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
        """The term of the next step if it is `op`, and takes no residual."""
        if self._links and isinstance(self._links[0].term, Residual):
            return None
        link = self._take(op, dtype)
        return None if link is None or isinstance(link.term, Residual) else link.term

    def _residual(self) -> Residual | None:
        """The residual that the next step adds, if any."""
        if not self._links or not isinstance(self._links[0].term, Residual):
            return None
        link = self._take("add", DType.FLOAT32)
        return link.term if link is not None and isinstance(link.term, Residual) else None

    def requantization(self) -> Result | None:
        """The requantization that all steps compute."""
        bias = self._term("add", DType.INT32) or 0
        if self._take("cast", DType.FLOAT32) is None:
            fixed = self._fixed_point()
            codes = None if fixed is None else self._codes(DType.INT32)
            if fixed is None or codes is None:
                return None
            return self._result(Requantization(fixed, *codes, bias))
        factor = self._term("mul", DType.FLOAT32)
        if factor is None:
            return None
        offset = self._term("add", DType.FLOAT32) or 0
        residual = self._residual()
        for rounding in ("round_even", "round"):
            if self._take(rounding, DType.FLOAT32) is not None:
                scale = FloatScale(factor, rounding, offset, residual)
                codes = self._codes(DType.FLOAT32)
                return codes and self._result(Requantization(scale, *codes, bias))
        high, low = self._real_bound("min", math.inf), self._real_bound("max", -math.inf)
        if self._links or residual or low is None or high is None or not low <= high:
            return None
        return ToFloat(factor, bias, offset, low, high)

    def _fixed_point(self) -> FixedPoint | None:
        left = self._term("shift_left", DType.INT32)
        multiplier = self._term("doubling_high_product", DType.INT32)
        right = self._term("rounding_shift", DType.INT32)
        return None if multiplier is None else FixedPoint(multiplier, left or 0, right or 0)

    def _result(self, first: Requantization) -> Result | None:
        """`first`, or what the steps left do with its codes."""
        return self._sum(first) if self._links else first

    def _sum(self, first: Requantization) -> SumOfCodes | None:
        """The sum of the codes of `first` and others."""
        scale = first.scale
        rounding = scale.rounding if isinstance(scale, FloatScale) else "round_even"
        if self._take("cast", DType.FLOAT32) is None:
            return None
        if isinstance(scale, FloatScale) and scale.residual is not None:
            return None
        zero = self._term("add", DType.FLOAT32) or 0
        factor, residual = self._term("mul", DType.FLOAT32), self._residual()
        if not isinstance(first.zero, int | float) or zero != -first.zero:
            return None
        if factor is None or isinstance(factor, Input) or residual is None:
            return None
        codes = self._codes(DType.FLOAT32) if self._take(rounding, DType.FLOAT32) else None
        if codes is None or self._links:
            return None
        dtype, low, high, point = codes
        if isinstance(point, Input):
            return None
        return SumOfCodes(first, float(factor), residual, dtype, low, high, int(point))

    def _codes(self, kind: DType) -> tuple[DType, int, int, Term] | None:
        """The last steps: the addition of the zero point, the clamp and the cast to codes."""
        zero = self._term("add", kind)
        high, low = self._bound("min", kind), self._bound("max", kind)
        last = self._links.pop(0) if self._links else None
        if low is None or high is None or last is None or last.op != "cast":
            return None
        if not last.dtype.is_integer or last.dtype.itemsize > 2:
            return None
        codes = np.iinfo(last.dtype.numpy)
        if not codes.min <= low <= high <= codes.max:
            return None
        return last.dtype, low, high, zero or 0

    def _real_bound(self, op: str, default: float) -> float | None:
        """A bound of real numbers; `default` without such a step, None if it is an input."""
        link = self._take(op, DType.FLOAT32)
        if link is None:
            return default
        return float(link.term) if isinstance(link.term, int | float) else None

    def _bound(self, op: str, kind: DType) -> int | None:
        """A bound that is a whole number."""
        term = self._term(op, kind)
        if isinstance(term, Input) or term is None or not float(term).is_integer():
            return None
        return int(term)
