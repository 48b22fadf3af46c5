"""Resize, its predecessor Upsample, and sampling at coordinates that are data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import distinct_axes, slice_in_dim
from nnefc.frontends.common.operators.resampling import Resampling, resample, whole_sizes
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.onnx.broadcasting import constant
from nnefc.frontends.onnx.control_flow.selection import int64_tensor
from nnefc.frontends.onnx.operators.cubic_sampling import sample_volumes
from nnefc.frontends.onnx.registry import MICROSOFT, Floats, Integers, operator
from nnefc.ir import DType

# -- scales only


@operator("Upsample", until=6)
def upsample_1(
    make: OpBuilder,
    X: Operand,
    *,
    height_scale: float,
    width_scale: float,
    mode: str = "nearest",
) -> Any:
    of_rank("upsample", "X", X, 4)
    return _upsampled(make, X, (1.0, 1.0, height_scale, width_scale), mode)


@operator("Upsample", since=7, until=8)
def upsample_7(make: OpBuilder, X: Operand, *, scales: Floats, mode: str = "nearest") -> Any:
    return _upsampled(make, X, scales, mode)


@operator("Upsample", since=9, until=9)
@operator("Resize", since=10, until=10)
def resize_10(make: OpBuilder, X: Operand, scales: Floats, *, mode: str = "nearest") -> Any:
    return _upsampled(make, X, scales, mode)


def _upsampled(make: OpBuilder, x: Operand, scales: Floats, mode: str) -> Operand:
    """Resampling with coordinates output / scale.

    As in onnxruntime, the nearest item is the one before in axes that grow, the one behind in
    axes that shrink.
    """
    _check_factors(x, scales, x.type.rank)
    mode = "linear" if mode == "bilinear" else mode
    how = Resampling((), (), mode, "asymmetric", "floor")
    steps = [scales]
    if mode == "nearest" and min(scales, default=1.0) < 1:
        shrinking = tuple(min(scale, 1.0) for scale in scales)
        steps = [shrinking, tuple(max(scale, 1.0) for scale in scales)]
    for i, factors in enumerate(steps):
        rounding = "ceil" if i == 0 and len(steps) > 1 else "floor"
        sizes = whole_sizes(x.type.dims, factors)
        x = resample(make, x, replace(how, sizes=sizes, scales=factors, nearest_mode=rounding))
    return x


def _check_factors(x: Operand, factors: Sequence[float], count: int) -> None:
    """Raise OperatorError unless there is a positive, finite factor for `count` axes."""
    if len(factors) != count or count > x.type.rank or (count < x.type.rank and not count):
        message = f"{len(factors)} scales or sizes for a tensor of shape {list(x.type.dims)}"
        raise OperatorError("argument/resize", message)
    if not all(0 < factor < math.inf for factor in factors):
        message = f"scales = {list(factors)}; each must be greater than 0"
        raise OperatorError("argument/resize", message)


# -- resize


@operator("Resize", since=11, until=17)
def resize_11(
    make: OpBuilder,
    X: Operand,
    roi: Floats = (),
    scales: Floats = (),
    sizes: Integers = (),
    *,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Any:
    return resize(
        make,
        X,
        roi,
        scales,
        sizes,
        coordinate_transformation_mode=coordinate_transformation_mode,
        cubic_coeff_a=cubic_coeff_a,
        exclude_outside=exclude_outside,
        extrapolation_value=extrapolation_value,
        mode=mode,
        nearest_mode=nearest_mode,
    )


@operator("Resize", since=18)
def resize(
    make: OpBuilder,
    X: Operand,
    roi: Floats = (),
    scales: Floats = (),
    sizes: Integers = (),
    *,
    antialias: bool = False,
    axes: Integers | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Any:
    dims = X.type.dims
    rank = len(dims)
    where = tuple(range(rank)) if axes is None else distinct_axes("resize", axes, rank)
    if bool(scales) is bool(sizes):
        raise OperatorError("argument/resize", "either scales or sizes are needed, not both")
    if len(scales or sizes) != len(where) or len(roi) not in (0, 2 * len(where)):
        message = f"{len(scales or sizes)} scales or sizes, {len(roi)} bounds of a region"
        raise OperatorError("argument/resize", f"{message} for {len(where)} axes")
    if scales:
        _check_factors(X, scales, len(where))
        factors = _every(where, scales, (1.0,) * rank)
        wanted = whole_sizes(dims, factors)
    else:
        wanted, factors = _sizes(dims, where, sizes, keep_aspect_ratio_policy)
    how = Resampling(
        wanted,
        factors,
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        exclude_outside,
        antialias,
        _every(where, roi[: len(where)], (0.0,) * rank) if roi else (),
        _every(where, roi[len(where) :], (1.0,) * rank) if roi else (),
        extrapolation_value,
    )
    return resample(make, X, how)


def _every(axes: Sequence[int], some: Sequence[Any], others: Sequence[Any]) -> tuple[Any, ...]:
    """An item for every axis: `some` for `axes`, the rest from `others`."""
    full = list(others)
    for axis, item in zip(axes, some, strict=True):
        full[axis] = item
    return tuple(full)


def _sizes(
    dims: Sequence[int], axes: Sequence[int], sizes: Sequence[int], policy: str
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """(extents, scales) for requested sizes of `axes`; no scales if the extents determine them."""
    if any(size < 0 for size in sizes):
        raise OperatorError("argument/resize", f"sizes = {list(sizes)}")
    if policy == "stretch":
        return _every(axes, sizes, dims), ()
    choose = {"not_larger": min, "not_smaller": max}.get(policy)
    if choose is None or any(dims[axis] == 0 for axis in axes):
        message = f"keep_aspect_ratio_policy = '{policy}' for a tensor of shape {list(dims)}"
        hint = "use stretch, not_larger or not_smaller"
        raise OperatorError("argument/resize", message, hint)
    scale = choose(int(size) / int(dims[axis]) for axis, size in zip(axes, sizes, strict=True))
    rounded = [math.floor(scale * int(dims[axis]) + 0.5) for axis in axes]
    factors = _every(axes, [scale] * len(axes), (1.0,) * len(dims))
    return _every(axes, rounded, dims), factors


# -- sampling at coordinates


_MODES: Final = {
    "linear": "bilinear",
    "bilinear": "bilinear",
    "nearest": "nearest",
    "cubic": "bicubic",
    "bicubic": "bicubic",
}


@operator("AffineGrid", since=20)
def affine_grid(
    make: OpBuilder, theta: Operand, size: Integers, *, align_corners: bool = False
) -> Any:
    """Coordinates from -1 to 1 [N, ..., axes] of the pixels of images, transformed by `theta`.

    The function of the standard fails for one image, whose batch it squeezes.  Of aligned corners,
    the coordinate along an axis of one pixel is -1, as the standard's reference has it.
    """
    extents, dtype = size[2:], theta.type.dtype
    rank = len(extents)
    if rank not in (2, 3) or theta.type.dims != (size[0], rank, rank + 1):
        message = f"theta has shape {list(theta.type.dims)}, size is {list(size)}"
        raise OperatorError("onnx/shape", message, "theta is [N, 2, 3] or [N, 3, 4]")
    matrix = make.cast(theta, DType.FLOAT32)

    def column(axis: int) -> Operand:
        part = slice_in_dim(make, matrix, 2, axis, axis + 1)
        return make.reshape(part, (size[0], *(1,) * rank, rank))

    grid = column(rank)
    for axis, extent in enumerate(extents):
        shape = (1, *(extent if i == axis else 1 for i in range(rank)), 1)
        number = make.reshape(make.cast(make.iota(extent), DType.FLOAT32), shape)
        last = extent if not align_corners else extent - 1 if extent > 1 else 1
        width = make.reshape(make.cast(int64_tensor(last), DType.FLOAT32), (1,) * (rank + 2))
        doubled = make("mul", number, constant(number, 2))
        if not align_corners:
            doubled = make("add", doubled, constant(number, 1))
        x = make("sub", make("div", doubled, width), constant(number, 1))
        grid = make("add", grid, make("mul", column(rank - 1 - axis), x))
    return make.cast(grid, dtype)


@operator("GridSample", since=16, until=19)
@operator("GridSample", domain=MICROSOFT)
def grid_sample_16(
    make: OpBuilder,
    X: Operand,
    grid: Operand,
    *,
    align_corners: bool = False,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Any:
    return grid_sample(
        make, X, grid, align_corners=align_corners, mode=mode, padding_mode=padding_mode
    )


@operator("GridSample", since=20)
def grid_sample(
    make: OpBuilder,
    X: Operand,
    grid: Operand,
    *,
    align_corners: bool = False,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Any:
    """The input at coordinates from -1 to 1, the last dimension first."""
    x, dtype = X, X.type.dtype
    if mode not in _MODES:
        raise OperatorError("argument/grid_sample", f"mode = '{mode}'", f"use {', '.join(_MODES)}")
    if not dtype.is_float:
        x = make.cast(x, DType.FLOAT64)
    grid = make.cast(grid, x.type.dtype)
    if _MODES[mode] == "bicubic" and x.type.rank == 5:
        y = sample_volumes(make, x, grid, padding_mode, align_corners=align_corners)
        return make.cast(y, dtype)
    is_row = x.type.rank == 3 and grid.type.rank == 3
    if is_row:  # a plane of one row, in whose middle the coordinates lie
        batch, channels, width = x.type.dims
        x = make.reshape(x, (batch, channels, 1, width))
        zero = KnownTensor(np.zeros((1, 1, 1), grid.type.dtype.numpy), grid.type.dtype)
        middle = make.repeated(zero, (*grid.type.dims[:2], 1))
        grid = make("concat", [grid, middle], axis=2)
        grid = make.reshape(grid, (grid.type.dims[0], 1, grid.type.dims[1], 2))
    y = make(
        "grid_sample",
        x,
        grid,
        mode=_MODES[mode],
        padding_mode=padding_mode,
        align_corners=align_corners,
    )
    if is_row:
        y = make.reshape(y, (*y.type.dims[:2], y.type.dims[3]))
    return make.cast(y, dtype)
