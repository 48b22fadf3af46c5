"""`torchao`: codes with a scale and a zero point for each block of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.torch.operators.quantized import dequantized, extremes, quantized, zero_point
from nnefc.frontends.torch.registry import Integers, operator
from nnefc.ir import DType
from nnefc.ops.extended.quantized import code_limits

_SMALLEST: Final = {DType.FLOAT16: 2.0**-14, DType.FLOAT64: 2.0**-1022}
"""The smallest normal numbers of types other than float32 and bfloat16."""


def _blocks(dims: Sequence[int], block_size: Integers) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape in which a block is whole dimensions, and these; raises OperatorError.

    Dimensions with several blocks of several items are split.
    """
    if len(block_size) != len(dims):
        message = f"block_size has {len(block_size)} items for {len(dims)} dimensions"
        raise OperatorError("torch/arguments", message)
    shape: list[int] = []
    axes: list[int] = []
    for extent, block in zip(dims, block_size):
        if block not in (1, extent):
            if block < 1 or extent % block:
                message = f"blocks of {block} do not divide {extent} items"
                raise OperatorError("torch/arguments", message)
            shape.append(extent // block)
        shape.append(extent if block in (1, extent) else block)
        if block != 1:
            axes.append(len(shape) - 1)
    return tuple(shape), tuple(axes)


class _Blocked:
    """A tensor in the shape whose dimensions `axes` are those of a block."""

    def __init__(self, make: OpBuilder, x: Operand, block_size: Integers) -> None:
        shape, self.axes = _blocks(x.type.dims, block_size)
        self._make, self._dims = make, x.type.dims
        self._parameters = tuple(1 if i in self.axes else n for i, n in enumerate(shape))
        self.x = make.reshape(x, shape)

    def parameter(self, p: Operand) -> Operand:
        """A scale or zero point of each block, in a shape that broadcasts."""
        return self._make.reshape(p, self._parameters)

    def zero(self, p: Operand | None) -> Operand:
        """The zero points; those of no items are 0."""
        if p is None or not p.type.volume:
            return KnownTensor(np.zeros((), np.int64), DType.INT64)
        return self.parameter(p)

    def whole(self, y: Operand) -> Operand:
        """A result in the shape of the tensor."""
        return self._make.reshape(y, self._dims)


@operator("torchao.quantize_affine.default")
def quantize_affine(
    make: OpBuilder,
    input: Operand,
    block_size: Integers,
    scale: Operand,
    zero_point: Operand | None,
    output_dtype: DType,
    quant_min: float | None = None,
    quant_max: float | None = None,
) -> Any:
    blocked = _Blocked(make, input, block_size)
    parameters = blocked.parameter(scale), blocked.zero(zero_point)
    limits = _limits(output_dtype, quant_min, quant_max)
    return blocked.whole(quantized(make, blocked.x, *parameters, *limits, output_dtype))


@operator("torchao.dequantize_affine.default")
def dequantize_affine(
    make: OpBuilder,
    input: Operand,
    block_size: Integers,
    scale: Operand,
    zero_point: Operand | None,
    input_dtype: DType,
    quant_min: float | None = None,
    quant_max: float | None = None,
    output_dtype: DType = DType.FLOAT32,
) -> Any:
    blocked = _Blocked(make, input, block_size)
    parameters = blocked.parameter(scale), blocked.zero(zero_point)
    return blocked.whole(dequantized(make, blocked.x, *parameters, output_dtype))


@operator("torchao.choose_qparams_affine.default")
def choose_qparams_affine(
    make: OpBuilder,
    input: Operand,
    mapping_type: str,
    block_size: Integers,
    target_dtype: DType,
    quant_min: float | None = None,
    quant_max: float | None = None,
    eps: float | None = None,
    scale_dtype: DType | None = None,
    zero_point_dtype: DType | None = None,
    keepdim: bool = False,
) -> Any:
    """Scales and zero points of the ranges of blocks."""
    dtype = input.type.dtype
    least, most = _limits(target_dtype, quant_min, quant_max)
    blocked = _Blocked(make, input, block_size)
    low, high = extremes(make, blocked.x, blocked.axes)
    match mapping_type:
        case "ASYMMETRIC":
            width = make("div", make("sub", high, low), float(most - least))
        case "SYMMETRIC":
            width = make("div", make("max", make("neg", low), high), (most - least) / 2)
        case "SYMMETRIC_NO_CLIPPING_ERR":
            width = make("max", make("div", low, float(least)), make("div", high, float(most)))
        case _:
            raise OperatorError("torch/arguments", f"mapping_type = '{mapping_type}' is unknown")
    scale = make("max", width, _SMALLEST.get(dtype, 2.0**-126) if eps is None else eps)
    if mapping_type == "ASYMMETRIC":
        point = zero_point(make, low, scale, least, most)
    else:
        point = make("add", make("mul", scale, 0.0), float((most + least + 1) // 2))
    if keepdim:
        shape = tuple(n // block for n, block in zip(input.type.dims, block_size))
    else:
        kept = (n for i, n in enumerate(blocked.x.type.dims) if i not in blocked.axes)
        shape = tuple(kept)
    point = make.cast(point, zero_point_dtype or DType.INT32)
    return make.cast(make.reshape(scale, shape), scale_dtype or dtype), make.reshape(point, shape)


def _limits(dtype: DType, low: float | None, high: float | None) -> tuple[int, int]:
    """The least and the largest code; raises OperatorError for codes that are no integers."""
    if not dtype.is_integer:
        raise OperatorError("torch/unsupported", f"codes of {dtype} are not supported")
    least, most = code_limits(dtype)
    return least if low is None else int(low), most if high is None else int(high)


@operator("aten._int_mm.default")
def int_mm(make: OpBuilder, self: Operand, mat2: Operand) -> Any:
    """The product of matrices of codes, in int32."""
    zeros = (KnownTensor(np.zeros((), x.type.dtype.numpy), x.type.dtype) for x in (self, mat2))
    return make("integer_matmul", self, mat2, *zeros)


@operator("aten._weight_int8pack_mm.default")
def weight_int8pack_mm(make: OpBuilder, self: Operand, mat2: Operand, scales: Operand) -> Any:
    """self [rows, depth] times the transpose of the codes mat2 [columns, depth], scaled."""
    real = make.cast(self, DType.FLOAT32)
    zero = KnownTensor(np.zeros((), np.int64), DType.INT64)
    weight = dequantized(make, mat2, make.reshape(scales, (scales.type.volume, 1)), zero, None)
    return make.cast(make("matmul", real, weight, transposeB=True), self.type.dtype)
