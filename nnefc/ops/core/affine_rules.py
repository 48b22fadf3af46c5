"""Affine rules: the map of one operand if the other is known.

An operation has an affine rule if it computes factor * x + term of an operand x.
"""

from __future__ import annotations

from collections.abc import Callable

from nnefc.ops.core.arrays import Array

AffineRule = Callable[[int, Array], tuple[Array | float, Array | float] | None]
"""`rule(position, known)` returns (factor, term) for operand number `position` as x.

`known`: the items of the other operand in float64; an empty array for a unary operation.  Items of
the results broadcast with x.  None if the operation is not affine in this operand.
"""


def negation(position: int, known: Array) -> tuple[float, float]:
    """-x"""
    del position, known
    return -1.0, 0.0


def addition(position: int, known: Array) -> tuple[float, Array]:
    """x + known"""
    del position
    return 1.0, known


def subtraction(position: int, known: Array) -> tuple[float, Array]:
    """x - known, or known - x"""
    return (1.0, -known) if position == 0 else (-1.0, known)


def multiplication(position: int, known: Array) -> tuple[Array, float]:
    """x * known"""
    del position
    return known, 0.0


def division(position: int, known: Array) -> tuple[Array, float] | None:
    """x / known; known / x is not affine."""
    return (1 / known, 0.0) if position == 0 else None
