"""Random values for weights that have no file."""

from __future__ import annotations

import math
import zlib
from typing import Any, Final

import numpy as np

from nnefc.ir import DType, Variable

Array = np.ndarray[Any, Any]

_PERIOD: Final = 1_048_573
"""Random items of an array before they repeat; prime, so that no two rows are equal."""


def random_data(variable: Variable, seed: int, *, positive: bool = False) -> Array:
    """Random values by `seed` and label, normal with variance 2 / fan-in (He et al. 2015).

    `positive`: uniform between 1/2 and 3/2 instead, for variances.  Large arrays repeat the
    values of their first million items.
    """
    type_ = variable.type
    generator = np.random.default_rng(
        [seed & 0xFFFFFFFF, zlib.crc32(variable.label.lower().encode())]
    )
    dtype = type_.dtype
    if dtype is DType.BOOL:
        data = generator.integers(0, 2, type_.dims).astype(bool)
    elif dtype.is_integer:
        data = np.zeros(type_.dims, dtype.numpy)
    else:
        count = min(math.prod(type_.dims), _PERIOD)
        if positive:
            data = generator.random(count, np.float32) + np.float32(0.5)
        else:
            fan_in = math.prod(type_.dims[1:])
            data = generator.standard_normal(count, np.float32)
            data *= np.float32(math.sqrt(2.0 / fan_in))
        data = np.resize(data, type_.dims)
    data = np.asarray(data, dtype.numpy)
    data.setflags(write=False)
    return data
