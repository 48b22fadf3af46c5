"""The item types in which sums are computed."""

from __future__ import annotations

from nnefc.ir import DType


def accumulation_type(dtype: DType) -> DType:
    """float64 for float64, float32 for all other types."""
    return DType.FLOAT64 if dtype is DType.FLOAT64 else DType.FLOAT32
