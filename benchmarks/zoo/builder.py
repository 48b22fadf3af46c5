"""The `Builder` that networks are written with, and its layers.

A network is a function of a `Builder`.  `nnef.NnefBuilder` writes flat NNEF as converters do,
`oracle.TorchBuilder` computes with PyTorch.  Weights depend on their labels only, so the results
can be compared.
"""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """Random float32 weights, seeded by the label, within three deviations of the mean."""

    label: str
    shape: Shape
    deviation: float
    mean: float = 0.0

    def data(self) -> Array:
        """The items, which are the same in each call."""
        rng = np.random.default_rng(zlib.crc32(self.label.encode()))
        items = rng.standard_normal(self.shape, np.float32)
        np.clip(items, -3, 3, out=items)
        items *= np.float32(self.deviation)
        items += np.float32(self.mean)
        return items


@dataclass(frozen=True, slots=True)
class Node:
    """A tensor of a network under construction.

    `value`: the builder's representation.  `power`: the estimated mean square of its items;
    filters are scaled by it, so that activations stay moderate through any number of layers, and a
    mistake in the first layer shows in the output.
    """

    value: Any
    shape: Shape
    power: float

    @property
    def batch(self) -> int:
        return self.shape[0]

    @property
    def channels(self) -> int:
        return self.shape[1]


UNARY_POWER: dict[str, Callable[[float], float]] = {
    "relu": lambda power: power / 2,
    "clamp": lambda power: power / 2,
    "sigmoid": lambda _: 0.29,
    "tanh": lambda power: power / (1 + 1.5 * power),
    "silu": lambda power: 0.37 * power,
    "gelu": lambda power: 0.43 * power,
    "softmax": lambda _: 0.001,
}
"""Approximate mean square after an activation of normally distributed items, by theirs."""


OFFSET = 0.5
"""Deviation of the offsets of batch normalisations: large enough to correct a wrong estimate of
`power`, as the statistics of a trained network do."""


