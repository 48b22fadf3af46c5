"""Handlers that write conversions between reals and codes as QuantizeLinear, DequantizeLinear."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.emit.convert.onnx_writer import Handler, OnnxWriter, is_stored
from nnefc.ir import DType, Op, Value

_CODES: Final = (DType.INT8, DType.UINT8)
"""Types of codes that both operators have in version 17."""


def is_linear(op: Op) -> bool:
    """Whether an operator can say what a `quantize` or `dequantize` computes.

    It has one scale, or one for each index of an axis, and as many zero points.  Others are
    composed of simpler operations.
    """
    first, *parameters = op.inputs
    codes, reals = (first, op.output) if op.name == "dequantize" else (op.output, first)
    if codes.type.dtype not in _CODES or reals.type.dtype is not DType.FLOAT32:
        return False
    axes = {axis for value in parameters for axis in _axes(value)}
    count = _count(op)
    return len(axes) < 2 and all(is_stored(v) or v.type.volume == count for v in parameters)


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
    "dequantize": _conversion("DequantizeLinear"),
}
