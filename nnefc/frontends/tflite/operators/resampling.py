"""Resampling of height and width."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.registry import CODES, CODES_16, REALS, Integers, operator


@operator("RESIZE_BILINEAR", options="ResizeBilinearOptions", types=REALS)
def resize_bilinear(
    make: OpBuilder,
    input: Operand,
    size: Integers,
    *,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Any:
    return make(
        "resize",
        input,
        sizes=_sizes(input, size),
        interpolator="linear",
        coord_transformer=_coordinates(align_corners, half_pixel_centers, "half_pixel"),
    )


@operator(
    "RESIZE_NEAREST_NEIGHBOR",
    options="ResizeNearestNeighborOptions",
    types=(*REALS, *CODES, *CODES_16),
)
def resize_nearest_neighbor(
    make: OpBuilder,
    input: Operand,
    size: Integers,
    *,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Any:
    return make(
        "resize",
        input,
        sizes=_sizes(input, size),
        interpolator="nearest",
        nearest_mode="round_prefer_ceil" if align_corners else "floor",
        coord_transformer=_coordinates(align_corners, half_pixel_centers, "tf_half_pixel_for_nn"),
    )


def _sizes(input: Operand, size: Integers) -> tuple[int, ...]:
    """The extents of the result [n, height, width, c]."""
    n, _, _, c = of_rank("resize", "input", input, 4)
    if len(size) != 2 or min(size) < 1:
        raise OperatorError("argument/resize", f"size = {list(size)}")
    return (n, *size, c)


def _coordinates(align_corners: bool, half_pixel_centers: bool, half_pixel: str) -> str:
    if align_corners and half_pixel_centers:
        raise OperatorError("argument/resize", "align_corners excludes half_pixel_centers")
    return "align_corners" if align_corners else half_pixel if half_pixel_centers else "asymmetric"
