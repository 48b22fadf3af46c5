"""Compute operations by their references, and compare the results."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ops.tools.table import operations

Array = np.ndarray[Any, Any]


def compute(name: str, *operands: Any, **attributes: Any) -> Any:
    reference = operations()[name].reference
    assert reference is not None
    with np.errstate(all="ignore"):
        return reference(*operands, **attributes)


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).integers(-48, 49, shape) / 16


def same(ours: Any, theirs: Any) -> None:
    """Equal shapes, and values as near as float64 formulas come."""
    theirs = np.asarray(theirs)
    assert np.shape(ours) == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
