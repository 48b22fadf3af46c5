"""Matrix products and convolutions of StableHLO, whose dimensions are numbered freely."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.einsum import einsum
from nnefc.frontends.common.operators.indices import gather
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.operands import known_array
from nnefc.frontends.tflite.registry import REALS, Integers, operator
from nnefc.frontends.tflite.window_folds import spread
from nnefc.ir import DType


@operator("STABLEHLO_DOT_GENERAL", options="StablehloDotGeneralOptions", types=REALS)
def dot_general(
    make: OpBuilder,
    lhs: Operand,
    rhs: Operand,
    *,
    lhs_batching_dimensions: Integers,
    rhs_batching_dimensions: Integers,
    lhs_contracting_dimensions: Integers,
    rhs_contracting_dimensions: Integers,
) -> Any:
    """The batch, then the other dimensions of both operands."""
    pairs = list(zip(lhs_batching_dimensions, rhs_batching_dimensions, strict=False))
    summed = list(zip(lhs_contracting_dimensions, rhs_contracting_dimensions, strict=False))
    letters = iter(string.ascii_letters)
    try:
        left = [next(letters) for _ in range(lhs.type.rank)]
        right = [next(letters) for _ in range(rhs.type.rank)]
        for i, j in (*pairs, *summed):
            right[j] = left[i]
    except (IndexError, StopIteration):
        shapes = f"{list(lhs.type.dims)} and {list(rhs.type.dims)}"
        message = f"dimensions {pairs} and {summed} of tensors of shape {shapes}"
        raise OperatorError("tflite/shape", message) from None
    batch = [left[i] for i, _ in pairs]
    gone = {*batch, *(left[i] for i, _ in summed)}
    rest = [name for name in (*left, *right) if name not in gone]
    expression = f"{''.join(left)},{''.join(right)}->{''.join((*batch, *rest))}"
    return einsum(make, expression, [lhs, rhs])


@operator("STABLEHLO_CONVOLUTION", options="StablehloConvolutionOptions", types=REALS)
def convolution(
    make: OpBuilder,
    x: Operand,
    kernel: Operand,
    *,
    window_strides: Integers,
    padding: Integers,
    lhs_dilation: Integers,
    rhs_dilation: Integers,
    window_reversal: tuple[bool, ...],
    input_batch_dimension: int,
    input_feature_dimension: int,
    input_spatial_dimensions: Integers,
    kernel_input_feature_dimension: int,
    kernel_output_feature_dimension: int,
    kernel_spatial_dimensions: Integers,
    output_batch_dimension: int,
    output_feature_dimension: int,
    output_spatial_dimensions: Integers,
    feature_group_count: int,
    batch_group_count: int,
) -> Any:
    """Empty options stand for steps of 1 and no padding."""
    rank, spatial = x.type.rank, x.type.rank - 2
    places = (input_batch_dimension, input_feature_dimension, *input_spatial_dimensions)
    of_kernel = (
        *(kernel_output_feature_dimension, kernel_input_feature_dimension),
        *kernel_spatial_dimensions,
    )
    results = (output_batch_dimension, output_feature_dimension, *output_spatial_dimensions)
    if (
        kernel.type.rank != rank
        or spatial < 1
        or any(sorted(each) != list(range(rank)) for each in (places, of_kernel, results))
    ):
        message = f"dimensions {list(places)}, {list(of_kernel)} and {list(results)}"
        raise OperatorError("tflite/shape", f"{message} of tensors of rank {rank}")
    if batch_group_count > 1:
        raise OperatorError("tflite/unsupported", "groups of the batch")
    one = (1,) * spatial
    stride, dilation = window_strides or one, rhs_dilation or one
    if len(padding) not in (0, 2 * spatial):
        message = f"padding {list(padding)} of {spatial} dimensions"
        raise OperatorError("tflite/shape", message)
    pairs = np.array(padding or (0,) * (2 * spatial), int).reshape(-1, 2).tolist()
    w = _turned(make, make.transpose(kernel, of_kernel), window_reversal)
    turned = make.transpose(x, places)
    y = make(
        "conv",
        spread(make, turned, (1, 1, *(lhs_dilation or one)), 0.0),
        w,
        padding=tuple(map(tuple, pairs)),
        stride=tuple(stride),
        dilation=tuple(dilation),
        groups=max(feature_group_count, 1),
    )
    return make.transpose(y, [results.index(i) for i in range(rank)])


def _turned(make: OpBuilder, kernel: Operand, reversal: tuple[bool, ...]) -> Operand:
    """A kernel [outputs, inputs, ..] with the items of some dimensions in reverse order."""
    for axis, is_reversed in enumerate(reversal[: kernel.type.rank - 2]):
        if is_reversed:
            backwards = np.arange(kernel.type.dims[2 + axis])[::-1]
            kernel = gather(make, kernel, known_array(backwards, DType.INT64), 2 + axis)
    return kernel
