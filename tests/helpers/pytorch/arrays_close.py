"""Arrays that are those of PyTorch, but for rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def assert_close(found: Any, want: Array, tolerance: float) -> None:
    """Integers and bools are equal, reals to `tolerance` of themselves or of the largest."""
    found = np.asarray(found)
    assert found.shape == want.shape
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(found, want)
    else:
        scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0.0)))
        found, want = found.astype(np.float64), want.astype(np.float64)
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * scale)
