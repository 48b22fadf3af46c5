"""The exact matrices of Winograd's minimal filtering, by the Cook-Toom construction.

See Winograd, Arithmetic Complexity of Computations (1980), and Lavin and Gray, Fast Algorithms for
Convolutional Neural Networks (2016).  m outputs of a filter with r taps are coefficients of a
polynomial product, which is determined by its values at n = m + r - 1 points:

    y = A ((G w) * (B x))        y: m, w: r, x: n, *: item by item

A is [m, n], G [n, r], B [n, n]; along two dimensions, Y = A ((G W G') * (B X B')) A'.

Row i of all three belongs to point i, infinity first.  The points for a smaller m are a prefix of
the points for a larger m, and a row of G depends only on its point.  Tiles of all sizes therefore
share transformed filters.

Sums of codes are exact: the whole-number forms of the matrices have no fractions, and their product
is a known multiple of y,

    s y = A ((G w) * (B x))

Transforms and products may wrap around, because they are linear over the integers modulo 2^32.
`whole_scale` is s; its odd factor has an inverse, and a shift divides by the power of two.
"""

from __future__ import annotations

import math
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


@cache
def whole_scale(largest: int, taps: int) -> int:
    """s of all tiles of up to `largest` outputs; 1 with one tap, which is not transformed."""
    return math.lcm(*map(abs, _denominators(largest, taps))) if taps > 1 else 1


@cache
def inverse_and_shift(largest: int, taps: tuple[int, int]) -> tuple[int, int]:
    """(inverse of the odd factor modulo 2^32, exponent of the other) of s along two dimensions."""
    scale = math.prod(whole_scale(largest, t) for t in taps)
    return pow(_odd(scale), -1, 1 << 32), (scale // _odd(scale)).bit_length() - 1


@cache
def whole_input_matrix(outputs: int, taps: int) -> Matrix:
    """B of whole numbers: the rows of Lagrange's polynomials, without their denominators."""
    finite = POINTS[: points(outputs, taps) - 1]
    rows = [_whole_with_roots(finite)]
    for p, denominator in zip(finite, _denominators(outputs, taps)[1:], strict=True):
        sign = Fraction(1 if denominator > 0 else -1)
        others = _whole_with_roots(tuple(q for q in finite if q != p))
        rows.append((*(sign * c for c in others), Fraction(0)))
    return tuple(rows)


@cache
def whole_filter_matrix(largest: int, taps: int) -> Matrix:
    """G of whole numbers, for tiles of up to `largest` outputs.

    A row is multiplied by an odd number, so that A has powers of two for the largest tile.
    """
    finite = POINTS[: points(largest, taps) - 1]
    rows = [
        tuple(Fraction(int(k == taps - 1)) for k in range(taps)),
        *(_whole_powers(p, taps) for p in finite),
    ]
    odd = map(_odd, _shares(largest, largest, taps))
    return tuple(tuple(factor * x for x in row) for factor, row in zip(odd, rows, strict=True))


@cache
def whole_output_matrix(outputs: int, taps: int, largest: int) -> Matrix:
    """A of whole numbers, for tiles of `outputs` outputs beside tiles of up to `largest`."""
    odd = map(_odd, _shares(largest, largest, taps))
    factors = [Fraction(a, b) for a, b in zip(_shares(outputs, largest, taps), odd)]
    assert all(factor.denominator == 1 for factor in factors)
    finite = POINTS[: points(outputs, taps) - 1]
    last = tuple(Fraction(int(i == outputs - 1)) for i in range(outputs))
    columns = [last, *(_whole_powers(p, outputs) for p in finite)]
    scaled = [[factor * x for x in column] for factor, column in zip(factors, columns, strict=True)]
    return tuple(zip(*scaled, strict=True))


def _shares(outputs: int, largest: int, taps: int) -> list[int]:
    """By point: the scale over the size of the denominator for tiles of `outputs` outputs."""
    return [whole_scale(largest, taps) // abs(d) for d in _denominators(outputs, taps)]


def _odd(number: int) -> int:
    """The largest odd divisor."""
    return number // (number & -number)


def _denominators(outputs: int, taps: int) -> list[int]:
    """By point: the denominator of Lagrange's polynomial, for `_whole_powers` of filter and output.

    With p = a / b, that of point a / b is b times the product of a b' - a' b over other points.
    """
    finite = POINTS[: points(outputs, taps) - 1]
    others = [[q for q in finite if q != p] for p in finite]
    return [
        math.prod(p.denominator for p in finite),
        *(
            p.denominator
            * math.prod(p.numerator * q.denominator - q.numerator * p.denominator for q in rest)
            for p, rest in zip(finite, others, strict=True)
        ),
    ]


def _whole_powers(point: Fraction, count: int) -> tuple[Fraction, ...]:
    """The powers of a point a / b from 0 on, times the last power of b."""
    return tuple(point**k * point.denominator ** (count - 1) for k in range(count))


def _whole_with_roots(roots: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """Coefficients of the product of b x - a for roots a / b, constant term first."""
    lead = math.prod(root.denominator for root in roots)
    return tuple(lead * c for c in _with_roots(roots))


def _with_roots(roots: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """Coefficients of the monic polynomial with these roots, constant term first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [
            s - root * c for s, c in zip(shifted, [*coefficients, Fraction(0)], strict=True)
        ]
    return tuple(coefficients)
