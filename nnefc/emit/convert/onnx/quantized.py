"""Handlers that write conversions between reals and codes as QuantizeLinear, DequantizeLinear."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.emit.convert.onnx.writer import Handler, OnnxWriter, is_stored
from nnefc.ir import DType, Op, Value
from nnefc.ops.extended.quantized import is_zero

_CODES: Final = (DType.INT8, DType.UINT8)
"""Types of codes that both operators have in version 17; the second one also has int32."""
_CODES_16: Final = (DType.INT16, DType.UINT16)
CODES_16_OPSET: Final = 21
"""The version in which both operators also have codes of 16 bits."""


def is_linear(op: Op) -> bool:
    """Whether an operator can say what a `quantize` or `dequantize` computes.

    It has one scale, or one for each index of an axis, and as many zero points.  Others are
    composed of simpler operations.
    """
    if op.attributes.get("rounding", "even") != "even":
        return False
    first, *parameters = op.inputs
    codes, reals = (first, op.output) if op.name == "dequantize" else (op.output, first)
    if _axis(op) is not None and any(user.inputs[0] is op.output for user in _products(op)):
        return False  # onnxruntime has one scale for the left matrix of a product
    dtype = codes.type.dtype
    is_sum = dtype is DType.INT32 and op.name == "dequantize" and is_zero(parameters[1])
    if reals.type.dtype is not DType.FLOAT32 or not (is_sum or dtype in (*_CODES, *_CODES_16)):
        return False
    axes = {axis for value in parameters for axis in _axes(value)}
    count = _count(op)
    return len(axes) < 2 and all(is_stored(v) or v.type.volume == count for v in parameters)


def has_codes_of_16_bits(op: Op) -> bool:
    """Whether a `quantize` or `dequantize` that an operator can say needs `CODES_16_OPSET`."""
    codes = op.inputs[0] if op.name == "dequantize" else op.output
    return codes.type.dtype in _CODES_16 and is_linear(op)


def right_matrix(value: Value) -> Op | None:
    """The `dequantize` of known codes that only products read, as their right matrix.

    It is written as a matrix of rank 2, transposed if the products transpose it: onnxruntime fuses
    these with a scale for each column.  None for other values.
    """
    op = value.op
    if op is None or op.name != "dequantize" or not is_stored(op.inputs[0]):
        return None
    users = _products(op)
    flags = {user.attributes["transposeB"] for user in users}
    is_right = all(user.inputs[1] is value is not user.inputs[0] for user in users)
    is_matrix = value.type.rank > 1 and all(extent == 1 for extent in value.type.dims[:-2])
    is_alone = len(users) == len(value.users) and len(flags) == 1
    is_alone = is_alone and op.graph is not None and not op.graph.is_output(value)
    return op if is_right and is_matrix and is_alone and is_linear(op) else None


def bias_vector(value: Value) -> Op | None:
    """The `dequantize` of known int32 codes that is only read as a bias of channels.

    It is written with rank 1, in which onnxruntime adds the codes to sums.  None for other values.
    """
    op = value.op
    if op is None or op.name != "dequantize" or not is_stored(op.inputs[0]):
        return None
    is_bias = all(
        user.name in ("conv", "deconv", "linear")
        and [i for i, operand in enumerate(user.inputs) if operand is value] == [2]
        for user in value.users
    )
    is_row = value.type.rank == 2 and value.type.dims[0] == 1
    is_alone = op.graph is not None and not op.graph.is_output(value)
    return op if is_bias and is_row and is_alone and is_linear(op) else None


def _leading(op: Op) -> range:
    """The axes before those of the matrix."""
    return range(op.output.type.rank - 2)


def _products(op: Op) -> list[Op]:
    """The matrix products that read the result of an operation."""
    return [user for user in op.output.users if user.name == "matmul"]


def _axes(value: Value) -> list[int]:
    """The axes along which a parameter has several items."""
    return [axis for axis, extent in enumerate(value.type.dims) if extent != 1]


def _axis(op: Op) -> int | None:
    """The axis whose indices have parameters of their own; None for one of all items."""
    return next((axis for value in op.inputs[1:] for axis in _axes(value)), None)


def _count(op: Op) -> int:
    """The number of scales, and of zero points."""
    axis = _axis(op)
    return 1 if axis is None else op.inputs[0].type.dims[axis]


def _parameter(w: OnnxWriter, value: Value, shape: tuple[int, ...]) -> str:
    """A scale or zero point in rank 0, or as a vector."""
    if value.type.dims == shape:
        return w.name(value)
    if is_stored(value):
        return w.store_form(
            value, np.broadcast_to(w.data(value).reshape(-1), shape or (1,)).reshape(shape)
        )
    return w.one("Reshape", w.name(value), w.store(shape, np.int64))


def _write_matrix(w: OnnxWriter, op: Op) -> str:
    """A `right_matrix`, of rank 2."""
    codes, axis = op.inputs[0], _axis(op)
    swapped = _products(op)[0].attributes["transposeB"]
    items = w.data(codes).reshape(codes.type.dims[-2:])
    attributes: dict[str, Any] = {}
    if axis is not None:
        attributes["axis"] = (axis - len(_leading(op))) ^ int(swapped)
    shape = () if axis is None else (_count(op),)
    parameters = [_parameter(w, value, shape) for value in op.inputs[1:]]
    name = w.store_form(codes, items.T if swapped else items)
    return w.one("DequantizeLinear", name, *parameters, **attributes)


def _write_bias(w: OnnxWriter, op: Op) -> str:
    """A `bias_vector`, of rank 1."""
    codes = op.inputs[0]
    axis = None if _axis(op) is None else 0
    shape = () if axis is None else (_count(op),)
    parameters = [_parameter(w, value, shape) for value in op.inputs[1:]]
    name = w.store_form(codes, w.data(codes).reshape(-1))
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    return w.one("DequantizeLinear", name, *parameters, **attributes)


def _dequantize(w: OnnxWriter, op: Op) -> str | list[str]:
    if right_matrix(op.output) is not None:
        return _write_matrix(w, op)
    if bias_vector(op.output) is not None:
        return _write_bias(w, op)
    return _conversion("DequantizeLinear")(w, op)


def _conversion(kind: str) -> Handler:
    def handler(w: OnnxWriter, op: Op) -> str:
        axis = _axis(op)
        shape = () if axis is None else (_count(op),)
        scale, zero_point = (_parameter(w, value, shape) for value in op.inputs[1:])
        attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
        return w.one(kind, w.name(op.inputs[0]), scale, zero_point, **attributes)

    return handler


CONVERSIONS: Final[dict[str, Handler]] = {
    "quantize": _conversion("QuantizeLinear"),
    "dequantize": _dequantize,
}
