"""Upsampling, sampling at coordinates, and rearranged pixels."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.resampling import Resampling, multiplied_along, resample
from nnefc.frontends.common.values import Array, Operand, OperatorError
from nnefc.frontends.torch.operators.placing import require_room
from nnefc.frontends.torch.registry import Floats, Integers, Number, operator
from nnefc.ir import DType
from nnefc.ops.extended.resize import cubic

_KINDS: Final = {
    "nearest": ("nearest", "asymmetric", "floor"),
    "_nearest_exact": ("nearest", "half_pixel", "round_prefer_ceil"),
    "linear": ("linear", "", ""),
    "bicubic": ("cubic", "", ""),
}
"""Interpolator, coordinates and rounding of the index by the kind of upsampling."""


def _upsampled(
    make: OpBuilder,
    kind: str,
    x: Operand,
    sizes: Integers | None,
    factors: Floats | None,
    *,
    align_corners: bool = False,
    antialias: bool = False,
) -> Any:
    """x [n, c, ..] with `sizes`, or scaled by `factors`, which then decide the coordinates."""
    mode, coordinates, rounding = _KINDS[kind]
    if mode != "nearest" and not x.type.dtype.is_float:
        return _of_integers(make, kind, x, sizes, factors, align_corners, antialias)
    sizes = _sizes(x, sizes, factors)
    if antialias:
        return _antialiased(make, x, sizes, factors, mode, corners=align_corners)
    if not coordinates:
        coordinates = "align_corners" if align_corners else "half_pixel"
    scales = () if factors is None or align_corners else (1.0, 1.0, *factors)
    how = Resampling(
        (*x.type.dims[:2], *sizes),
        scales,
        mode,
        coordinates,
        rounding or "round_prefer_floor",
    )
    return resample(make, x, how)


def _of_integers(
    make: OpBuilder,
    kind: str,
    x: Operand,
    sizes: Integers | None,
    factors: Floats | None,
    align_corners: bool,
    antialias: bool,
) -> Operand:
    """Interpolated integers; each dimension, the last one first, is rounded to integers."""
    sizes = _sizes(x, sizes, factors)
    y: Operand = x
    for i in reversed(range(len(sizes))):
        dims = y.type.dims[2:]
        own = (*dims[:i], sizes[i], *dims[i + 1 :])
        scales = factors and tuple(f if axis == i else 1.0 for axis, f in enumerate(factors))
        flags = {"align_corners": align_corners, "antialias": antialias}
        reals = _upsampled(make, kind, make.cast(y, DType.FLOAT32), own, scales, **flags)
        y = make.cast(make("floor", make("add", reals, 0.5)), x.type.dtype)
    return y


def _sizes(x: Operand, sizes: Integers | None, factors: Floats | None) -> Integers:
    """The extents of a result; raises OperatorError without sizes and factors."""
    if sizes is not None:
        return sizes
    if factors is None:
        raise OperatorError("torch/arguments", "sizes or factors are needed")
    return tuple(int(n * f) for n, f in zip(x.type.dims[2:], factors, strict=True))


def _given(x: Operand, sizes: Integers, *scales: Number) -> Floats | None:
    """The factors of all dimensions; sizes decide those that are missing, or all (None)."""
    if all(each is None for each in scales):
        return None
    extents = zip(sizes, x.type.dims[2:], scales, strict=True)
    return tuple(size / n if each is None else float(each) for size, n, each in extents)


def _smoothed(extent: int, size: int, step: float, mode: str) -> Array:
    """Weights [size, extent] of items, by kernels as wide as a step where that exceeds an item.

    Source: aten/src/ATen/native/cpu/UpSampleKernel.cpp, whose cubic kernel has a = -0.5 here.
    """
    width = max(step, 1.0)
    reach = width * (1 if mode == "linear" else 2)
    center = step * (np.arange(size)[:, None] + 0.5)
    item = np.arange(extent)
    distance = np.abs(item + 0.5 - center) / width
    weight = np.maximum(1 - distance, 0) if mode == "linear" else cubic(distance, -0.5)
    first, last = (np.trunc(center + end * reach + 0.5) for end in (-1, 1))
    weight = np.where((item >= first) & (item < last), weight, 0.0)
    return weight / weight.sum(1, keepdims=True)


def _antialiased(
    make: OpBuilder,
    x: Operand,
    sizes: Integers,
    factors: Floats | None,
    mode: str,
    *,
    corners: bool,
) -> Operand:
    """x [n, c, ..] by products with a matrix per axis, which fix symbolic extents."""
    given = factors or (None,) * len(sizes)
    for axis, (size, factor) in enumerate(zip(sizes, given, strict=True), 2):
        n, count = int(x.type.dims[axis]), int(size)
        require_room(n * count)
        step = n / count if factor is None else 1 / factor
        if corners:
            step = (n - 1) / (count - 1) if count > 1 else 0.0
        x = multiplied_along(make, x, axis, _smoothed(n, count, step, mode))
    return x


def _register(kind: str, name: str) -> None:
    """Register the overloads of an upsampling to the nearest item."""

    def by_list(
        make: OpBuilder, input: Operand, output_size: Number, scale_factors: Floats | None
    ) -> Any:
        return _upsampled(make, kind, input, output_size, scale_factors)

    def by_numbers(
        make: OpBuilder,
        self: Operand,
        output_size: Integers,
        scales: Number = None,
        scales_d: Number = None,
        scales_h: Number = None,
        scales_w: Number = None,
    ) -> Any:
        listed = (scales_d, scales_h, scales_w)[-len(output_size) :]
        listed = (scales,) if len(output_size) == 1 else listed
        factors = _given(self, output_size, *listed)
        return _upsampled(make, kind, self, output_size, factors)

    operator(f"aten.{name}.vec")(by_list)
    operator(f"aten.{name}.default")(by_numbers)


for _rank in (1, 2, 3):
    _register("nearest", f"upsample_nearest{_rank}d")
    _register("_nearest_exact", f"_upsample_nearest_exact{_rank}d")


def _register_linear(kind: str, name: str, *, antialias: bool = False) -> None:
    """Register the overloads of an interpolation."""

    def by_list(
        make: OpBuilder,
        input: Operand,
        output_size: Number,
        align_corners: bool,
        scale_factors: Floats | None,
    ) -> Any:
        flags = {"align_corners": align_corners, "antialias": antialias}
        return _upsampled(make, kind, input, output_size, scale_factors, **flags)

    def by_numbers(
        make: OpBuilder,
        self: Operand,
        output_size: Integers,
        align_corners: bool,
        scales: Number = None,
        scales_d: Number = None,
        scales_h: Number = None,
        scales_w: Number = None,
    ) -> Any:
        listed = (scales_d, scales_h, scales_w)[-len(output_size) :]
        listed = (scales,) if len(output_size) == 1 else listed
        factors = _given(self, output_size, *listed)
        flags = {"align_corners": align_corners, "antialias": antialias}
        return _upsampled(make, kind, self, output_size, factors, **flags)

    operator(f"aten.{name}.vec")(by_list)
    operator(f"aten.{name}.default")(by_numbers)


_register_linear("linear", "upsample_linear1d")
_register_linear("linear", "upsample_bilinear2d")
_register_linear("linear", "upsample_trilinear3d")
_register_linear("bicubic", "upsample_bicubic2d")
_register_linear("linear", "_upsample_bilinear2d_aa", antialias=True)
_register_linear("bicubic", "_upsample_bicubic2d_aa", antialias=True)

_MODES: Final = ("bilinear", "nearest", "bicubic")
_BORDERS: Final = ("zeros", "border", "reflection")


@operator(
    "aten.grid_sampler.default", "aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default"
)
def grid_sampler(
    make: OpBuilder,
    input: Operand,
    grid: Operand,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Any:
    """The input at coordinates from -1 to 1, the last dimension first."""
    return make(
        "grid_sample",
        input,
        grid,
        mode=_MODES[interpolation_mode],
        padding_mode=_BORDERS[padding_mode],
        align_corners=align_corners,
    )


@operator("aten.pixel_shuffle.default")
def pixel_shuffle(make: OpBuilder, self: Operand, upscale_factor: int) -> Any:
    """[.., c f f, h, w] to [.., c, h f, w f]."""
    *batch, channels, height, width = self.type.dims
    f, n = upscale_factor, len(batch)
    x = make.reshape(self, (*batch, channels // (f * f), f, f, height, width))
    x = make.transpose(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return make.reshape(x, (*batch, channels // (f * f), height * f, width * f))


@operator("aten.pixel_unshuffle.default")
def pixel_unshuffle(make: OpBuilder, self: Operand, downscale_factor: int) -> Any:
    """[.., c, h f, w f] to [.., c f f, h, w]."""
    *batch, channels, height, width = self.type.dims
    f, n = downscale_factor, len(batch)
    x = make.reshape(self, (*batch, channels, height // f, f, width // f, f))
    x = make.transpose(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return make.reshape(x, (*batch, channels * f * f, height // f, width // f))


@operator("aten.channel_shuffle.default", "aten.native_channel_shuffle.default")
def channel_shuffle(make: OpBuilder, self: Operand, groups: int) -> Any:
    batch, channels, *rest = self.type.dims
    plane = math.prod(rest)
    x = make.reshape(self, (batch, groups, channels // groups, plane))
    return make.reshape(make.transpose(x, (0, 2, 1, 3)), self.type.dims)
