"""Build small float32 graphs operation by operation, with random weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ir import DType, Graph, TensorType, Value, Variable
from nnefc.ops.tools.build import build, constant
from nnefc.ops.tools.cost import is_data


class Sketch:
    """A graph under construction; `finish` makes all results without users outputs."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(name)
        self._random = np.random.default_rng(0)

    def input(self, *shape: int) -> Value:
        return self.graph.add_input(TensorType(DType.FLOAT32, shape), f"x{len(self.graph.inputs)}")

    def weight(self, *shape: int) -> Value:
        label = f"w{len(self.graph.variables)}"
        type_ = TensorType(DType.FLOAT32, shape)
        data = self._random.standard_normal(shape, np.float32)
        self.graph.variables[label] = Variable(label, type_, data)
        attributes = {"shape": shape, "label": label}
        return build(self.graph, "variable", [], attributes, dtype=DType.FLOAT32).output

    def op(self, name: str, *operands: Value | float, **attributes: Any) -> Value:
        """The first result of an operation on tensors and numbers."""
        inputs = [
            x if isinstance(x, Value) else constant(self.graph, x, DType.FLOAT32) for x in operands
        ]
        return build(self.graph, name, inputs, attributes).outputs[0]

    def conv(
        self,
        x: Value,
        channels: int,
        *window: int,
        stride: int = 1,
        groups: int = 1,
        operation: str = "conv",
    ) -> Value:
        """A convolution with bias, or a deconvolution; the border is filled with zeros."""
        first, second = channels, x.type.dims[1] // groups
        if operation == "deconv":
            first, second = x.type.dims[1], channels // groups
        padded = operation == "conv"
        return self.op(
            operation,
            x,
            self.weight(first, second, *window),
            self.weight(1, channels),
            stride=(stride,) * len(window),
            padding=tuple((size // 2, size // 2) if padded else (0, 0) for size in window),
            dilation=(1,) * len(window),
            groups=groups,
        )

    def pool(
        self, x: Value, operation: str, size: int, *, stride: int, before: int, after: int
    ) -> Value:
        """Pooling of images over square windows; averages count the zeros of the border."""
        return self.op(
            operation,
            x,
            size=(1, 1, size, size),
            stride=(1, 1, stride, stride),
            padding=((0, 0), (0, 0), (before, after), (before, after)),
            dilation=(1, 1, 1, 1),
            border="ignore" if operation == "max_pool" else "constant",
        )

    def shuffle(self, x: Value, groups: int) -> Value:
        """A channel shuffle: the first channel of each group, the second of each, and so on."""
        batch, channels, *extents = x.type.dims
        x = self.op("reshape", x, shape=(batch, groups, channels // groups, *extents))
        x = self.op("transpose", x, axes=(0, 2, 1, *range(3, 3 + len(extents))))
        return self.op("reshape", x, shape=(batch, channels, *extents))

    def linear(self, x: Value, width: int) -> Value:
        """A fully connected layer with bias over the last of two dimensions."""
        return self.op("linear", x, self.weight(width, x.type.dims[1]), self.weight(1, width))

    def dense(self, x: Value, width: int) -> Value:
        """A fully connected layer with bias over the last of three dimensions."""
        y = self.op("matmul", x, self.weight(1, x.type.dims[2], width))
        return self.op("add", y, self.weight(1, 1, width))

    def finish(self) -> Graph:
        for op in list(self.graph.ops):
            for value in op.outputs:
                if not value.users and not is_data(op):
                    self.graph.add_output(value, f"y{len(self.graph.outputs)}")
        return self.graph
