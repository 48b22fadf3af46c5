"""Small ONNX models, written with `onnx.helper`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from onnx.numpy_helper import from_array

OPSET = 17


def node(op_type: str, inputs: Sequence[str], outputs: Sequence[str], **more: Any) -> NodeProto:
    """A node; `more`: its attributes, and `name` and `domain`."""
    return helper.make_node(op_type, list(inputs), list(outputs), **more)


def tensor(name: str, shape: Sequence[int | str] | None, elem_type: int = 1) -> ValueInfoProto:
    """An input or an output, of float32 by default."""
    return helper.make_tensor_value_info(name, elem_type, shape)


def weight(name: str, array: Any) -> TensorProto:
    """An initializer with raw data."""
    return from_array(np.asarray(array), name)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    weights: Sequence[TensorProto] = (),
    *,
    opset: int = OPSET,
    functions: Sequence[Any] = (),
    domains: Sequence[str] = (),
) -> ModelProto:
    """A model; `domains`: of functions or custom operators, imported with version 1."""
    graph: GraphProto = helper.make_graph(
        list(nodes), "net", list(inputs), list(outputs), list(weights)
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    made = helper.make_model(graph, opset_imports=opsets, functions=list(functions))
    made.ir_version = 10
    return made


ROWS = np.arange(3000, dtype=np.float32).reshape(1000, 3)
"""Weights large enough to stay in the file."""


def passing(batch: int | str = 2) -> ModelProto:
    """A model that returns its input `x`, of shape [batch, 3], and the weight `ROWS`."""
    return model(
        [node("Identity", ["x"], ["y"], name="pass"), node("Identity", ["w"], ["v"], name="weigh")],
        [tensor("x", [batch, 3])],
        [tensor("y", [batch, 3]), tensor("v", [1000, 3])],
        [weight("w", ROWS)],
    )


def save(made: ModelProto, path: Path, *, external: str = "") -> Path:
    """Write a model; `external`: the name of the file for its weights."""
    if external:
        cast(Any, onnx).save(
            made, path, save_as_external_data=True, location=external, size_threshold=0
        )
    else:
        path.write_bytes(made.SerializeToString())
    return path
