"""Small ONNX networks with QuantizeLinear and DequantizeLinear around convolutions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]

TYPES = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


@dataclass
class Network:
    """Nodes are added one after the other; tensors are named."""

    seed: int = 0
    nodes: list[Any] = field(default_factory=list[Any])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The result of a node."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, items: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = items
        return name

    def parameters(self, scale: float, zero: int, dtype: str) -> tuple[str, str]:
        return self.constant(np.array(scale, "f4")), self.constant(np.array(zero, dtype))

    def rounded(self, x: str, scale: float, zero: int, dtype: str) -> str:
        """Codes, as reals again."""
        parameters = self.parameters(scale, zero, dtype)
        return self.node(
            "DequantizeLinear", self.node("QuantizeLinear", x, *parameters), *parameters
        )

    def conv(
        self,
        x: str,
        scale: float,
        channels: tuple[int, int],
        size: int = 3,
        *,
        bias: str = "int32",
        group: int = 1,
        gain: float = 1.0,
        **attributes: Any,
    ) -> str:
        """A convolution of reals with weights in codes, and a bias in codes or reals.

        `scale`: that of x; `gain`: how much larger results are than items of x, about.
        """
        inputs, outputs = channels
        depth = inputs // group * size**2
        w = self.random.integers(-128, 128, (outputs, inputs // group, size, size)).astype("i1")
        scales = (self.random.uniform(0.5, 1.5, outputs) * gain / (74 * depth**0.5)).astype("f4")
        zero = self.constant(np.zeros(outputs, "i1"))
        real = self.node("DequantizeLinear", self.constant(w), self.constant(scales), zero, axis=0)
        units = scales * np.float32(scale)
        codes = self.random.integers(-9000, 9000, outputs).astype("i4")
        if bias == "int32":
            zeros = self.constant(np.zeros(outputs, "i4"))
            added = self.node(
                "DequantizeLinear", self.constant(codes), self.constant(units), zeros, axis=0
            )
        else:
            added = self.constant((codes * units).astype("f4"))
        return self.node("Conv", x, real, added, group=group, **attributes)

    def model(self, x: tuple[int, ...], **outputs: tuple[str, str]) -> Any:
        """The model; `outputs`: tensors, and their types, by name."""
        value = helper.make_tensor_value_info
        for name, (tensor, _) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [tensor], [name]))
        graph = helper.make_graph(
            self.nodes,
            "quantized",
            [value("x", TensorProto.FLOAT, list(x))],
            [value(name, TYPES[dtype], None) for name, (_, dtype) in outputs.items()],
            [numpy_helper.from_array(items, name) for name, items in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
