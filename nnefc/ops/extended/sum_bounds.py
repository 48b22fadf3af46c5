"""Bounds of sums of products of codes less their zero points, for all codes that a run may give."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from nnefc.ir import Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.broadcast import align
from nnefc.ops.core.known_items import known_items
from nnefc.ops.core.window_arithmetic import convolution_groups
from nnefc.ops.extended.quantized import code_limits


def _range(codes: Value, zero: Value) -> tuple[int, int]:
    """Bounds of codes less zero points, with 0 between them."""
    ends = [_ends(value) for value in (codes, zero)]
    (low, high), (least, most) = ends
    return min(low - most, 0), max(high - least, 0)


def _ends(value: Value) -> tuple[int, int]:
    items = known_items(value)
    if items is None or not items.size:
        return code_limits(value.type.dtype)
    return int(items.min()), int(items.max())


def _known_differences(codes: Value, zero: Value) -> Array | None:
    """Codes less zero points, in the shape of the codes; None if they are not known."""
    items, points = known_items(codes), known_items(zero)
    return None if items is None or points is None else differences(items, points, codes.type)


def differences(codes: Array, zeros: Array, of: TensorType) -> Array:
    """Codes of the type `of` less zero points, in its shape.

    They have twice the bytes of the codes.
    """
    dtype = np.int16 if of.dtype.itemsize == 1 else np.int32
    items, points = align(np.broadcast_to(codes, of.dims).astype(dtype), zeros.astype(dtype))
    return items - points


def _bound(x: tuple[int, int], weights: Array, axes: tuple[int, ...]) -> int:
    """A bound of sums over `axes` of known weights times numbers between those of `x`.

    It holds for all partial sums, as 0 is between these numbers.
    """
    positive = np.maximum(weights, 0).sum(axes, dtype=np.int64)
    negative = positive - weights.sum(axes, dtype=np.int64)
    low, high = x
    most = np.maximum(high * positive - low * negative, high * negative - low * positive)
    return int(most.max(initial=0))


def _generic_bound(op: Op, depth: Any) -> Any:
    """A bound of sums of `depth` products."""
    a, b, a_zero, b_zero = op.inputs
    ends = _range(a, a_zero), _range(b, b_zero)
    return math.prod(max(-low, high) for low, high in ends) * depth


def _bound_of_convolution(op: Op, *, reverse: bool) -> Any:
    x, w, x_zero, w_zero = op.inputs
    weights, dims = _known_differences(w, w_zero), w.type.dims
    groups = convolution_groups(x.type.dims, op.attributes)
    if weights is None:
        inputs = dims[0] // (groups or 1) if reverse else dims[1]
        return _generic_bound(op, inputs * math.prod(dims[2:]))
    if not weights.size:
        return 0
    if reverse:
        weights = weights.reshape(groups, dims[0] // groups, dims[1], -1).swapaxes(1, 2)
        return _bound(_range(x, x_zero), weights, (2, 3))
    return _bound(_range(x, x_zero), weights.reshape(dims[0], -1), (1,))


def bound_of_convolution(op: Op) -> Any:
    """A bound of the sums of an `integer_conv` or `integer_deconv`, also of partial ones."""
    return _bound_of_convolution(op, reverse=op.name == "integer_deconv")


def bound_of_product(op: Op) -> Any:
    """A bound of the sums of an `integer_matmul`, also of partial ones."""
    a, b, a_zero, b_zero = op.inputs
    left, right = _known_differences(a, a_zero), _known_differences(b, b_zero)
    if right is not None:
        axis = -1 if op.attributes["transposeB"] else -2
        return _bound(_range(a, a_zero), right, (axis,))
    axis = -2 if op.attributes["transposeA"] else -1
    if left is not None:
        return _bound(_range(b, b_zero), left, (axis,))
    return _generic_bound(op, a.type.dims[axis])


BOUNDS: Final[Mapping[str, Callable[[Op], Any]]] = {
    "integer_matmul": bound_of_product,
    "integer_conv": bound_of_convolution,
    "integer_deconv": bound_of_convolution,
}
"""Bounds of sums by operation."""


def largest_codes(codes: Value, zero: Value) -> int:
    """A bound of the sizes of codes less zero points."""
    low, high = _range(codes, zero)
    return max(-low, high)
