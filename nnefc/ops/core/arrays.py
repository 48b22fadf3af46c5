"""Array types of the references: float64, int64, uint64 or bool for every item type."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ir import DType

Array = np.ndarray[Any, Any]


def widen(array: Any, dtype: DType) -> Array:
    """`array` as float64, int64, uint64 or bool: the type in which references compute `dtype`."""
    kind = np.float64 if dtype.is_float else np.int64 if dtype.is_integer else np.bool_
    return np.asarray(array).astype(np.uint64 if dtype is DType.UINT64 else kind, copy=False)


def wrap(array: Array, dtype: DType) -> Array:
    """`array` reduced to the range of `dtype`: integers keep their lowest bits."""
    return widen(array.astype(dtype.numpy), dtype) if dtype.is_integer else array
