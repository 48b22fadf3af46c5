"""Operators that move codes between tensors with scales of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.indices import gather
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, scalar
from nnefc.frontends.tflite.fixed_point import (
    int32,
    require_factor,
    same_scale,
    scale_of,
    zero_of,
)
from nnefc.frontends.tflite.operators.movement import concatenated, padding_pairs
from nnefc.frontends.tflite.registry import CODES, CODES_16, Node, operator
from nnefc.frontends.tflite.tensors import dtype_of
from nnefc.ir import DType


@operator("CONCATENATION", options="ConcatenationOptions", types=(*CODES, *CODES_16))
def concatenation(
    make: OpBuilder, *values: Operand, axis: int, fused_activation_function: int, node: Node
) -> Any:
    """Codes with another scale than the result are looked up in a table of their new codes."""
    if fused_activation_function:
        raise OperatorError("tflite/unsupported", "a fused activation of codes")
    parts = [
        _in_scale_of(make, x, tensor, node.output)
        for x, tensor in zip(values, node.inputs, strict=True)
        if tensor is not None
    ]
    return concatenated(make, tuple(parts), axis)


def _in_scale_of(make: OpBuilder, x: Operand, source: Tensor, target: Tensor) -> Operand:
    """Codes of one tensor as those of another one, scaled in float32; halves away from zero."""
    if same_scale(source, target):
        return x
    dtype = dtype_of(source)
    limits = np.iinfo(dtype.numpy)
    codes = np.arange(limits.min, limits.max + 1, dtype=np.float32)
    with np.errstate(all="ignore"):
        scale = np.float32(scale_of(source)) * (np.float32(1) / np.float32(scale_of(target)))
    require_factor(float(scale))
    offset = -np.float32(zero_of(source)) * scale
    reals = (codes * scale + offset).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(reals) + 0.5), reals) + zero_of(target)
    table = KnownTensor(np.clip(rounded, limits.min, limits.max).astype(dtype.numpy), dtype)
    places = make("sub", make.cast(x, DType.INT32), int32(limits.min))
    return gather(make, table, places, 0)


@operator("PAD", "PADV2", types=(*CODES, *CODES_16))
def pad(
    make: OpBuilder,
    input: Operand,
    paddings: Operand,
    constant_values: Operand | None = None,
    *,
    node: Node,
) -> Any:
    """The border has the zero point, or the code that is given."""
    pairs = padding_pairs(paddings, input.type.rank)
    code = zero_of(node.output) if constant_values is None else scalar(constant_values)
    return make("pad", input, padding=pairs, border="constant", value=float(code))
