"""A call of the decoder as ONNX with float32 weights."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (onnx is not typed)

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.language.decoder import (
    EPSILON,
    Array,
    Call,
    Sizes,
    gain,
    inputs,
    matrix,
    outputs,
)


def write(path: Path, sizes: Sizes, call: Call) -> None:
    """Write the model with its weights to one file."""
    graph = _Graph()
    table = matrix("table", sizes.matrices()["table"])
    x = graph("Gather", graph.constant("table", table), "token")
    for i in range(sizes.layers):
        x = _layer(graph, sizes, call, i, x)
    if call.count > 1:
        ends = graph.shape(call.count - 1), graph.shape(call.count)
        x = graph("Slice", x, *ends, graph.shape(0))
    y = _normalised(graph, sizes, x, "last")
    graph("MatMul", y, graph.constant("scores_of", table.T), result="scores")
    split = [1, sizes.heads, call.count, sizes.head]
    shapes = {"scores": [1, sizes.vocabulary]}
    graph_proto = helper.make_graph(
        graph.nodes,
        "decoder",
        [
            helper.make_tensor_value_info(
                name, TensorProto.INT64 if name == "token" else TensorProto.FLOAT, x.shape
            )
            for name, x in inputs(sizes, call).items()
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes.get(name, split))
            for name in outputs(sizes)
        ],
        graph.constants,
    )
    model = helper.make_model(
        graph_proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    onnx.save(model, str(path))


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def __call__(self, name: str, *operands: str, result: str = "", **attributes: Any) -> str:
        """Append an operator and return the name of its result."""
        self._count += 1
        result = result or f"t{self._count}"
        self.nodes.append(helper.make_node(name, operands, [result], **attributes))
        return result

    def constant(self, name: str, items: Array) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(items), name))
        return name

    def shape(self, *extents: int) -> str:
        self._count += 1
        return self.constant(f"s{self._count}", np.array(extents, np.int64))


def _product(graph: _Graph, sizes: Sizes, x: str, label: str) -> str:
    weights = matrix(label, sizes.matrices()[label]).T
    return graph("MatMul", x, graph.constant(label, weights))


def _normalised(graph: _Graph, sizes: Sizes, x: str, label: str) -> str:
    two = graph.constant(f"{label}/two", np.array(2, np.float32))
    epsilon = graph.constant(f"{label}/epsilon", np.array(EPSILON, np.float32))
    mean = graph("ReduceMean", graph("Pow", x, two), axes=[-1], keepdims=1)
    scaled = graph("Div", x, graph("Sqrt", graph("Add", mean, epsilon)))
    return graph("Mul", scaled, graph.constant(label, gain(label, sizes.width)))


def _turned(graph: _Graph, sizes: Sizes, x: str, result: str) -> str:
    """Rotary position embedding (Su et al. 2021)."""
    half = sizes.head // 2
    first = graph("Slice", x, graph.shape(0), graph.shape(half), graph.shape(3))
    second = graph("Slice", x, graph.shape(half), graph.shape(2 * half), graph.shape(3))
    other = graph("Concat", graph("Neg", second), first, axis=3)
    parts = graph("Mul", x, "cosine"), graph("Mul", other, "sine")
    return graph("Add", *parts, result=result)


def _layer(graph: _Graph, sizes: Sizes, call: Call, i: int, x: str) -> str:
    label, alone = f"layer{i}", call.count == 1
    split = (1, sizes.heads, 1, sizes.head) if alone else (1, call.count, sizes.heads, sizes.head)
    normalised = _normalised(graph, sizes, x, f"{label}/before")

    def heads(name: str, result: str = "") -> str:
        """[1, heads, tokens, items]; with one token, splitting heads needs no transpose."""
        product = _product(graph, sizes, normalised, f"{label}/{name}")
        if alone:
            return graph("Reshape", product, graph.shape(*split), result=result)
        parts = graph("Reshape", product, graph.shape(*split))
        return graph("Transpose", parts, perm=[0, 2, 1, 3], result=result)

    query = _turned(graph, sizes, heads("q"), f"query{i}")
    key = keys = _turned(graph, sizes, heads("k"), f"key{i}")
    value = values = heads("v", f"value{i}")
    if call.past:
        keys = graph("Concat", f"keys{i}", key, axis=2)
        values = graph("Concat", f"values{i}", value, axis=2)
    scores = graph("MatMul", query, graph("Transpose", keys, perm=[0, 1, 3, 2]))
    factor = graph.constant(f"{label}/factor", np.array(sizes.head**-0.5, np.float32))
    scores = graph("Mul", scores, factor)
    if not alone:
        later = np.triu(np.full((call.count, call.count), -np.inf, np.float32), 1)
        scores = graph("Add", scores, graph.constant(f"{label}/mask", later))
    attended = graph("MatMul", graph("Softmax", scores, axis=-1), values)
    if not alone:
        attended = graph("Transpose", attended, perm=[0, 2, 1, 3])
    attended = graph("Reshape", attended, graph.shape(call.count, sizes.width))
    x = graph("Add", x, _product(graph, sizes, attended, f"{label}/o"))
    between = _normalised(graph, sizes, x, f"{label}/between")
    gate = _product(graph, sizes, between, f"{label}/gate")
    active = graph("Mul", gate, graph("Sigmoid", gate))
    hidden = graph("Mul", active, _product(graph, sizes, between, f"{label}/up"))
    return graph("Add", x, _product(graph, sizes, hidden, f"{label}/down"))
