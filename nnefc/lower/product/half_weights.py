"""Operands of products of halves: item types, and powers of two that multiply weights."""

from __future__ import annotations

import math
import weakref
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

from nnefc.ir import DType
from nnefc.kernels.vector.dot_halves import LARGEST_WEIGHT, Half
from nnefc.support.array_memory import owner, view_key

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_MOST: Final = 126
"""Bound of exponents, such that the power of two and its inverse are normal numbers of float32."""
_EXPONENTS: Final[dict[Hashable, int]] = {}
"""Exponents by the memory of weights that exist; plans of a dynamic model share them."""


def half_item(dtype: DType) -> Half:
    """The item type of kernels that multiply halves."""
    assert dtype.is_half, f"{dtype} is no float of 16 bits"
    return "float16" if dtype is DType.FLOAT16 else "bfloat16"


def weight_exponent(weights: Array, dtype: DType) -> int:
    """The largest n for which weights times 2**n are below `LARGEST_WEIGHT`; 0 for bfloat16.

    So small weights stay normal numbers of float16, and chains of products stay finite.
    """
    if dtype is not DType.FLOAT16 or not weights.size:
        return 0
    key = view_key(weights)
    if key not in _EXPONENTS:
        _EXPONENTS[key] = _exponent(weights)
        weakref.finalize(owner(weights), _EXPONENTS.pop, key, None).atexit = False
    return _EXPONENTS[key]


def _exponent(weights: Array) -> int:
    largest = max(float(weights.max()), -float(weights.min()))
    if not 0 < largest < math.inf:
        return 0
    return min(max(-math.frexp(largest / LARGEST_WEIGHT)[1], -_MOST), _MOST)
