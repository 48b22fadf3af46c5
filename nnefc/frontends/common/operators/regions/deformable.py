"""Deformable convolution: each item of the window reads the input at an offset."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_shape
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.ops.core.window_arithmetic import dilated_size


def deformable_convolution(
    make: OpBuilder,
    X: Operand,
    W: Operand,
    offset: Operand,
    B: Operand | None,
    mask: Operand | None,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilations: Sequence[int],
    group: int,
    offset_group: int,
) -> Operand:
    """Deformable convolution of images (Zhu et al. 2018).

    X [n, c, h, w], W [m, c / group, kh, kw], offset [n, offset_group kh kw 2, oh, ow],
    mask [n, offset_group kh kw, oh, ow], B [m].  Raises OperatorError.
    """
    batch, channels, height, width = of_rank("deform_conv", "X", X, 4)
    outputs, inputs, *size = of_rank("deform_conv", "W", W, 4)
    ok = group > 0 and offset_group > 0 and outputs % group == channels % offset_group == 0
    if not ok or inputs * group != channels:
        message = f"W of shape {list(W.type.dims)}, group = {group}, offset_group = {offset_group}"
        raise OperatorError("argument/deform_conv", f"{message} for {channels} channels")
    dilated = dilated_size(size, dilations)
    rows = zip((height, width), padding, dilated, strides, strict=True)
    extents = tuple((n + p + q - f) // s + 1 for n, (p, q), f, s in rows)
    taps = size[0] * size[1]
    of_shape("deform_conv", "offset", offset, (batch, 2 * offset_group * taps, *extents))
    dtype, wide = X.type.dtype, accumulation_type(X.type.dtype)
    x, w, moved = (make.cast(each, wide) for each in (X, W, offset))
    images = make.reshape(x, (batch * offset_group, channels // offset_group, height, width))
    images_of_groups = (batch * offset_group, *size, 2, *extents)
    moved = make.reshape(moved, images_of_groups)
    starts = tuple(-before for before, _ in padding)
    grid = _grid(make, moved, (height, width), strides, starts, dilations)
    items = make("grid_sample", images, grid, mode="bilinear", padding_mode="zeros")
    count = extents[0] * extents[1]
    shape = (batch * offset_group, channels // offset_group, taps, count)
    items = make.reshape(items, shape)
    if mask is not None:
        of_shape("deform_conv", "mask", mask, (batch, offset_group * taps, *extents))
        factor = make.reshape(make.cast(mask, wide), (shape[0], 1, taps, count))
        items = make("mul", items, factor)
    items = make.reshape(items, (batch, group, inputs * taps, count))
    kernel = make.reshape(w, (1, group, outputs // group, inputs * taps))
    y = make.reshape(make("matmul", kernel, items), (batch, outputs, *extents))
    if B is not None:
        y = make("add", y, make.reshape(make.cast(B, wide), (1, outputs, 1, 1)))
    return make.cast(y, dtype)


def _grid(
    make: OpBuilder,
    offset: Operand,
    image: tuple[int, int],
    strides: Sequence[int],
    starts: Sequence[int],
    dilations: Sequence[int],
) -> Operand:
    """Coordinates [images, taps * oh, ow, 2] of `grid_sample`, x before y.

    `offset`: [images, kh, kw, 2, oh, ow].  Pixel i of n is at (2 i + 1) / n - 1.
    """
    images, *kernel, _, rows, columns = offset.type.dims
    parts: list[Operand] = []
    for axis in range(2):
        own = slice_in_dim(make, offset, 3, axis, axis + 1)
        tap = make.iota(kernel[axis], starts[axis], dilations[axis])
        place = make.iota((rows, columns)[axis], 0, strides[axis])
        tap = make.reshape(tap, [n if i == 1 + axis else 1 for i, n in enumerate(own.type.dims)])
        place = make.reshape(
            place, [n if i == 4 + axis else 1 for i, n in enumerate(own.type.dims)]
        )
        base = make.cast(make("add", tap, place), own.type.dtype)
        pixel = make("add", own, base)
        scale = 2.0 / image[axis]
        coordinate = make("add", make("mul", pixel, scale), 1.0 / image[axis] - 1.0)
        parts.append(make.reshape(coordinate, (images, math.prod(kernel) * rows, columns, 1)))
    return make("concat", [parts[1], parts[0]], axis=3)
