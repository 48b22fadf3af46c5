"""Linear Diophantine equations: extents as equations that determine symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nnefc.syntax import ast

MAX_SIZE: Final = 64
"""Unknowns, and equations, of a system to be solved; shapes of inputs have a few."""


@dataclass(frozen=True, slots=True)
class LinearSum:
    """constant + sum of factor * symbol."""

    factors: Mapping[str, int]
    constant: int = 0

    def scaled(self, by: int) -> LinearSum:
        factors = {name: by * factor for name, factor in self.factors.items() if by}
        return LinearSum(factors, by * self.constant)

    def plus(self, other: LinearSum) -> LinearSum:
        factors = dict(self.factors)
        for name, factor in other.factors.items():
            factors[name] = factors.get(name, 0) + factor
        return LinearSum({n: f for n, f in factors.items() if f}, self.constant + other.constant)


def linear(expression: ast.Expression, values: Mapping[str, int]) -> LinearSum | None:
    """An extent as a linear sum of the symbols without `values`; None if it is not linear."""
    match expression:
        case ast.Literal_(value=bool()):
            return None
        case ast.Literal_(value=int(value)):
            return LinearSum({}, value)
        case ast.Identifier(name=name):
            return LinearSum({}, values[name]) if name in values else LinearSum({name: 1})
        case ast.Unary(operator="-"):
            operand = linear(expression.operand, values)
            return operand and operand.scaled(-1)
        case ast.Binary(operator=operator):
            left, right = linear(expression.left, values), linear(expression.right, values)
            return None if left is None or right is None else _combined(operator, left, right)
        case _:
            return None


def _combined(operator: str, left: LinearSum, right: LinearSum) -> LinearSum | None:
    match operator:
        case "+":
            return left.plus(right)
        case "-":
            return left.plus(right.scaled(-1))
        case "*" if not left.factors:
            return right.scaled(left.constant)
        case "*" if not right.factors:
            return left.scaled(right.constant)
        case "/" if not left.factors and not right.factors and right.constant:
            return LinearSum({}, left.constant // right.constant)
        case _:
            return None


def solved(equations: Sequence[tuple[LinearSum, int]]) -> dict[str, int] | None:
    """The values of symbols that equations `sum = number` determine; None if no natural numbers
    solve them.

    For symbols that are not determined, this is only checked in each equation by itself.
    """
    names = list(dict.fromkeys(name for left, _ in equations for name in left.factors))
    rows = [[left.factors.get(name, 0) for name in names] for left, _ in equations]
    right = [number - left.constant for left, number in equations]
    if any(_has_wrong_sign(row, number) for row, number in zip(rows, right, strict=True)):
        return None
    values = _integer_solution(rows, right, len(names))
    if values is None or any(value is not None and value < 0 for value in values):
        return None
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _has_wrong_sign(row: Sequence[int], number: int) -> bool:
    """Whether a sum of natural numbers with these factors cannot be `number`, by its sign."""
    return (number < 0 and min(row, default=0) >= 0) or (number > 0 and max(row, default=0) <= 0)


def _integer_solution(
    rows: list[list[int]], right: list[int], count: int
) -> list[int | None] | None:
    """The integers x with rows x = right, None for those that are not unique; None if no integers
    solve the equations.

    Columns are combined until the matrix is lower triangular (Hermite normal form); then x = U y,
    and forward substitution gives y.
    """
    columns = [[row[j] for row in rows] for j in range(count)]
    units = [[int(i == j) for i in range(count)] for j in range(count)]  # the columns of U
    y: list[int] = []
    for i, number in enumerate(right):
        k = len(y)
        while len(left := [j for j in range(k, count) if columns[j][i]]) > 1:
            least = min(left, key=lambda j: abs(columns[j][i]))
            for j in left:
                if j != least:
                    times = columns[j][i] // columns[least][i]
                    for every in (columns, units):
                        every[j] = [a - times * b for a, b in zip(every[j], every[least])]
        rest = number - sum(columns[j][i] * value for j, value in enumerate(y))
        if not left:
            if rest:
                return None
            continue
        value, remainder = divmod(rest, columns[left[0]][i])
        if remainder:
            return None
        y.append(value)
        for every in (columns, units):
            every[k], every[left[0]] = every[left[0]], every[k]
    return [
        None
        if any(units[j][i] for j in range(len(y), count))
        else sum(units[j][i] * value for j, value in enumerate(y))
        for i in range(count)
    ]
