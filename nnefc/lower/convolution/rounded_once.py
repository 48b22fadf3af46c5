"""Fixed point with its two roundings in one.

The product of a sum x with a multiplier m is h = floor((x m + 2^30) / 2^31), halves up.  The
result is h / 2^r, halves away from zero.  If h is not negative, that is

    floor((x m + 2^30 + 2^(30 + r)) / 2^(31 + r)),

since h plus half of 2^r is a whole number.  For negative sums, the same formula of |x| has the
result with the other sign, except where |x| m is an odd multiple of 2^30: there the first rounding
is towards zero.  Such sums exist only if 2^30 / gcd(m, 2^30) is at most the largest sum; then the
results are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_HALF: Final = 30
"""log2 of half of the divisor of a doubling high product."""
_WORD: Final = 32
_MOST_BITS: Final = 29
"""Most bits of a code and its right shift, so that no product of a code exceeds 64 bits."""


def rounded_once(
    terms: Sequence[Array], most: Array, low: int, high: int
) -> tuple[Literal["fixed_once", "fixed_away"], list[Array]] | None:
    """The form with one rounding, and its terms; None if results would differ.

    - terms: int32 [channels] each, multiplier, left shift and right shift
    - most: [channels], bounds of sums
    - low, high: bounds of codes less their zero point
    """
    multiplier, left, right = (term.astype(np.int64) for term in terms)
    longest = _MOST_BITS - max(-low, high).bit_length()
    is_plain = (
        (multiplier >= 0).all() and not left.any() and ((right > 0) & (right <= longest)).all()
    )
    if not is_plain or (most >= 2.0**31 - 1).any():
        return None
    added = (np.int64(1) << _HALF) + (np.int64(1) << (_HALF + right))
    if low < 0 and not _is_symmetric(multiplier, right, added, most, np.arange(low + 1, 1)):
        return None
    numbers = [multiplier, added, added >> _WORD, right - 1]
    return "fixed_away" if low < 0 else "fixed_once", [_words(each) for each in numbers]


def _words(numbers: Array) -> Array:
    """The lower words as int32."""
    return (numbers & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def _is_symmetric(multiplier: Array, right: Array, added: Array, most: Array, codes: Array) -> bool:
    """Whether results of negative sums are those of their absolute values.

    `codes`: all results of negative sums but the lowest.  Both formulas rise with the sums, so they
    are equal if they begin each code at the same sum.
    """
    lowest = multiplier & -multiplier
    ties = (multiplier > 0) & (most * lowest >= 2.0**_HALF)
    m, r, a = (each[ties, None] for each in (multiplier, right, added))
    # the smallest high product of a code, then the smallest sum of that product
    high = codes * (np.int64(1) << r) - (np.int64(1) << (r - 1)) + 1
    sums = -((-(high << (_HALF + 1)) + (np.int64(1) << _HALF)) // m)
    is_possible = (sums <= 0) & (-sums <= most[ties, None])

    def result(x: Array) -> Array:
        return -((-x * m + a) >> (_HALF + 1 + r))

    same = (result(sums) >= codes) & (result(sums - 1) < codes)
    return bool((same | ~is_possible).all())
