"""Expressions as arguments of kernel families, in a canonical form that many networks share.

Exporters write an operation in many ways: a + b or b + a, the number 0.1 or the float32 nearest to
it.  Kernels of these are the same, so they should have one name.  The canonical form has

- literals as their type stores them;
- operands of commutative operations in order: inputs by number, then results of steps;
- steps in the order in which the results need them, and none that no result needs.

Results are unchanged, to the bit.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nnefc.ir import DType, Expression, Step
from nnefc.kernels.vector import expression_argument
from nnefc.ops.tools.table import operations
from nnefc.support.digests import blake2b

Number = bool | int | float

_ROUNDED: Final = {DType.FLOAT32: np.float32}
"""Types whose literals are rounded; others are computed in wider types."""


def kernel_expression(expression: Expression) -> expression_argument.Expression:
    """The canonical form of an expression; inputs and results keep their order."""
    canonical = _Canonical(expression)
    results = tuple(map(canonical.number, expression.results))
    return expression_argument.Expression(
        tuple(dtype.value for dtype in expression.inputs), tuple(canonical.steps), results
    )


class _Canonical:
    """The steps of an expression in canonical form, appended when a result needs them."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._inputs = len(expression.inputs)
        self._digests: dict[int, bytes] = {}
        self._numbers: dict[int, int] = {}
        self._of_digest: dict[bytes, int] = {}
        self.steps: list[expression_argument.StepKey] = []
        for i in range(len(expression.steps)):
            self._digest(self._inputs + i)

    def number(self, operand: int) -> int:
        """The new number of an operand, with all steps that it needs before it."""
        if operand < self._inputs:
            return operand
        digest = self._digest(operand)
        if digest not in self._of_digest:
            step = self._step(operand)
            operands = tuple(map(self.number, self._sorted(step)))
            self.steps.append((step.op, operands, step.dtype.value, stored_literal(step)))
            self._of_digest[digest] = self._inputs + len(self.steps) - 1
        return self._of_digest[digest]

    def _step(self, operand: int) -> Step:
        return self._expression.steps[operand - self._inputs]

    def _sorted(self, step: Step) -> list[int]:
        """The operands of a step, in canonical order."""
        spec = operations().get(step.op)
        if spec is None or not spec.commutative:
            return list(step.operands)
        return sorted(step.operands, key=self._order)

    def _order(self, operand: int) -> tuple[int, bytes]:
        is_input = operand < self._inputs
        return (operand, b"") if is_input else (self._inputs, self._digest(operand))

    def _digest(self, operand: int) -> bytes:
        """A digest of an operand and all that it is computed from."""
        if operand < self._inputs:
            return b"%d" % operand
        if operand not in self._digests:
            step = self._step(operand)
            operands = [self._digest(each) for each in self._sorted(step)]
            text = repr((step.op, operands, step.dtype.value, stored_literal(step)))
            self._digests[operand] = blake2b(text.encode(), digest_size=16).digest()
        return self._digests[operand]


def stored_literal(step: Step) -> Number | None:
    """The literal value of a step, as its type stores it."""
    rounded = _ROUNDED.get(step.dtype)
    if rounded is None or step.value is None:
        return step.value
    with np.errstate(over="ignore"):
        return float(rounded(step.value))
