"""Graphs of one operation, built from the samples of its entry for generic tests."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.ir import DType, Graph, TensorType, Value, Variable
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.interface import TensorParameter, interface
from nnefc.ops.core.spec import OpSpec, Sample
from nnefc.ops.tools.build import build


@dataclass(frozen=True, slots=True)
class Instance:
    """A graph of one operation, and data for its inputs in their item types."""

    graph: Graph
    inputs: dict[str, Array]


def instance(
    spec: OpSpec,
    sample: Sample,
    *,
    scalar: DType = DType.FLOAT32,
    integer: DType = DType.INT32,
) -> Instance:
    """The graph `y0, y1, ... = op(x0, x1, ...)` of a sample, and data for its inputs.

    Operands are inputs, except the variable of an `update`.  Data depend only on the operation and
    the sample.  `scalar`, `integer`: item types of the primitive types.  A sample with item types
    of its own determines those of the results.
    """
    graph = Graph(spec.name)
    seed = zlib.crc32(repr((spec.name, sample.inputs, dict(sample.attributes))).encode())
    random = np.random.default_rng(seed)
    inputs: dict[str, Array] = {}
    operands: list[Value] = []
    parameters = interface(spec).tensors
    for position, shape in enumerate(sample.inputs):
        parameter = parameters[position]
        explicit = sample.values.get(position)
        shapes = shape if parameter.is_array else [shape]
        items = (
            explicit if parameter.is_array and explicit is not None else [explicit] * len(shapes)
        )
        for one, values in zip(shapes, items, strict=True):
            dtype = sample.dtypes.get(position) or _dtype(
                parameter, sample, values, scalar, integer
            )
            data = _data(random, one, dtype, sample.data, values)
            if parameter.name == "variable":
                operands.append(_variable(graph, data, dtype))
            else:
                name = f"x{len(inputs)}"
                inputs[name] = data
                operands.append(graph.add_input(TensorType(dtype, tuple(one)), name))
    attributes = dict(sample.attributes)
    dtype = attributes.pop("dtype", None)
    if spec.name == "constant":
        dtype = _like(np.asarray(attributes["value"]), scalar, integer)
    elif isinstance(dtype, DType):
        dtype = _wide(dtype, scalar, integer)
    op = build(graph, spec.name, operands, attributes, dtype=dtype)
    for i, value in enumerate(op.outputs):
        if dtype is None and value.type.dtype.is_integer and not sample.dtypes:
            value.type = value.type.with_dtype(integer)
        value.name = f"y{i}"
        graph.add_output(value)
    return Instance(graph, inputs)


def _wide(dtype: DType, scalar: DType, integer: DType) -> DType:
    return scalar if dtype.is_float else integer if dtype.is_integer else dtype


def _like(array: Array, scalar: DType, integer: DType) -> DType:
    return {"f": scalar, "i": integer, "u": integer, "b": DType.BOOL}[array.dtype.kind]


def _dtype(
    parameter: TensorParameter, sample: Sample, values: Any, scalar: DType, integer: DType
) -> DType:
    match parameter.dtype:
        case "scalar":
            return scalar
        case "integer":
            return integer
        case "logical":
            return DType.BOOL
        case _ if values is not None:
            return _like(np.asarray(values), scalar, integer)
        case _:
            return {"logical": DType.BOOL, "integers": integer}.get(sample.data, scalar)


def _data(
    random: np.random.Generator, shape: tuple[int, ...], dtype: DType, kind: str, values: Any
) -> Array:
    """Random items that float32 represents exactly, so references and kernels see equal data."""
    if values is not None:
        return np.asarray(values, dtype.numpy).reshape(shape)
    if dtype is DType.BOOL:
        return random.random(shape) < 0.5
    if dtype.is_integer:
        low, high = (-100_000, 100_001) if kind == "integers" else (0, 2)
        return random.integers(low, high, shape).astype(dtype.numpy)
    match kind:
        case "positive":
            data = random.integers(1, 80, shape) / 16
        case "unit":
            data = random.integers(1, 64, shape) / 64
        case "ties":
            data = random.integers(-6, 7, shape) / 4
        case _:
            data = random.integers(-64, 65, shape) / 16
    return np.asarray(data, dtype.numpy)


def _variable(graph: Graph, data: Array, dtype: DType) -> Value:
    label = f"v{len(graph.variables)}"
    type_ = TensorType(dtype, data.shape)
    graph.variables[label] = Variable(label, type_, data)
    attributes = {"shape": data.shape, "label": label}
    return build(graph, "variable", [], attributes, dtype=dtype).output
