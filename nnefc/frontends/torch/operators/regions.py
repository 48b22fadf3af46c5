"""Operators of torchvision: boxes, regions of interest, deformable convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.boxes import non_max_suppression
from nnefc.frontends.common.operators.regions import pooled
from nnefc.frontends.common.operators.regions.deformable import deformable_convolution
from nnefc.frontends.common.values import Operand
from nnefc.frontends.torch.operators.placing import known_indices
from nnefc.frontends.torch.registry import operator
from nnefc.ir import DType


@operator("torchvision.nms.default")
def nms(make: OpBuilder, dets: Operand, scores: Operand, iou_threshold: float) -> Any:
    """The boxes [n, 4] that no better one overlaps, by descending scores."""
    count = scores.type.dims[0]
    boxes = make.reshape(dets, (1, count, 4))
    ordered = make.reshape(scores, (1, 1, count))
    rows = non_max_suppression(make, boxes, ordered, count, iou_threshold, None, False)
    return make("gather", rows, known_indices(np.array(2)), axis=1)


@operator("torchvision.roi_align.default")
def roi_align(
    make: OpBuilder,
    input: Operand,
    rois: Operand,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Any:
    """Means of samples in the cells of regions (image, x0, y0, x1, y1)."""
    images = make("gather", rois, known_indices(np.array(0)), axis=1)
    return pooled.roi_align(
        make,
        input,
        slice_in_dim(make, rois, 1, 1, 5),
        make.cast(images, DType.INT64),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
        mode="avg",
        output_height=pooled_height,
        output_width=pooled_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )


@operator("torchvision.ps_roi_align.default")
def ps_roi_align(
    make: OpBuilder,
    input: Operand,
    rois: Operand,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> Any:
    """As `roi_align`, where each cell has channels of its own: channels [outputs, cells]."""
    sizes = (pooled_height, pooled_width)
    every = roi_align(make, input, rois, spatial_scale, *sizes, sampling_ratio, aligned=True)
    return _own_channels(make, every), None


def _own_channels(make: OpBuilder, every: Operand) -> Operand:
    """The cells [n, outputs, rows, columns] of channels [n, (outputs, cells), rows, columns].

    Cell i is that of channel i of an output.
    """
    count, channels, *sizes = every.type.dims
    cells = sizes[0] * sizes[1]
    square = make.reshape(every, (count, channels // cells, cells * cells))
    own = slice_in_dim(make, square, 2, 0, cells * cells, cells + 1)
    return make.reshape(own, (count, channels // cells, *sizes))


@operator("torchvision.ps_roi_pool.default")
def ps_roi_pool(
    make: OpBuilder,
    input: Operand,
    rois: Operand,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
) -> Any:
    """Means of the items in the cells of regions; each cell has channels of its own."""
    sizes = (pooled_height, pooled_width)
    return _own_channels(make, pooled.mean_roi_pool(make, input, rois, sizes, spatial_scale)), None


@operator("torchvision.roi_pool.default")
def roi_pool(
    make: OpBuilder,
    input: Operand,
    rois: Operand,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
) -> Any:
    """Maxima of the items in the cells of regions."""
    sizes = (pooled_height, pooled_width)
    return pooled.max_roi_pool(make, input, rois, sizes, spatial_scale), None


@operator("torchvision.deform_conv2d.default")
def deform_conv2d(
    make: OpBuilder,
    input: Operand,
    weight: Operand,
    offset: Operand,
    mask: Operand,
    bias: Operand,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Any:
    padding = ((pad_h, pad_h), (pad_w, pad_w))
    sliding = (stride_h, stride_w), padding, (dilation_h, dilation_w)
    factors = mask if use_mask else None
    return deformable_convolution(
        make, input, weight, offset, bias, factors, *sliding, groups, offset_groups
    )
