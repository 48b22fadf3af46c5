"""`SVDF` of codes: features and their weights over time in integers, with a state of 16 bits."""

from __future__ import annotations

from typing import Any

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import as_codes, int32, rescaled, scale_of, zero_tensor
from nnefc.frontends.tflite.operands import known_array
from nnefc.frontends.tflite.operators.recurrent.layers import svdf_extents, with_feature
from nnefc.frontends.tflite.registry import Node, operator
from nnefc.ir import DType


@operator("SVDF", options="SVDFOptions", types=("INT8",))
def svdf(
    make: OpBuilder,
    input: Operand,
    weights_feature: Operand,
    weights_time: Operand,
    bias: Operand | None,
    state: Operand,
    *,
    rank: int,
    node: Node,
) -> Any:
    """Features are kept as int16, weighted by int16, and summed in int32, without an activation.

    input [batch, depth], weights_feature [filters, depth], weights_time [filters, steps],
    state [batch, filters * steps], result [batch, filters / rank].
    """
    x, features, times, kept = _tensors(node)
    batch, filters, steps = svdf_extents(input, weights_time, state, rank)
    depth, shape = input.type.dims[1], of_rank("svdf", "weights_feature", weights_feature, 2)
    if shape != (filters, depth):
        message = f"input has shape {[batch, depth]}, weights_feature {list(shape)}"
        raise OperatorError("tflite/shape", message)
    zero = known_array(0, DType.INT8)
    sums = make("integer_matmul", input, weights_feature, zero_tensor(x), zero, transposeB=True)
    sums = rescaled(make, sums, [scale_of(x) * scale_of(features) / scale_of(kept)])
    sums = make("max", make("min", sums, int32(32767)), int32(-32768))
    feature = make.reshape(make.cast(sums, DType.INT16), (batch, filters, 1))
    after = with_feature(make, node, state, feature, steps)
    wide = make.reshape(make.cast(weights_time, DType.INT32), (1, filters, steps))
    weighted = make("mul", make.cast(after, DType.INT32), wide)
    units = filters // rank
    every = make.reshape(weighted, (batch, units, rank * steps))
    total = make.reshape(make("sum_reduce", every, axes=(2,)), (batch, units))
    if bias is not None:
        total = make("add", total, make.reshape(bias, (1, units)))
    factor = scale_of(kept) * scale_of(times) / scale_of(node.output)
    y = rescaled(make, total, [factor])
    return as_codes(make, y, node.output)


def _tensors(node: Node) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Input, both weights and state; raises OperatorError for items of other types."""
    tensors = [node.inputs[i] for i in (0, 1, 2, 4)]
    wanted = "INT8", "INT8", "INT16", "INT16"
    for tensor, type_ in zip(tensors, wanted, strict=True):
        if tensor is None or tensor.type != type_:
            what = "a missing tensor" if tensor is None else f"{tensor} with items of {tensor.type}"
            raise OperatorError("tflite/unsupported", f"{what}, where {type_} is expected")
    x, features, times, kept = (each for each in tensors if each is not None)
    return x, features, times, kept
