"""Match causal masks, which hide the columns behind a diagonal from each row."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nnefc.ir import Expression, Op, Shape, Step, TensorType, Value
from nnefc.ops.core.arrays import widen
from nnefc.ops.tools.reference import apply, evaluate_expression
from nnefc.passes.analysis.known_data import Known
from nnefc.passes.base import RESHAPES, is_elementwise, splat
from nnefc.symbolic.integers import specialized

Array = np.ndarray[Any, Any]

HIDDEN: Final = -1e30
"""Scores of so much and less are those of what is hidden, unless all of a row are: their
exponentials are 0."""


class CausalMasks:
    """Finds causal masks at the end of expressions; what is the same mask is looked at once."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._diagonals: dict[tuple[Value, str, float, Shape], int | None] = {}

    def without_mask(
        self, expression: Expression, others: tuple[Value, ...], scores: Shape
    ) -> tuple[Expression, tuple[Value, ...], int] | None:
        """The expression over scores and `others` without the causal mask that it ends with.

        Gives what is left of the expression and of `others`, and the diagonal: row i looks at
        columns up to number i + diagonal.  None if there is no such mask.
        """
        for mask, masked, kind, low in _candidates(expression):
            if not 0 < mask <= len(others):
                continue
            left, kept = _ending_with(expression, masked)
            rest = tuple(others[i - 1] for i in kept)
            hidden = -math.inf if self._may_hide(left, rest) else HIDDEN
            if low <= hidden:
                diagonal = self._diagonal(others[mask - 1], kind, hidden, scores)
                if diagonal is not None:
                    return left, rest, diagonal
        return None

    def _may_hide(self, expression: Expression, others: tuple[Value, ...]) -> bool:
        """Whether an expression hides scores: those that the mask leaves may all be lower then."""
        if any(_literal(step) <= HIDDEN for step in expression.steps):
            return True
        known = (self._known.items(value) for value in others)
        return any(items is None or not np.all(items > HIDDEN) for items in known)

    def _diagonal(self, mask: Value, kind: str, hidden: float, scores: Shape) -> int | None:
        if mask.type.rank != len(scores):
            return None
        if (found := _triangle(mask)) is not None:
            return _diagonal_of(*found, kind, hidden, scores)
        if mask not in self._known:
            return None
        key = mask, kind, hidden, specialized(scores[-2:])
        if key not in self._diagonals:
            items = self._known.items(mask)
            shown = None if items is None else _shown(items, kind, hidden)
            self._diagonals[key] = None if shown is None else _diagonal(shown, scores)
        return self._diagonals[key]


def _candidates(expression: Expression) -> list[tuple[int, int, str, float]]:
    """(mask, what it is put on, how, what hides) of operands that the last step may hide scores
    with; those that are added are what hides themselves.
    """
    count = len(expression.inputs)
    last = expression.results[0] - count
    if last < 0:
        return []
    step = expression.steps[last]
    if step.op == "add":
        x, y = step.operands
        return [(y, x, "added", -math.inf), (x, y, "added", -math.inf)]
    if step.op == "select":
        mask, x, y = step.operands
        return [
            (mask, masked, kind, low)
            for masked, other, kind in ((x, y, "shows"), (y, x, "hides"))
            if other >= count and (low := _literal(expression.steps[other - count])) <= HIDDEN
        ]
    return []


def _literal(step: Step) -> float:
    """The value of a literal; NaN of other steps."""
    return math.nan if step.value is None else float(step.value)


def _shown(items: Array, kind: str, hidden: float) -> Array | None:
    """What a mask does not hide; None if it does something else."""
    if kind != "added":
        return items != (kind == "hides")
    shown = items == 0
    return shown if np.all(shown | (items <= hidden)) else None


def _diagonal(shown: Array, scores: Shape) -> int | None:
    """The number of the last column that row 0 looks at, if every row looks at one more."""
    if shown.shape[-2:] != scores[-2:] or not shown.size:
        return None
    rows, columns = shown.shape[-2:]
    matrix = shown[(0,) * (shown.ndim - 2)]
    if not np.array_equal(shown, np.broadcast_to(matrix, shown.shape)):
        return None
    diagonal = int(np.count_nonzero(matrix[0])) - 1
    row, column = np.ogrid[:rows, :columns]
    is_triangle = np.array_equal(matrix, column <= row + diagonal)
    return diagonal if diagonal >= 0 and is_triangle else None


def _triangle(value: Value) -> tuple[Op, Array] | None:
    """The triangle that all of a value is computed of, and what becomes of its items true, false.

    Only that: the value is a function of each of its items.
    """
    op = value.op
    if op is None or len(op.outputs) != 1:
        return None
    if op.name == "tri":
        return op, np.array([True, False])
    sources = [v for v in op.inputs if splat(v) is None]
    if len(sources) != 1 or (found := _triangle(sources[0])) is None:
        return None
    triangle, items = found
    if op.name in RESHAPES:
        same = op.output.type.dims[-2:] == triangle.output.type.dims[-2:]
        return found if same else None
    if op.output.type.rank != sources[0].type.rank:  # other dimensions would be the last ones
        return None
    operands = [items if v is sources[0] else widen(splat(v), v.type.dtype) for v in op.inputs]
    if op.name == "fused":
        type_ = TensorType(op.output.type.dtype, items.shape)
        (result,) = evaluate_expression(op.attributes["expression"], operands, [type_])
        return triangle, np.broadcast_to(result, items.shape)
    if is_elementwise(op):
        return triangle, np.broadcast_to(apply(op, operands)[0], items.shape)
    return None


def _diagonal_of(triangle: Op, items: Array, kind: str, hidden: float, scores: Shape) -> int | None:
    """The diagonal of a mask whose items are these where the triangle is true, and false."""
    shown = _shown(items, kind, hidden)
    dims, a = triangle.output.type.dims, triangle.attributes
    if shown is None or dims[-2:] != scores[-2:] or bool(shown[0]) == bool(shown[1]):
        return None
    is_lower = bool(shown[0]) != a["above"]
    return a["k"] if is_lower and a["k"] >= 0 else None


def _ending_with(expression: Expression, result: int) -> tuple[Expression, list[int]]:
    """(what computes operand `result`, the inputs that it reads besides the first one)."""
    count = len(expression.inputs)
    needed: set[int] = {result}
    for i in range(len(expression.steps) - 1, -1, -1):
        if count + i in needed:
            needed.update(expression.steps[i].operands)
    kept = [i for i in range(1, count) if i in needed]
    inside = [i for i in range(len(expression.steps)) if count + i in needed]
    place = {old: new for new, old in enumerate([0, *kept, *(count + i for i in inside)])}
    steps = tuple(
        replace(expression.steps[i], operands=tuple(place[o] for o in expression.steps[i].operands))
        for i in inside
    )
    inputs = tuple(expression.inputs[i] for i in (0, *kept))
    return Expression(inputs, steps, (place[result],)), kept
