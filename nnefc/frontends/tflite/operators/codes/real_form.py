"""Operators on codes as operators on reals between conversions, as other formats have them.

    codes ── dequantize ── the operator on reals ── quantize ── codes

So a `CONV_2D` of int8 is a convolution of reals whose result is rounded to codes (QDQ form).  It
rounds once, in floats, where LiteRT rounds in fixed point: results differ by at most one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nnefc.formats.tflite.model import Quantization, Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.tflite.registry import CODES, CODES_16, Node, Operator, bind, find
from nnefc.ir import DType
from nnefc.ops.core.interface import sequence

_CODE_TYPES: Final = (*CODES, *CODES_16, "INT4")
_BIAS_TYPES: Final = ("INT32", "INT64")
_BIAS_OF: Final = {
    "CONV_2D": (0, 1),
    "DEPTHWISE_CONV_2D": (0, 1),
    "FULLY_CONNECTED": (0, 1),
    "TRANSPOSE_CONV": (2, 1),
}
"""Operators with a bias, and the inputs whose scales it has."""
_AS_THEY_ARE: Final = (
    *("IF", "WHILE", "CALL", "CALL_ONCE", "CUSTOM", "STABLEHLO_COMPOSITE"),
    *("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "DEQUANTIZE"),
)
"""Operators whose codes stay codes: conversions, and those whose subgraphs have operators."""


def _has_codes(tensor: Tensor | None) -> bool:
    codes = None if tensor is None else tensor.quantization
    is_code = tensor is not None and tensor.type in _CODE_TYPES
    return is_code and codes is not None and bool(codes.scale)


def reads_or_writes_codes(node: Node) -> bool:
    """Whether an operator has another form for reals."""
    if node.operator.name in _AS_THEY_ARE:
        return False
    given = (*node.inputs, *node.outputs)
    if any(each is not None and each.is_variable for each in given):
        return False  # a state keeps the type that it has in the file
    # reals with weights of codes are rounded in each call, which is written as it is
    return any(_has_codes(each) and each is not None and each.data is None for each in given)


def in_reals(make: OpBuilder, node: Node, inputs: Sequence[Any]) -> Any:
    """The results of an operator on codes by its function of reals; raises OperatorError."""
    given = list(inputs)
    for i, tensor in enumerate(node.inputs):
        if tensor is not None and given[i] is not None and stands_for_reals(node, i):
            given[i] = _dequantized(make, operand(given[i]), with_scale(node, i))
    if node.operator.name == "QUANTIZE":
        results: list[Any] = [given[0]]
    else:
        real = _real_node(node)
        function = find(real)
        if function is None or function.types == CODES:
            message = "it has no form for reals, which the written model needs"
            raise OperatorError("tflite/reals", message)
        results = list(sequence(_called(make, function, given, real)) or [])
    return [
        _quantized(make, result, tensor) if _has_codes(tensor) else result
        for result, tensor in zip(results, node.outputs, strict=False)
    ]


def _called(make: OpBuilder, function: Operator, given: Sequence[Any], node: Node) -> Any:
    positional, named = bind(function, given, node)
    results = function.function(make, *positional, **named)
    return sequence(results) or [results]


def stands_for_reals(node: Node, index: int) -> bool:
    """Whether an input has codes: of a tensor with a scale, or of a bias."""
    return _has_codes(node.inputs[index]) or _is_bias(node, index)


def _is_bias(node: Node, index: int) -> bool:
    tensor = node.inputs[index]
    operands = _BIAS_OF.get(node.operator.name)
    is_integer = tensor is not None and tensor.type in _BIAS_TYPES
    return is_integer and operands is not None and index == max(operands) + 1


def with_scale(node: Node, index: int) -> Tensor:
    """The tensor of an input; a bias has the scales of the products that it is added to."""
    tensor = node.inputs[index]
    assert tensor is not None
    if not _is_bias(node, index):
        return tensor
    x, w = (node.inputs[i] for i in _BIAS_OF[node.operator.name])
    if x is None or w is None or x.quantization is None or w.quantization is None:
        raise OperatorError("tflite/quantization", f"{tensor} is a bias of products without scales")
    (factor,) = x.quantization.scale
    scales = tuple(float(np.float32(factor * each)) for each in w.quantization.scale)
    return replace(tensor, quantization=Quantization(scales, (0,) * len(scales), 0))


def _real_node(node: Node) -> Node:
    """The operator with reals instead of codes."""

    def reals(tensors: Sequence[Tensor | None], stands: Callable[[int], bool]) -> Any:
        return tuple(
            replace(each, type="FLOAT32", quantization=None)
            if each is not None and stands(i)
            else each
            for i, each in enumerate(tensors)
        )

    inputs = reals(node.inputs, lambda i: stands_for_reals(node, i))
    outputs = reals(node.outputs, lambda i: _has_codes(node.outputs[i]))
    return Node(node.operator, inputs, outputs, node.intermediates)


def _parameters(tensor: Tensor, dtype: DType) -> tuple[KnownTensor, KnownTensor]:
    """Scale and zero point of a tensor, in a form that broadcasts with it."""
    codes = tensor.quantization
    assert codes is not None
    shape: tuple[int, ...] = ()
    if len(codes.scale) > 1:
        shape = tuple(-1 if i == codes.axis else 1 for i in range(len(tensor.shape)))
    if not all(scale > 0 for scale in codes.scale):
        raise OperatorError("tflite/quantization", f"a scale of {tensor} is 0")
    limits = np.iinfo(dtype.numpy)
    if not all(limits.min <= zero <= limits.max for zero in codes.zero_point):
        message = f"a zero point of {tensor} is not between {limits.min} and {limits.max}"
        raise OperatorError("tflite/quantization", message)
    scale = np.array(codes.scale, np.float32).reshape(shape)
    zero = np.array(codes.zero_point, dtype.numpy).reshape(shape)
    return KnownTensor(scale, DType.FLOAT32), KnownTensor(zero, dtype)


def _dequantized(make: OpBuilder, x: Operand, tensor: Tensor) -> Operand:
    dtype = x.type.dtype
    scale, zero = _parameters(tensor, dtype)
    if isinstance(x, KnownTensor) and x.array.size == 1:  # an operator may need to know it
        items = (x.array.astype(np.float32) - zero.array) * scale.array
        return KnownTensor(items.astype(np.float32).reshape(x.type.dims), DType.FLOAT32)
    if isinstance(x, KnownTensor) and dtype is DType.INT64:
        items = (x.array.astype(np.float64) * scale.array).astype(np.float32)
        return KnownTensor(items, DType.FLOAT32)
    if isinstance(x, KnownTensor):
        x = replace(x, name=tensor.name)
    return operand(make("dequantize", x, scale, zero))


def _quantized(make: OpBuilder, x: Any, tensor: Tensor | None) -> Any:
    assert tensor is not None
    dtype = DType.INT8 if tensor.type == "INT4" else DType[tensor.type]
    return make("quantize", x, *_parameters(tensor, dtype))
