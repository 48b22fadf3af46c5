"""Resampling of codes: int8 in integers, uint8 in float32, as the reference kernels of LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.indices import gather
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import int32, int64
from nnefc.frontends.tflite.registry import CODES_16, Integers, operator
from nnefc.ir import DType

_LARGEST: Final = 1 << 20
"""The largest extent of a result."""
FRACTION_BITS: Final = 10
"""Bits of the fraction of integer coordinates."""


def _extents(input: Operand, size: Integers) -> tuple[int, ...]:
    """The extents of the input; raises OperatorError for an impossible size of the result."""
    dims = of_rank("resize", "input", input, 4)
    if len(size) != 2 or min(size) < 1 or min(dims) < 1 or max(size) > _LARGEST:
        raise OperatorError("argument/resize", f"size = {list(size)} of {list(dims)}")
    return dims


def _interpolated(
    make: OpBuilder,
    input: Operand,
    size: Integers,
    options: tuple[bool, bool],
    number: Callable[[Array], KnownTensor],
) -> Operand:
    """Codes between those of the input, times 2 ** (2 FRACTION_BITS), in the type of `number`.

    `options`: align_corners and half_pixel_centers.
    """
    dims = _extents(input, size)
    y: Operand = make.cast(input, number(np.zeros(())).dtype)
    for axis, outputs in zip((1, 2), size, strict=True):
        lower, upper, weight = _integer_taps(dims[axis], outputs, *options)
        shape = tuple(outputs if i == axis else 1 for i in range(4))
        first, second = (gather(make, y, int32(each), axis) for each in (lower, upper))
        before = make("mul", first, number(((1 << FRACTION_BITS) - weight).reshape(shape)))
        y = make("add", before, make("mul", second, number(weight.reshape(shape))))
    return y


@operator("RESIZE_BILINEAR", options="ResizeBilinearOptions", types=("INT8",))
def resize_bilinear(
    make: OpBuilder,
    input: Operand,
    size: Integers,
    *,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Any:
    """Interpolation with coordinates of 10 fraction bits; halves are rounded away from zero."""
    y = _interpolated(make, input, size, (align_corners, half_pixel_centers), int32)
    return make.cast(make("rounding_shift", y, int32(2 * FRACTION_BITS)), input.type.dtype)


def _integer_taps(
    extent: int, outputs: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[Array, Array, Array]:
    """The two items of each output along an axis, and the weight of the second of 1,024."""
    one = 1 << FRACTION_BITS
    if align_corners and outputs > 1:
        step = (one * (extent - 1) + (outputs - 1) // 2) // (outputs - 1)
    else:
        step = (one * extent + outputs // 2) // outputs
    at = np.arange(outputs, dtype=np.int64) * step
    if half_pixel_centers:
        at = at + step // 2 - one // 2
    lower = np.clip(_toward_zero(at), 0, extent - 1)
    upper = np.clip(_toward_zero(at + one - 1), 0, extent - 1)
    return lower, upper, at - lower * one


def _toward_zero(at: Array) -> Array:
    """Coordinates without their fraction."""
    return np.sign(at) * (np.abs(at) >> FRACTION_BITS)


@operator("RESIZE_BILINEAR", options="ResizeBilinearOptions", types=("UINT8",))
def resize_bilinear_unsigned(
    make: OpBuilder,
    input: Operand,
    size: Integers,
    *,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Any:
    """Sums of four products in float32; halves are rounded up."""
    dims = _extents(input, size)
    rows, columns = (
        _real_taps(extent, outputs, align_corners, half_pixel_centers)
        for extent, outputs in zip(dims[1:3], size, strict=True)
    )
    x = make.cast(input, DType.FLOAT32)
    total: Any = None
    for column, by_column in columns:
        for row, by_row in rows:
            item = gather(make, gather(make, x, int32(row), 1), int32(column), 2)
            weighted = make("mul", item, _weights(by_row, 1))
            product = make("mul", weighted, _weights(by_column, 2))
            total = product if total is None else make("add", total, product)
    return make.cast(make("floor", make("add", total, 0.5)), input.type.dtype)


def _real_taps(
    extent: int, outputs: int, align_corners: bool, half_pixel_centers: bool
) -> list[tuple[Array, Array]]:
    """The two items of each output along an axis, with their weights, in float32."""
    one = np.float32(1)
    scale = np.float32(extent) / np.float32(outputs)
    if align_corners and outputs > 1:
        scale = np.float32(extent - 1) / np.float32(outputs - 1)
    at = np.arange(outputs).astype(np.float32)
    at = (at + np.float32(0.5)) * scale - np.float32(0.5) if half_pixel_centers else at * scale
    lower = np.clip(np.floor(at).astype(np.int64), 0, extent - 1)
    upper = np.clip(np.ceil(at).astype(np.int64), 0, extent - 1)
    weight = at - lower.astype(np.float32)
    return [(lower, one - weight), (upper, weight)]


def _weights(items: Array, axis: int) -> KnownTensor:
    """Weights along an axis of a tensor of rank 4."""
    shape = tuple(items.size if i == axis else 1 for i in range(4))
    return KnownTensor(items.astype(np.float32).reshape(shape), DType.FLOAT32)


@operator("RESIZE_BILINEAR", options="ResizeBilinearOptions", types=CODES_16)
def resize_bilinear_int16(
    make: OpBuilder,
    input: Operand,
    size: Integers,
    *,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Any:
    """As for int8, summed in int64."""
    y = _interpolated(make, input, size, (align_corners, half_pixel_centers), int64)
    half = make("add", make("abs", y), int64(1 << 2 * FRACTION_BITS - 1))
    size_of = make.cast(make("shift_right", half, int64(2 * FRACTION_BITS)), DType.INT32)
    signed = make("select", make("lt", y, int64(0)), make("neg", size_of), size_of)
    return make.cast(signed, input.type.dtype)
