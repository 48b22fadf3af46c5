"""Scales and zero points of tensors with one scale and one zero point, which are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.core.known_items import known_items
from nnefc.passes.analysis.known_data import constant_op

_CODES: Final = (DType.UINT8, DType.INT8, DType.UINT16, DType.INT16)


@dataclass(frozen=True, slots=True)
class CodeParameters:
    """real = (code - zero) scale, with codes of type `dtype` and reals in float32."""

    scale: float
    zero: int
    dtype: DType
    rounding: str = "even"
    """How quantize rounds halves."""

    @property
    def are_bytes(self) -> bool:
        """Whether codes have 8 bits."""
        return self.dtype.itemsize == 1


def code_parameters(op: Op | None, name: str) -> CodeParameters | None:
    """The parameters of `op` if it is the conversion `name`, quantize or dequantize; else None.

    Also None if they are computed or vary, and for codes of more than 16 bits.
    """
    if op is None or op.name != name:
        return None
    real, codes = op.output.type.dtype, op.inputs[0].type.dtype
    if name == "quantize":
        real, codes = codes, real
    scale, zero = (_number(value) for value in op.inputs[1:])
    if scale is None or zero is None or real is not DType.FLOAT32 or codes not in _CODES:
        return None
    return CodeParameters(float(scale), int(zero), codes, op.attributes.get("rounding", "even"))


def roundings_of(graph: Graph, value: Value) -> dict[Op, CodeParameters] | None:
    """The operations `quantize` that read `value`, and their parameters; None if others read it."""
    found = {user: code_parameters(user, "quantize") for user in value.users}
    results = {user: each for user, each in found.items() if each is not None}
    return None if graph.is_output(value) or len(results) < len(found) else results


def _number(value: Value) -> float | int | None:
    """The one item of a tensor, if it is known."""
    items = known_items(value)
    if items is None or items.size == 0 or (items != items.flat[0]).any():
        return None
    return np.asarray(items.flat[0]).item()


def converted(graph: Graph, name: str, x: Value, of: CodeParameters, before: Op) -> Value:
    """The result of the conversion `name`, quantize or dequantize, of x, inserted before an op."""
    scale = constant_op(np.array(of.scale), TensorType(DType.FLOAT32, ()), before.location)
    zero = constant_op(np.array(of.zero), TensorType(of.dtype, ()), before.location)
    operands = [x, graph.insert(scale, before).output, graph.insert(zero, before).output]
    type_ = x.type.with_dtype(of.dtype if name == "quantize" else DType.FLOAT32)
    attributes = {"rounding": of.rounding} if name == "quantize" else {}
    return graph.insert(Op(name, operands, attributes, [type_], (), before.location), before).output


def scaled(graph: Graph, x: Value, factor: float, before: Op) -> Value:
    """x times a number that is rounded to float32, inserted before an operation."""
    constant = constant_op(np.array(factor), TensorType(DType.FLOAT32, ()), before.location)
    operands = [x, graph.insert(constant, before).output]
    return graph.insert(Op("mul", operands, {}, [x.type], (), before.location), before).output