class Builder(ABC):
    """Operations of NNEF and layers made of them; the batch is dimension 0, channels are 1."""

    def __init__(self, batch: int = 1) -> None:
        self.batch = batch
        self.variables: dict[str, Variable] = {}
        self.inputs: dict[str, Shape] = {}

    # -- implemented by back ends

    @abstractmethod
    def make_input(self, name: str, shape: Shape) -> Any: ...

    @abstractmethod
    def make_variable(self, variable: Variable) -> Any: ...

    @abstractmethod
    def make(self, op: str, operands: Sequence[Any], attributes: dict[str, Any], count: int) -> Any:
        """The result of an NNEF operation; with `count`, a sequence of `count` results.

        Operands are values, numbers, or a list of values (a tensor array).  Attributes include all
        whose defaults depend on shapes.
        """

    # -- tensors

    def input(self, *dims: int, name: str = "input") -> Node:
        """A normally distributed input; `dims`: its shape without the batch."""
        shape = (self.batch, *dims)
        self.inputs[name] = shape
        return Node(self.make_input(name, shape), shape, 1.0)

    def weight(self, label: str, shape: Shape, deviation: float, mean: float = 0.0) -> Node:
        assert label not in self.variables, label
        variable = self.variables[label] = Variable(label, shape, deviation, mean)
        return Node(self.make_variable(variable), shape, deviation**2 + mean**2)

    def op(
        self, name: str, *operands: Node | float, result: Shape, power: float, **attributes: Any
    ) -> Node:
        """An operation with one result, of shape `result`."""
        values = [x.value if isinstance(x, Node) else x for x in operands]
        return Node(self.make(name, values, attributes, 0), result, power)

    # -- element by element

    def unary(self, name: str, x: Node, **attributes: Any) -> Node:
        power = UNARY_POWER[name](x.power) if name in UNARY_POWER else x.power
        return self.op(name, x, result=x.shape, power=power, **attributes)

    def relu(self, x: Node) -> Node:
        return self.unary("relu", x)

    def relu6(self, x: Node) -> Node:
        return self.op("clamp", x, 0.0, 6.0, result=x.shape, power=UNARY_POWER["clamp"](x.power))

    def sigmoid(self, x: Node) -> Node:
        return self.unary("sigmoid", x)

    def silu(self, x: Node) -> Node:
        """x * sigmoid(x), in two operations as exporters write it."""
        gate = self.sigmoid(x)
        return self.op("mul", x, gate, result=x.shape, power=UNARY_POWER["silu"](x.power))

    def softmax(self, x: Node, axis: int = 1) -> Node:
        return self.unary("softmax", x, axes=[axis])

    def add(self, x: Node, y: Node) -> Node:
        shape = tuple(map(max, x.shape, y.shape))
        return self.op("add", x, y, result=shape, power=x.power + y.power)

    def mul(self, x: Node, y: Node | float) -> Node:
        power = x.power * (y.power if isinstance(y, Node) else y * y)
        shape = tuple(map(max, x.shape, y.shape)) if isinstance(y, Node) else x.shape
        return self.op("mul", x, y, result=shape, power=power)

    # -- convolutions and windows

    def conv(
        self,
        x: Node,
        label: str,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
        *,
        groups: int = 1,
        bias: bool = True,
    ) -> Node:
        sizes, pads = _pair(kernel), _pair(padding)
        inputs = x.channels // groups
        deviation = 1 / math.sqrt(inputs * math.prod(sizes) * x.power)
        w = self.weight(f"{label}/filter", (channels, inputs, *sizes), deviation)
        b = [self.weight(f"{label}/bias", (1, channels), 0.1)] if bias else []
        extents = ((e + 2 * p - k) // stride + 1 for e, p, k in zip(x.shape[2:], pads, sizes))
        return self.op(
            "conv",
            x,
            w,
            *b,
            result=(x.batch, channels, *extents),
            power=1.0,
            stride=[stride, stride],
            dilation=[1, 1],
            padding=[(p, p) for p in pads],
            border="constant",
            groups=groups,
        )

    def deconv(self, x: Node, label: str, channels: int, kernel: int, stride: int) -> Node:
        deviation = 1 / math.sqrt(x.channels * x.power * (kernel / stride) ** 2)
        w = self.weight(f"{label}/filter", (x.channels, channels, kernel, kernel), deviation)
        b = self.weight(f"{label}/bias", (1, channels), 0.1)
        return self.op(
            "deconv",
            x,
            w,
            b,
            result=(x.batch, channels, *((e - 1) * stride + kernel for e in x.shape[2:])),
            power=1.0,
            stride=[stride, stride],
            dilation=[1, 1],
            padding=[(0, 0), (0, 0)],
            border="constant",
            groups=1,
        )

    def batch_norm(self, x: Node, label: str, epsilon: float = 1e-5, scale: float = 1.0) -> Node:
        """Batch normalisation; `scale`: the mean of its factors."""
        shape = (1, x.channels)
        root = math.sqrt(x.power)
        mean = self.weight(f"{label}/mean", shape, 0.1 * root)
        variance = self.weight(f"{label}/variance", shape, 0.1 * x.power, x.power)
        offset = self.weight(f"{label}/offset", shape, OFFSET)
        factor = self.weight(f"{label}/scale", shape, 0.1 * scale, scale)
        return self.op(
            "batch_normalization",
            *(x, mean, variance, offset, factor),
            result=x.shape,
            power=scale**2 + OFFSET**2,
            epsilon=epsilon,
        )

    def max_pool(
        self, x: Node, kernel: int, stride: int, padding: int = 0, *, ceil: bool = False
    ) -> Node:
        """Max pooling; `ceil`: with a last, partial window."""
        spare = [(e + 2 * padding - kernel) % stride if ceil else 0 for e in x.shape[2:]]
        after = [padding + (stride - s if s else 0) for s in spare]
        pads = [(0, 0), (0, 0), *((padding, a) for a in after)]
        return self._pool("max_pool", x, kernel, stride, pads, "ignore", 2 * x.power)

    def avg_pool(self, x: Node, kernel: int, stride: int, padding: int = 0) -> Node:
        """Average pooling whose border counts as zeros."""
        pads = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
        return self._pool("avg_pool", x, kernel, stride, pads, "constant", 0.5 * x.power)

    def _pool(
        self,
        name: str,
        x: Node,
        kernel: int,
        stride: int,
        padding: list[tuple[int, int]],
        border: str,
        power: float,
    ) -> Node:
        extents = ((e + p + q - kernel) // stride + 1 for e, (p, q) in zip(x.shape, padding))
        *_, rows, columns = extents
        return self.op(
            name,
            x,
            result=(*x.shape[:2], rows, columns),
            power=power,
            size=[1, 1, kernel, kernel],
            stride=[1, 1, stride, stride],
            dilation=[1, 1, 1, 1],
            padding=padding,
            border=border,
        )

    def global_average(self, x: Node) -> Node:
        shape = (*x.shape[:2], 1, 1)
        return self.op("mean_reduce", x, result=shape, power=0.4 * x.power, axes=[2, 3])

    def upsample(self, x: Node, factor: int) -> Node:
        shape = (*x.shape[:2], *(e * factor for e in x.shape[2:]))
        factors = [factor, factor]
        return self.op("nearest_upsample", x, result=shape, power=x.power, factor=factors)

    def local_response_norm(self, x: Node, size: int, alpha: float, beta: float) -> Node:
        """Krizhevsky's normalisation over channels; `alpha` applies to the mean of squares."""
        return self.op(
            "local_response_normalization",
            x,
            result=x.shape,
            power=x.power,
            size=[1, size, 1, 1],
            alpha=alpha,
            beta=beta,
            bias=1.0,
        )

    def conv_relu(self, x: Node, label: str, channels: int, kernel: int, **options: Any) -> Node:
        return self.relu(self.conv(x, label, channels, kernel, **options))

    def conv_norm(
        self,
        x: Node,
        label: str,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        epsilon: float = 1e-5,
        scale: float = 1.0,
        **options: Any,
    ) -> Node:
        y = self.conv(x, label, channels, kernel, bias=False, **options)
        return self.batch_norm(y, label, epsilon, scale)

    # -- products

    def linear(self, x: Node, label: str, features: int) -> Node:
        """A linear layer over all dimensions but the batch."""
        inputs = math.prod(x.shape[1:])
        flat = x if x.shape[1:] == (inputs,) else self.reshape(x, x.batch, inputs)
        w = self.weight(f"{label}/filter", (features, inputs), 1 / math.sqrt(inputs * x.power))
        b = self.weight(f"{label}/bias", (1, features), 0.1)
        return self.op("linear", flat, w, b, result=(x.batch, features), power=1.0)

    def dense(self, x: Node, label: str, features: int) -> Node:
        """A linear layer over the last of three dimensions: a matrix product and a sum."""
        inputs = x.shape[-1]
        deviation = 1 / math.sqrt(inputs * x.power)
        w = self.weight(f"{label}/filter", (1, inputs, features), deviation)
        b = self.weight(f"{label}/bias", (1, 1, features), 0.1)
        return self.add(self.matmul(x, w, power=1.0), b)

    def matmul(self, x: Node, y: Node, *, power: float, transposed: bool = False) -> Node:
        """A matrix product; `transposed`: of the second operand transposed."""
        shape = (*x.shape[:-1], y.shape[-2 if transposed else -1])
        flags = {"transposeA": False, "transposeB": transposed}
        return self.op("matmul", x, y, result=shape, power=power, **flags)

    # -- data movement

    def reshape(self, x: Node, *shape: int) -> Node:
        return self.op("reshape", x, result=shape, power=x.power, shape=list(shape))

    def transpose(self, x: Node, *axes: int) -> Node:
        shape = tuple(x.shape[a] for a in axes)
        return self.op("transpose", x, result=shape, power=x.power, axes=list(axes))

    def concat(self, *parts: Node, axis: int = 1) -> Node:
        total = sum(p.shape[axis] for p in parts)
        shape = (*parts[0].shape[:axis], total, *parts[0].shape[axis + 1 :])
        power = sum(p.power * p.shape[axis] for p in parts) / total
        values = [p.value for p in parts]
        return Node(self.make("concat", [values], {"axis": axis}, 0), shape, power)

    def split(self, x: Node, parts: int, axis: int = 1) -> list[Node]:
        shape = (*x.shape[:axis], x.shape[axis] // parts, *x.shape[axis + 1 :])
        attributes = {"axis": axis, "ratios": [1] * parts}
        values: Sequence[Any] = self.make("split", [x.value], attributes, parts)
        return [Node(value, shape, x.power) for value in values]


Network = Callable[[Builder], dict[str, Node]]
"""Builds the inputs and returns the outputs by name."""


def _pair(x: int | tuple[int, int]) -> tuple[int, int]:
    return x if isinstance(x, tuple) else (x, x)
