"""Match causal masks, which hide from each row the columns right of a diagonal."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nnefc.ir import Expression, Op, Shape, Step, TensorType, Value
from nnefc.ops.core.arrays import widen
from nnefc.ops.tools.reference import apply, evaluate_expression
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import is_elementwise, is_view, splat
from nnefc.symbolic.integers import specialized

Array = np.ndarray[Any, Any]

HIDDEN: Final = -1e30
"""Scores up to this value count as hidden: their exponentials are 0, unless all scores of a row are
as low."""


class CausalMasks:
    """Matches causal masks at the end of expressions; each mask is analysed once."""

    def __init__(self, known: KnownValues) -> None:
        self._known = known
        self._diagonals: dict[tuple[Value, str, float, Shape], int | None] = {}

    def without_mask(
        self, expression: Expression, others: tuple[Value, ...], scores: Shape
    ) -> tuple[Expression, tuple[Value, ...], int] | None:
        """Remove the causal mask that an expression over scores and `others` ends with.

        Returns (remaining expression, remaining others, diagonal): row i attends to columns 0 to
        i + diagonal.  None if the expression does not end with a causal mask.
        """
        for mask, masked, kind, low in _candidates(expression):
            if not 0 < mask <= len(others):
                continue
            left, needed = _ending_with(expression, masked)
            rest = tuple(others[i - 1] for i in needed)
            hidden = -math.inf if self._may_hide(left, rest) else HIDDEN
            if low <= hidden:
                diagonal = self._diagonal(others[mask - 1], kind, hidden, scores)
                if diagonal is not None:
                    return left, rest, diagonal
        return None

    def _may_hide(self, expression: Expression, others: tuple[Value, ...]) -> bool:
        """Whether an expression may hide scores itself.

        The scores that the mask leaves may then all be as low as masked ones.
        """
        if any(_literal(step) <= HIDDEN for step in expression.steps):
            return True
        known = (self._known.items(value) for value in others)
        return any(items is None or not np.all(items > HIDDEN) for items in known)

    def _diagonal(self, mask: Value, kind: str, hidden: float, scores: Shape) -> int | None:
        """The diagonal of a mask operand; None if it is not a causal mask."""
        if mask.type.rank != len(scores):
            return None
        if (triangle := _triangle(mask)) is not None:
            return _diagonal_of(*triangle, kind, hidden, scores)
        if mask not in self._known:
            return None
        key = mask, kind, hidden, specialized(scores[-2:])
        if key not in self._diagonals:
            items = self._known.items(mask)
            visible = None if items is None else _visible(items, kind, hidden)
            self._diagonals[key] = None if visible is None else _diagonal(visible, scores)
        return self._diagonals[key]


def _candidates(expression: Expression) -> list[tuple[int, int, str, float]]:
    """Operands that the last step may mask scores with: (mask, masked operand, kind, low).

    `kind`: how the mask applies: "added" to the scores, "shows" or "hides" them where it is true.
    `low`: the score that replaces hidden ones; -inf for "added", where the items decide.
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
    """The value of a literal; NaN for other steps."""
    return math.nan if step.value is None else float(step.value)


def _visible(items: Array, kind: str, hidden: float) -> Array | None:
    """A mask as bools: true where it leaves scores visible; None if it changes scores otherwise."""
    if kind != "added":
        return items != (kind == "hides")
    visible = items == 0
    return visible if np.all(visible | (items <= hidden)) else None


def _diagonal(visible: Array, scores: Shape) -> int | None:
    """The last visible column of row 0, if every row sees one column more than the row before."""
    if visible.shape[-2:] != scores[-2:] or not visible.size:
        return None
    rows, columns = visible.shape[-2:]
    matrix = visible[(0,) * (visible.ndim - 2)]
    if not np.array_equal(visible, np.broadcast_to(matrix, visible.shape)):
        return None
    diagonal = int(np.count_nonzero(matrix[0])) - 1
    row, column = np.ogrid[:rows, :columns]
    is_triangle = np.array_equal(matrix, column <= row + diagonal)
    return diagonal if diagonal >= 0 and is_triangle else None


def _triangle(value: Value) -> tuple[Op, Array] | None:
    """(tri operation, results for its items true and false), if `value` is a function of a `tri`.

    Every item of `value` must depend on one item of the triangle and on constants only.
    """
    op = value.op
    if op is None or len(op.outputs) != 1:
        return None
    if op.name == "tri":
        return op, np.array([True, False])
    sources = [v for v in op.inputs if splat(v) is None]
    if len(sources) != 1 or (inner := _triangle(sources[0])) is None:
        return None
    triangle, items = inner
    if is_view(op):
        same = op.output.type.dims[-2:] == triangle.output.type.dims[-2:]
        return inner if same else None
    if op.output.type.rank != sources[0].type.rank:  # rows and columns must stay last
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
    """The diagonal of a mask with items[0] where the triangle is true, items[1] elsewhere."""
    visible = _visible(items, kind, hidden)
    dims, a = triangle.output.type.dims, triangle.attributes
    if visible is None or dims[-2:] != scores[-2:] or bool(visible[0]) == bool(visible[1]):
        return None
    is_lower = bool(visible[0]) != a["above"]
    return a["k"] if is_lower and a["k"] >= 0 else None


def _ending_with(expression: Expression, result: int) -> tuple[Expression, list[int]]:
    """(expression of operand `result` alone, the inputs that it reads besides the first)."""
    count = len(expression.inputs)
    needed: set[int] = {result}
    for i in range(len(expression.steps) - 1, -1, -1):
        if count + i in needed:
            needed.update(expression.steps[i].operands)
    others = [i for i in range(1, count) if i in needed]
    inside = [i for i in range(len(expression.steps)) if count + i in needed]
    number = {old: new for new, old in enumerate([0, *others, *(count + i for i in inside)])}
    steps = tuple(
        replace(step, operands=tuple(number[o] for o in step.operands))
        for step in (expression.steps[i] for i in inside)
    )
    inputs = tuple(expression.inputs[i] for i in (0, *others))
    return Expression(inputs, steps, (number[result],)), others
