"""Views: tensors inside other tensors, by an offset and strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnefc.ir import Shape, Value
from nnefc.ops.core.arrays import Array

View = tuple[int, ...]
"""Number of the first item, then strides in items."""


class Place(NamedTuple):
    """A tensor of `shape` in a value, an operand or the result of an operation."""

    value: Value
    shape: Shape
    where: View


def view(x: Array, shape: Shape, where: View) -> Array:
    """Items of `x` as an array of `shape`."""
    first, *strides = where
    flat = np.ascontiguousarray(x).reshape(-1)[first:]
    return np.lib.stride_tricks.as_strided(flat, shape, [s * x.itemsize for s in strides])


def problems(names: Sequence[str], places: Sequence[Place]) -> list[str]:
    """Violations of bounds: views that reach beyond their value."""
    found: list[str] = []
    for name, (value, shape, (first, *strides)) in zip(names, places, strict=True):
        if len(strides) != len(shape):
            found.append(f"{name} has {len(strides)} strides for {len(shape)} dimensions")
            continue
        last = first + sum(s * (n - 1) for s, n in zip(strides, shape))
        if first < 0 or min(strides, default=0) < 0 or last >= value.type.volume:
            found.append(f"{name} reaches item {last} of {value.type}")
    return found
