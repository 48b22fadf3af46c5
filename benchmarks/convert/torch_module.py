"""Convert an imported graph to a PyTorch module with the same weights."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch is typed in part)

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from benchmarks.convert.patterns import simplify
from benchmarks.convert.torch_functions import FUNCTIONS
from nnefc.emit.convert.onnx.writer import Unsupported, is_stored, stored_data
from nnefc.ir import Graph, Op, Value
from nnefc.passes.op_queries import splat


class GraphModule(torch.nn.Module):
    """A module that calls the PyTorch functions of a graph in order."""

    def __init__(self, graph: Graph) -> None:
        """Raises `Unsupported` for updated variables."""
        super().__init__()
        if any(op.name == "update" for op in graph.ops):
            raise Unsupported("the network keeps state between calls")
        self._graph = simplify(graph)
        self._stored: dict[Value, Any] = {}
        for op in self._graph.ops:
            if op.name not in FUNCTIONS and op.name not in ("variable", "constant", "dense"):
                raise Unsupported(f"operation {op.name} is not converted")
            for i, value in enumerate(op.inputs):
                if is_stored(value) and value not in self._stored:
                    self._store(op, i, value)

    def _store(self, op: Op, index: int, value: Value) -> None:
        number = splat(value)
        if number is not None and not value.type.dims:
            self._stored[value] = number
            return
        data = torch.from_numpy(stored_data(self._graph, value).copy())
        if op.name == "dense":
            # [features, inputs], as in torch.nn.Linear
            data = data.reshape(data.shape[-2:]).T.contiguous() if index == 1 else data.reshape(-1)
        elif op.name == "layer_normalization":
            data = data.reshape(data.shape[op.attributes["axis"] :])
        name = f"data{len(self._stored)}"
        self.register_buffer(name, data)
        self._stored[value] = name

    def forward(self, *inputs: Any) -> Any:
        values: dict[Value, Any] = dict(zip(self._graph.inputs, inputs, strict=True))
        for value, stored in self._stored.items():
            values[value] = getattr(self, stored) if isinstance(stored, str) else stored
        for op in self._graph.ops:
            if op.name in ("variable", "constant"):
                continue
            operands = [values[v] for v in op.inputs]
            function = torch.nn.functional.linear if op.name == "dense" else FUNCTIONS[op.name]
            result = function(*operands, **op.attributes)
            values.update(zip(op.outputs, result if len(op.outputs) > 1 else [result]))
        results = tuple(values[v] for v in self._graph.outputs)
        return results[0] if len(results) == 1 else results


def write_torch_script(graph: Graph, path: Path) -> None:
    """Write an imported graph as a TorchScript file; raises `Unsupported`."""
    module = GraphModule(graph).eval()
    inputs = [torch.randn(v.type.dims) for v in graph.inputs]
    with torch.inference_mode():
        traced: Any = torch.jit.trace(module, tuple(inputs), check_trace=False)
    traced.save(str(path))
