"""Deformable convolution: each item of the window reads the input at an offset."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_shape
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.operators.neural.window_attributes import (
    WindowAttributes,
    window_attributes,
)
from nnefc.frontends.onnx.registry import Integers, operator


@operator("DeformConv", since=19)
def deform_conv(
    make: OpBuilder,
    X: Operand,
    W: Operand,
    offset: Operand,
    B: Operand | None = None,
    mask: Operand | None = None,
    *,
    dilations: Integers = (),
    group: int = 1,
    kernel_shape: Integers = (),
    offset_group: int = 1,
    pads: Integers = (),
    strides: Integers = (),
) -> Any:
    """Deformable convolution of images (Zhu et al. 2018).

    X [n, c, h, w], W [m, c / group, kh, kw], offset [n, offset_group kh kw 2, oh, ow],
    mask [n, offset_group kh kw, oh, ow], B [m].
    """
    if X.type.rank not in (0, 1, 2, 4):
        raise OperatorError("onnx/unsupported", "only images have deformable convolutions")
    batch, channels, height, width = of_rank("deform_conv", "X", X, 4)
    outputs, inputs, *size = of_rank("deform_conv", "W", W, 4)
    window = window_attributes("deform_conv", kernel_shape or size, 2, strides, dilations, pads)
    ok = group > 0 and offset_group > 0 and outputs % group == channels % offset_group == 0
    if not ok or inputs * group != channels or window.kernel != tuple(size):
        message = f"W of shape {list(W.type.dims)}, group = {group}, offset_group = {offset_group}"
        raise OperatorError("argument/deform_conv", f"{message} for {channels} channels")
    rows = zip((height, width), window.explicit, window.dilated, window.strides, strict=True)
    extents = tuple((n + p + q - f) // s + 1 for n, (p, q), f, s in rows)
    taps = size[0] * size[1]
    of_shape("deform_conv", "offset", offset, (batch, 2 * offset_group * taps, *extents))
    dtype, wide = X.type.dtype, accumulation_type(X.type.dtype)
    x, w, moved = (make.cast(each, wide) for each in (X, W, offset))
    images = make.reshape(x, (batch * offset_group, channels // offset_group, height, width))
    grid = _grid(make, moved, window, (height, width), (batch * offset_group, taps, *extents))
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
    window: WindowAttributes,
    image: tuple[int, int],
    shape: tuple[int, ...],
) -> Operand:
    """Coordinates [images, taps * oh, ow, 2] of `grid_sample`, x before y.

    `shape`: images, taps, oh, ow.  Pixel i of n is at (2 i + 1) / n - 1.
    """
    images, taps, *extents = shape
    moved = make.reshape(offset, (images, *window.kernel, 2, *extents))
    parts: list[Operand] = []
    for axis in range(2):
        own = slice_in_dim(make, moved, 3, axis, axis + 1)
        step, begin = window.dilations[axis], -window.explicit[axis][0]
        tap = make.iota(window.kernel[axis], begin, step)
        place = make.iota(extents[axis], 0, window.strides[axis])
        tap = make.reshape(tap, [n if i == 1 + axis else 1 for i, n in enumerate(own.type.dims)])
        place = make.reshape(
            place, [n if i == 4 + axis else 1 for i, n in enumerate(own.type.dims)]
        )
        base = make.cast(make("add", tap, place), own.type.dtype)
        pixel = make("add", own, base)
        scale = 2.0 / image[axis]
        coordinate = make("add", make("mul", pixel, scale), 1.0 / image[axis] - 1.0)
        parts.append(make.reshape(coordinate, (images, taps * extents[0], extents[1], 1)))
    return make("concat", [parts[1], parts[0]], axis=3)
