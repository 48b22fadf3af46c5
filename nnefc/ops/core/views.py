"""Strided views: tensors inside other tensors, given by an offset and strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnefc.ir import Shape, Value
from nnefc.ops.core.arrays import Array

View = tuple[int, ...]
"""Offset of the first item, then the stride along each dimension, all in items."""


class TensorView(NamedTuple):
    """A view with shape `shape` of an operand or result of an operation."""

    value: Value
    shape: Shape
    view: View


def strided_array(x: Array, shape: Shape, view: View) -> Array:
    """The items of `x` in a view, as an array of shape `shape`; it shares memory with `x`."""
    first, *strides = view
    flat = np.ascontiguousarray(x).reshape(-1)[first:]
    return np.lib.stride_tricks.as_strided(flat, shape, [s * x.itemsize for s in strides])


def problems(names: Sequence[str], views: Sequence[TensorView]) -> list[str]:
    """Malformed views and views that reach beyond their tensor, as sentences."""
    violated: list[str] = []
    for name, (value, shape, (first, *strides)) in zip(names, views, strict=True):
        if len(strides) != len(shape):
            violated.append(f"{name} has {len(strides)} strides for {len(shape)} dimensions")
            continue
        last = first + sum(s * (n - 1) for s, n in zip(strides, shape))
        if first < 0 or min(strides, default=0) < 0 or last >= value.type.volume:
            violated.append(f"{name} reaches item {last} of {value.type}")
    return violated
