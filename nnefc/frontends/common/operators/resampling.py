"""Resampling along the axes of a tensor, as the operator Resize defines it.

Most cases are the operation `resize`.  Antialiasing and cropping (`tf_crop_and_resize`) are
products with matrices of weights, a matrix per axis; they fix symbolic extents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import (
    Array,
    EmptyTensor,
    KnownTensor,
    Operand,
    OperatorError,
    has_no_items,
)
from nnefc.ir import DType, TensorType
from nnefc.ops.extended.resize import (
    COORDINATES,
    INTERPOLATORS,
    NEAREST,
    coordinates,
    cubic,
    nearest_index,
    taps,
)
from nnefc.symbolic.integers import is_symbolic

CROP: Final = "tf_crop_and_resize"
_EXACT: Final = {DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.INT8, DType.UINT8,
                 DType.INT16, DType.UINT16, DType.BOOL}  # fmt: skip
"""Item types whose items are exact in float32."""


@dataclass(frozen=True, slots=True)
class Resampling:
    """How a tensor is resampled, with the attributes of Resize; a list has an item per axis."""

    sizes: tuple[int, ...]
    scales: tuple[float, ...]
    """Empty if the sizes determine them."""
    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    starts: tuple[float, ...] = ()
    """Of the region of interest, as parts of the extents; empty without one."""
    ends: tuple[float, ...] = ()
    extrapolation_value: float = 0.0

    def check(self) -> None:
        """Raise OperatorError for attributes with values that do not exist."""
        for name, value, allowed in (
            ("mode", self.mode, INTERPOLATORS),
            ("coordinate_transformation_mode", self.coordinates, (*COORDINATES, CROP)),
            ("nearest_mode", self.nearest_mode, NEAREST),
        ):
            if value not in allowed:
                message = f"{name} = '{value}'"
                raise OperatorError("argument/resize", message, f"use {', '.join(allowed)}")
        if self.antialias and self.mode == "nearest":
            raise OperatorError("argument/resize", "nearest neighbours cannot be antialiased")


def resample(make: OpBuilder, x: Operand, how: Resampling) -> Operand:
    """The resampled tensor, in the item type of the input; raises OperatorError."""
    how.check()
    dtype = x.type.dtype
    if 0 in how.sizes:
        return EmptyTensor(TensorType(dtype, how.sizes))
    if has_no_items(x):
        raise OperatorError("argument/resize", "a tensor without items cannot be resampled")
    if not dtype.is_float:
        x = make.cast(x, DType.FLOAT32 if dtype in _EXACT else DType.FLOAT64)
    if how.antialias or how.coordinates == CROP:
        y = _by_matrices(make, x, how, dtype)
    else:
        y = _by_operation(make, x, how)
    return y if dtype.is_float else make.cast(_within(make, y, dtype, how), dtype)


def _number(value: float) -> KnownTensor:
    return KnownTensor(np.array(value, np.float32), DType.FLOAT32)


def _within(make: OpBuilder, y: Operand, dtype: DType, how: Resampling) -> Operand:
    """Interpolated items in the range of an integer type, which a cubic filter may exceed."""
    if how.mode != "cubic" or dtype is DType.BOOL:
        return y
    bounds = np.iinfo(dtype.numpy)
    return make("clamp", y, float(bounds.min), float(bounds.max))


def _by_operation(make: OpBuilder, x: Operand, how: Resampling) -> Operand:
    return make(
        "resize",
        x,
        sizes=how.sizes,
        scales=how.scales,
        coord_transformer=how.coordinates,
        interpolator=how.mode,
        nearest_mode=how.nearest_mode,
        cubic_coeff_a=how.cubic_coeff_a,
        exclude_outside=how.exclude_outside,
    )


# -- matrices of weights


def _by_matrices(make: OpBuilder, x: Operand, how: Resampling, dtype: DType) -> Operand:
    """One product per axis that changes, then the number outside of the cropped region.

    As in onnxruntime, the last axis is the first one, and integers are rounded after each axis of
    an antialiased tensor.
    """
    outside: dict[int, Array] = {}
    for axis, size in reversed(list(enumerate(how.sizes))):
        extent = x.type.dims[axis]
        matrix, outside[axis] = _weights(how, axis, int(extent), int(size))
        if matrix.shape[0] != matrix.shape[1] or (matrix != np.eye(len(matrix))).any():
            x = multiplied_along(make, x, axis, matrix)
            if how.antialias and not dtype.is_float:
                x = _within(make, make("round", x), dtype, how)
    if not any(each.any() for each in outside.values()):
        return x
    mask = np.zeros(how.sizes, bool)
    for axis, each in outside.items():
        mask |= each.reshape([-1 if i == axis else 1 for i in range(len(how.sizes))])
    value = make.cast(_number(how.extrapolation_value), x.type.dtype)
    return make("select", KnownTensor(mask, DType.BOOL), value, x)


def multiplied_along(make: OpBuilder, x: Operand, axis: int, matrix: Array) -> Operand:
    """A tensor, multiplied along an axis with a matrix [outputs, extent]."""
    dims = x.type.dims
    rows = make.reshape(x, (math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])))
    weights = make.cast(KnownTensor(matrix[np.newaxis], DType.FLOAT64), x.type.dtype)
    if rows.type.dims[2] == 1:  # the last axis
        rows = make.reshape(rows, (1, rows.type.dims[0], dims[axis]))
        product = make("matmul", rows, weights, transposeB=True)
    else:
        product = make("matmul", weights, rows)
    return make.reshape(product, (*dims[:axis], len(matrix), *dims[axis + 1 :]))


def _weights(how: Resampling, axis: int, extent: int, size: int) -> tuple[Array, Array]:
    """(weights [size, extent], whether each output lies outside of the input)."""
    scale = how.scales[axis] if how.scales else None
    nowhere = np.zeros(size, bool)
    factor = size / extent if scale is None else float(scale)
    if how.coordinates == CROP:
        at = _cropped(how, axis, extent, size)
        outside = (at < 0) | (at > extent - 1)
        stretch = min(factor, 1.0) if how.antialias else 1.0
        return _interpolation(how, np.where(outside, 0.0, at), extent, stretch), outside
    if factor >= 1 or not how.antialias:
        sampled = taps(extent, size, scale, _attributes(how))
        matrix = np.zeros((size, extent))
        np.add.at(matrix, (np.arange(size)[:, None], sampled.index), sampled.weight)
        return matrix, nowhere
    at = coordinates(extent, np.arange(size, dtype=np.float64), factor, how.coordinates)
    return _interpolation(how, at, extent, factor), nowhere


def _attributes(how: Resampling) -> dict[str, Any]:
    """The attributes of the operation `resize` that the taps of one axis depend on."""
    return {
        "interpolator": how.mode,
        "coord_transformer": how.coordinates,
        "nearest_mode": how.nearest_mode,
        "cubic_coeff_a": how.cubic_coeff_a,
        "exclude_outside": how.exclude_outside,
    }


def _cropped(how: Resampling, axis: int, extent: int, size: int) -> Array:
    """Coordinates of the outputs, which span the region of interest from corner to corner.

    In float32, as the region is given: a bound may be an item of the input exactly.
    """
    start, end = (how.starts[axis], how.ends[axis]) if how.starts else (0.0, 1.0)
    first, last, span = np.float32(start), np.float32(end), np.float32(extent - 1)
    if size == 1:
        at = np.array([np.float32(0.5) * (first + last) * span])
    else:
        steps = np.arange(size, dtype=np.float32)
        at = first * span + steps * (last - first) * span / np.float32(size - 1)
    return at.astype(np.float64)


def _interpolation(how: Resampling, at: Array, extent: int, scale: float) -> Array:
    """Weights [outputs, extent] at coordinates; kernels are 1 / scale times as wide."""
    if how.mode == "nearest":
        return np.eye(extent)[np.clip(nearest_index(at, how.nearest_mode), 0, extent - 1)]
    reach = math.ceil((1 if how.mode == "linear" else 2) / scale)
    index = np.floor(at).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
    distance = np.abs(index - at[:, None]) * scale
    if how.mode == "linear":
        weight = np.maximum(1 - distance, 0.0)
    else:
        weight = cubic(distance, how.cubic_coeff_a)
    inside = np.clip(index, 0, extent - 1)
    if how.exclude_outside:
        weight = np.where(index == inside, weight, 0.0)
    weight = weight / weight.sum(1, keepdims=True)
    matrix = np.zeros((len(at), extent))
    np.add.at(matrix, (np.arange(len(at))[:, None], inside), weight)
    return matrix


def whole_sizes(dims: Sequence[int], scales: Sequence[float]) -> tuple[int, ...]:
    """The extents that scales give, rounded down.

    Products are those of float32, as in onnxruntime: 2.6 times 5 items are 13, as in PyTorch, which
    has exported the scale.  A symbol is multiplied with the shortest decimal number for the scale.
    """
    sizes: list[int] = []
    for extent, scale in zip(dims, scales, strict=True):
        if float(scale).is_integer():
            sizes.append(extent * int(scale))
        elif is_symbolic([extent]):
            sizes.append(math.floor(extent * float(str(np.float32(scale)))))
        else:
            sizes.append(math.floor(np.float32(extent) * np.float32(scale)))
    return tuple(sizes)
