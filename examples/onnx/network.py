"""Writes ONNX files: a graph that grows node by node, and the layers that the examples share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper
from onnx.numpy_helper import from_array

Array = np.ndarray[Any, Any]

OPSET: Final = 20
"""The version of the operators; it has `LayerNormalization` and `Gelu`."""
ITEM_TYPES: Final = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}


class Network:
    """An ONNX graph under construction. Values are names; arrays become weights of the file."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes = list[NodeProto]()
        self.weights = list[TensorProto]()
        self.inputs = list[ValueInfoProto]()
        self.outputs = list[ValueInfoProto]()
        self.random = np.random.default_rng(seed)

    def __call__(self, op: str, *operands: str | Any, result: str = "", **attributes: Any) -> str:
        """Append a node with one result; returns its name.

        `operands`: names of values; arrays and numbers become initializers.
        """
        names = [x if isinstance(x, str) else self.weight(np.asarray(x)) for x in operands]
        result = result or f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, [result], **attributes))
        return result

    def weight(self, array: Array) -> str:
        """The name of a new initializer."""
        name = f"weight_{len(self.weights)}"
        self.weights.append(from_array(array, name))
        return name

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> str:
        """Declare an input. Dimensions that are names are symbols, which each call binds."""
        self.inputs.append(helper.make_tensor_value_info(name, ITEM_TYPES[dtype], shape))
        return name

    def output(self, name: str, dtype: str, shape: Sequence[int | str]) -> None:
        """Declare the result of a node as an output."""
        self.outputs.append(helper.make_tensor_value_info(name, ITEM_TYPES[dtype], shape))

    def save(self, path: Path) -> Path:
        """Check the model and write it to a file."""
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, self.outputs, self.weights)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9
        )
        cast(Any, onnx).checker.check_model(model)
        path.write_bytes(model.SerializeToString())
        return path

    def embedding(self, ids: str, count: int, width: int) -> str:
        """Rows of a random table."""
        table = self.random.standard_normal((count, width)) * 0.1
        return self("Gather", table.astype(np.float32), ids)

    def dense(self, x: str, width: int, size: int) -> str:
        """x [..., width] times a random matrix [width, size], plus a random bias."""
        matrix = self.random.standard_normal((width, size)) / width**0.5
        bias = self.random.standard_normal(size) * 0.1
        return self("Add", self("MatMul", x, matrix.astype(np.float32)), bias.astype(np.float32))

    def norm(self, x: str, width: int) -> str:
        """Layer normalization of the last axis."""
        ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
        return self("LayerNormalization", x, ones, zeros, axis=-1, epsilon=1e-5)

    def feed_forward(self, x: str, width: int) -> str:
        """Two dense layers with GELU between them."""
        return self.dense(self("Gelu", self.dense(x, width, 4 * width)), 4 * width, width)

    def heads(self, x: str, width: int, count: int) -> str:
        """A dense layer of x [batch, items, width], as heads [batch, count, items, -]."""
        split = self("Reshape", self.dense(x, width, width), [0, 0, count, width // count])
        return self("Transpose", split, perm=[0, 2, 1, 3])

    def attention(self, q: str, k: str, v: str, mask: str, width: int, count: int) -> str:
        """Attention of heads [batch, count, items, -]; returns [batch, items, width].

        `mask` is added to the scores [batch, count, queries, keys].
        """
        scale = np.float32((width // count) ** -0.5)
        scores = self("MatMul", q, self("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self("Add", self("Mul", scores, scale), mask)
        y = self("MatMul", self("Softmax", scores, axis=-1), v)
        joined = self("Reshape", self("Transpose", y, perm=[0, 2, 1, 3]), [0, 0, width])
        return self.dense(joined, width, width)
