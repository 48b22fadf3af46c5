"""Tables of `resize`: taps of the outputs along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ir import Attribute
from nnefc.ops.extended.resize import CUBIC_TAPS, taps
from nnefc.symbolic.captured_values import traceable

Array = np.ndarray[Any, Any]


@traceable
def resize_taps(
    extent: int, outputs: int, scale: float | None, how: tuple[tuple[str, Attribute], ...]
) -> tuple[Array, ...]:
    """Tables for the taps of an output.

    One tap: (indices,).  Two: (low, high, weight of high).  More: (indices, weights).
    """
    sampled = taps(extent, outputs, scale, dict(how))
    match sampled.index.shape[1]:
        case 1:
            return (sampled.index[:, 0].astype(np.int32),)
        case 2:
            return (*sampled.index.T, sampled.weight[:, 1])
        case count:
            assert count == CUBIC_TAPS, "the kernel takes the number of taps as a parameter"
            return sampled.index, sampled.weight
