"""Conversions between codes and reals."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.registry import CODES, Node, operator
from nnefc.frontends.tflite.tensors import dtype_of
from nnefc.ir import DType


def parameters(tensor: Tensor) -> tuple[KnownTensor, KnownTensor]:
    """Scale and zero point of a tensor of codes, in a form that broadcasts with it."""
    codes = tensor.quantization
    if codes is None or not codes.scale:
        raise OperatorError("tflite/quantization", f"{tensor} has no scale")
    rank = len(tensor.shape)
    shape = (
        () if len(codes.scale) == 1 else tuple(-1 if i == codes.axis else 1 for i in range(rank))
    )
    dtype = dtype_of(tensor)
    limits = np.iinfo(dtype.numpy)
    if not all(limits.min <= zero <= limits.max for zero in codes.zero_point):
        message = f"a zero point of {tensor} is not between {limits.min} and {limits.max}"
        raise OperatorError("tflite/quantization", message)
    if not all(scale > 0 for scale in codes.scale):
        raise OperatorError("tflite/quantization", f"a scale of {tensor} is 0")
    scale = np.array(codes.scale, np.float32).reshape(shape)
    zero = np.array(codes.zero_point, dtype.numpy).reshape(shape)
    return KnownTensor(scale, DType.FLOAT32), KnownTensor(zero, dtype)


@operator("DEQUANTIZE", types=(*CODES, "INT16"))
def dequantize(make: OpBuilder, input: Operand, node: Node) -> Any:
    source = node.inputs[0]
    assert source is not None
    return make("dequantize", input, *parameters(source))


@operator("DEQUANTIZE", types=("FLOAT16",))
def widen(make: OpBuilder, input: Operand) -> Any:
    """Reals of 16 bits become those of 32 bits."""
    return make.cast(input, DType.FLOAT32)
