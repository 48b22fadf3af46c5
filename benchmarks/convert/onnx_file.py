"""An imported graph as an ONNX file, as a good exporter would write it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.convert.patterns import is_stored, simplify
from nnefc.ir import DType, Graph, Op, Value
from nnefc.passes.base import splat

Array = np.ndarray[Any, Any]

_DTYPES = {
    DType.FLOAT32: "FLOAT",
    DType.FLOAT64: "DOUBLE",
    DType.INT32: "INT32",
    DType.INT64: "INT64",
    DType.BOOL: "BOOL",
}


class Unsupported(Exception):
    """A graph that cannot be converted; says why."""


def stored_data(graph: Graph, value: Value) -> Array:
    """The items of a variable or constant, in its shape."""
    assert value.op is not None
    attributes = value.op.attributes
    if value.op.name == "variable":
        data = graph.variables[attributes["label"].lower()].data
        assert data is not None, f"variable {attributes['label']} has no data"
        return data
    items = np.asarray(attributes["value"], value.type.dtype.numpy)
    if items.size == 1:
        return np.full(value.type.dims, items.reshape(-1)[0], value.type.dtype.numpy)
    return items.reshape(value.type.dims)


class OnnxWriter:
    """Nodes and initializers of a file.

    opset 17 knows LayerNormalization; `fused` writes Gelu and Attention too, which are younger
    and which not every engine reads.
    """

    def __init__(self, graph: Graph, *, fused: bool) -> None:
        self.graph = graph
        self.fused = fused
        self.opset = 23 if fused else 17
        self._helper: Any = import_module("onnx.helper")
        self._types: Any = import_module("onnx").TensorProto
        self._numpy: Any = import_module("onnx.numpy_helper")
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []
        self._names: dict[Value, str] = {}
        self._count = 0

    # -- what handlers use

    def name(self, value: Value) -> str:
        """The name of an operand, which is stored on first use."""
        if value not in self._names:
            assert is_stored(value), f"{value!r} is used before it is made"
            self._names[value] = self.store(stored_data(self.graph, value))
        return self._names[value]

    def data(self, value: Value) -> Array:
        if not is_stored(value):
            raise Unsupported(f"{value!r} is computed, expected data")
        return stored_data(self.graph, value)

    def store(self, data: Any, dtype: Any = None) -> str:
        self._count += 1
        name = f"data{self._count}"
        array = np.ascontiguousarray(np.asarray(data, dtype)).reshape(np.shape(data))
        self._initializers.append(self._numpy.from_array(array, name))
        return name

    def node(self, kind: str, *inputs: str, results: int = 1, **attributes: Any) -> list[str]:
        """Append a node; the names of its results."""
        self._count += 1
        outputs = [f"{kind.lower()}{self._count}_{i}" for i in range(results)]
        name = f"{kind}{self._count}"
        self._nodes.append(self._helper.make_node(kind, inputs, outputs, name=name, **attributes))
        return outputs

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.node(kind, *inputs, **attributes)[0]

    def aligned(self, value: Value, rank: int) -> str:
        """An operand of an element-wise operation: ONNX aligns extents at the last dimension."""
        dims = value.type.dims
        if not dims or len(dims) == rank:
            return self.name(value)
        shape = (*dims, *(1,) * (rank - len(dims)))
        if is_stored(value):
            return self.store(self.data(value).reshape(shape))
        return self.one("Reshape", self.name(value), self.store(shape, np.int64))

    # -- the whole

    def model(self) -> Any:
        from benchmarks.convert.onnx_operations import HANDLERS

        for value in self.graph.inputs:
            self._names[value] = value.name
        for op in self.graph.ops:
            if op.name in ("variable", "constant"):
                continue
            handler = HANDLERS.get(op.name)
            if handler is None:
                raise Unsupported(f"operation {op.name} is not converted")
            results = handler(self, op)
            results = [results] if isinstance(results, str) else results
            self._names.update(zip(op.outputs, results, strict=True))
        for name, value in zip(self.graph.output_names, self.graph.outputs):
            made = self._helper.make_node("Identity", [self.name(value)], [name], name=f"to_{name}")
            self._nodes.append(made)
        self._drop_identities()
        inputs = [self._info(v.name, v) for v in self.graph.inputs]
        outputs = [self._info(*end) for end in zip(self.graph.output_names, self.graph.outputs)]
        made = self._helper.make_graph(
            self._nodes, self.graph.name, inputs, outputs, self._initializers
        )
        opsets = [self._helper.make_opsetid("", self.opset)]
        model = self._helper.make_model(made, opset_imports=opsets)
        model.ir_version = 11 if self.fused else 8
        return model

    def _info(self, name: str, value: Value) -> Any:
        dtype = getattr(self._types, _DTYPES[value.type.dtype])
        return self._helper.make_tensor_value_info(name, dtype, value.type.dims)

    def _drop_identities(self) -> None:
        """Let the nodes that make the results bear their names, where nothing else does."""
        inputs = {v.name for v in self.graph.inputs}
        makers = {result for node in self._nodes for result in node.output} - inputs
        renamed: dict[str, str] = {}
        kept: list[Any] = []
        for node in self._nodes:
            source = node.input[0] if node.input else ""
            last = node.name.startswith("to_") and node.op_type == "Identity"
            if last and source in makers and source not in renamed:
                renamed[source] = node.output[0]
            else:
                kept.append(node)
        for node in kept:
            for names in (node.input, node.output):
                names[:] = [renamed.get(name, name) for name in names]
        self._nodes = kept


def onnx_model(graph: Graph, *, fused: bool = False) -> Any:
    """The ModelProto of an imported graph; raises `Unsupported`."""
    if any(op.name == "update" for op in graph.ops):
        raise Unsupported("the network keeps state between calls")
    return OnnxWriter(simplify(graph), fused=fused).model()


def has_fused_form(graph: Graph) -> bool:
    """Whether `fused` makes a difference."""
    return any(op.name in ("attention", "gelu_tanh") for op in simplify(graph).ops)


def write_onnx(graph: Graph, path: Path, *, fused: bool = False) -> None:
    """Write an imported graph to a file; raises `Unsupported`."""
    import_module("onnx").save(onnx_model(graph, fused=fused), str(path))


def number(op: Op, index: int) -> float | None:
    """The number that an operand is, everywhere; None if it is none."""
    found = splat(op.inputs[index])
    return None if found is None else float(found)
