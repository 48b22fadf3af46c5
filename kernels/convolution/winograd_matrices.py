"""The exact matrices of Winograd's minimal filtering, by the Cook-Toom construction.

See Winograd, Arithmetic Complexity of Computations (1980), and Lavin and Gray, Fast Algorithms for
Convolutional Neural Networks (2016).  m outputs of a filter with r taps are coefficients of a
polynomial product, which is determined by its values at n = m + r - 1 points:

    y = A ((G w) * (B x))        y: m, w: r, x: n, *: item by item

A is [m, n], G [n, r], B [n, n]; along two dimensions, Y = A ((G W G') * (B X B')) A'.

Row i of all three belongs to point i, infinity first.  The points for a smaller m are a prefix of
the points for a larger m, and a row of G depends only on its point.  Tiles of all sizes therefore
share transformed filters.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Final

Matrix = tuple[tuple[Fraction, ...], ...]

POINTS: Final = tuple(map(Fraction, ("0", "1", "-1", "2", "-2", "1/2", "-1/2", "3/2", "-3/2")))
"""The finite points, simple ones first, because rounding errors grow with them."""


def points(outputs: int, taps: int) -> int:
    """n: number of items read, and of products, for m = `outputs`."""
    return outputs + taps - 1


@cache
def output_matrix(outputs: int, taps: int) -> Matrix:
    """A: point p contributes p^i to output i, infinity its leading coefficient to the last one."""
    finite = POINTS[: points(outputs, taps) - 1]
    return tuple((Fraction(int(i == outputs - 1)), *(p**i for p in finite)) for i in range(outputs))


@cache
def filter_matrix(number: int, taps: int) -> Matrix:
    """G, its first `number` rows: the filter's polynomial at each point, scaled to at most 1."""
    rows = [
        tuple(p**k / max(abs(p), Fraction(1)) ** (taps - 1) for k in range(taps))
        for p in POINTS[: number - 1]
    ]
    return (tuple(Fraction(int(k == taps - 1)) for k in range(taps)), *rows)


@cache
def input_matrix(outputs: int, taps: int) -> Matrix:
    """B: interpolation by Lagrange's polynomials, transposed, and without the scale of G."""
    finite = POINTS[: points(outputs, taps) - 1]
    rows = [_with_roots(finite)]
    for p in finite:
        others = tuple(q for q in finite if q != p)
        denominator = Fraction(1)
        for q in others:
            denominator *= p - q
        factor = max(abs(p), Fraction(1)) ** (taps - 1) / denominator
        rows.append((*(factor * c for c in _with_roots(others)), Fraction(0)))
    return tuple(rows)


def _with_roots(roots: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """Coefficients of the monic polynomial with these roots, constant term first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [
            s - root * c for s, c in zip(shifted, [*coefficients, Fraction(0)], strict=True)
        ]
    return tuple(coefficients)
