"""Operators on regions of interest, and images of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.regions import pooled
from nnefc.frontends.common.operators.regions.blocks import sum_of_blocks
from nnefc.frontends.common.operators.regions.deformable import deformable_convolution
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.operators.neural.window_attributes import window_attributes
from nnefc.frontends.onnx.registry import Integers, operator


@operator("RoiAlign", since=10, until=15)
def roi_align_10(
    make: OpBuilder,
    X: Operand,
    rois: Operand,
    batch_indices: Operand,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:
    return roi_align(
        make,
        X,
        rois,
        batch_indices,
        coordinate_transformation_mode="output_half_pixel",
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )


@operator("RoiAlign", since=16)
def roi_align(
    make: OpBuilder,
    X: Operand,
    rois: Operand,
    batch_indices: Operand,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:
    return pooled.roi_align(
        make,
        X,
        rois,
        batch_indices,
        coordinate_transformation_mode=coordinate_transformation_mode,
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )


@operator("MaxRoiPool")
def max_roi_pool(
    make: OpBuilder,
    X: Operand,
    rois: Operand,
    *,
    pooled_shape: Integers,
    spatial_scale: float = 1.0,
) -> Any:
    return pooled.max_roi_pool(make, X, rois, pooled_shape, spatial_scale)


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
    if X.type.rank not in (0, 1, 2, 4):
        raise OperatorError("onnx/unsupported", "only images have deformable convolutions")
    size = kernel_shape or W.type.dims[2:]
    window = window_attributes("deform_conv", size, 2, strides, dilations, pads)
    if window.kernel != tuple(W.type.dims[2:]):
        message = f"W of shape {list(W.type.dims)} for a window {list(window.kernel)}"
        raise OperatorError("argument/deform_conv", message)
    sliding = window.strides, window.explicit, window.dilations
    return deformable_convolution(make, X, W, offset, B, mask, *sliding, group, offset_group)


@operator("Col2Im", since=18)
def col2im(
    make: OpBuilder,
    input: Operand,
    image_shape: Integers,
    block_shape: Integers,
    *,
    dilations: Integers | None = None,
    pads: Integers | None = None,
    strides: Integers | None = None,
) -> Any:
    """The sum of blocks [batch, channels * items of a block, blocks] at their places in images."""
    rank = len(image_shape)
    dilation, stride = dilations or (1,) * rank, strides or (1,) * rank
    padding = _pairs(pads or (0,) * (2 * rank))
    return sum_of_blocks(make, input, image_shape, block_shape, stride, padding, dilation)


def _pairs(pads: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """(before, after) for each axis."""
    half = len(pads) // 2
    return tuple(zip(pads[:half], pads[half:], strict=False))
