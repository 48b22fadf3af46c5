"""Compares arrays with PyTorch's, up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def assert_close(found: Any, want: Array, tolerance: float) -> None:
    """Assert equal integers and bools; floats may differ by `tolerance` times item or maximum."""
    found = np.asarray(found)
    assert found.shape == want.shape
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(found, want)
    else:
        scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0.0)))
        found, want = found.astype(np.float64), want.astype(np.float64)
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * scale)
