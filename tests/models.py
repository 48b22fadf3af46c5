"""Well-known networks, each written once and built twice: as NNEF text and in PyTorch.

A network is a function over a `Builder`.  `NnefBuilder` writes flat NNEF, `TorchBuilder`
computes with PyTorch's functions; both take their weights from `weights`, by label, so the
results can be compared.  Sizes are parameters; the defaults are those of the papers.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch is typed in part)

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def weights(label: str, shape: Shape) -> Array:
    """Float32 weights told by their label, of the size that trained networks have.

    Filters are He-scaled, variances near 1 and scales below 1, so that neither residual sums
    grow nor a softmax gives one class all: what is compared would say nothing then.
    """
    rng = np.random.default_rng(zlib.crc32(label.encode()))
    items = rng.standard_normal(shape, np.float32)
    kind = label.rpartition("/")[2]
    if kind in ("variance", "scale"):
        middle = 1.0 if kind == "variance" else 0.5
        return (middle + 0.1 * np.clip(items, -3, 3)).astype(np.float32)
    if kind in ("bias", "offset", "mean"):
        return items * np.float32(0.1)
    return items * np.float32(math.sqrt(2 / max(1, math.prod(shape[1:]))))


@dataclass(frozen=True)
class Node:
    """A tensor of a network under construction: what the builder calls it, and its shape."""

    value: Any
    shape: Shape

    @property
    def channels(self) -> int:
        return self.shape[1]


class Builder(ABC):
    """The layers that the networks are made of; batch first, then channels."""

    def __init__(self) -> None:
        self.shapes: dict[str, Shape] = {}
        """Shapes of the variables by label."""

    def weight(self, label: str, shape: Shape) -> Any:
        assert label not in self.shapes, label
        self.shapes[label] = shape
        return self.variable(label, shape)

    def conv(
        self,
        x: Node,
        label: str,
        channels: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        *,
        groups: int = 1,
        bias: bool = True,
    ) -> Node:
        w = self.weight(f"{label}/filter", (channels, x.channels // groups, kernel, kernel))
        b = self.weight(f"{label}/bias", (1, channels)) if bias else None
        extents = ((e + 2 * padding - kernel) // stride + 1 for e in x.shape[2:])
        shape = (x.shape[0], channels, *extents)
        return Node(self.make_conv(x.value, w, b, stride, padding, groups), shape)

    def deconv(self, x: Node, label: str, channels: int, kernel: int, stride: int) -> Node:
        w = self.weight(f"{label}/filter", (x.channels, channels, kernel, kernel))
        b = self.weight(f"{label}/bias", (1, channels))
        shape = (x.shape[0], channels, *((e - 1) * stride + kernel for e in x.shape[2:]))
        return Node(self.make_deconv(x.value, w, b, stride), shape)

    def batch_norm(self, x: Node, label: str) -> Node:
        kinds = ("mean", "variance", "offset", "scale")
        parameters = [self.weight(f"{label}/{kind}", (1, x.channels)) for kind in kinds]
        return Node(self.make_batch_norm(x.value, parameters), x.shape)

    def max_pool(
        self, x: Node, kernel: int, stride: int, padding: int = 0, *, ceil: bool = False
    ) -> Node:
        """`ceil`: a last, partial window counts."""
        spare = [(e + 2 * padding - kernel) % stride if ceil else 0 for e in x.shape[2:]]
        after = [padding + (stride - s if s else 0) for s in spare]
        extents = ((e + padding + a - kernel) // stride + 1 for e, a in zip(x.shape[2:], after))
        value = self.make_max_pool(x.value, kernel, stride, padding, after)
        return Node(value, (*x.shape[:2], *extents))

    def linear(self, x: Node, label: str, features: int) -> Node:
        inputs = math.prod(x.shape[1:])
        w = self.weight(f"{label}/filter", (features, inputs))
        b = self.weight(f"{label}/bias", (1, features))
        return Node(self.make_linear(x.value, (x.shape[0], inputs), w, b), (x.shape[0], features))

    def conv_relu(self, x: Node, label: str, channels: int, kernel: int, **options: Any) -> Node:
        return self.relu(self.conv(x, label, channels, kernel, **options))

    def conv_norm(self, x: Node, label: str, channels: int, kernel: int, **options: Any) -> Node:
        return self.batch_norm(self.conv(x, label, channels, kernel, bias=False, **options), label)

    def relu(self, x: Node) -> Node:
        return Node(self.make_unary("relu", x.value), x.shape)

    def sigmoid(self, x: Node) -> Node:
        return Node(self.make_unary("sigmoid", x.value), x.shape)

    def softmax(self, x: Node) -> Node:
        return Node(self.make_unary("softmax", x.value), x.shape)

    def add(self, x: Node, y: Node) -> Node:
        assert x.shape == y.shape
        return Node(self.make_add(x.value, y.value), x.shape)

    def concat(self, *parts: Node) -> Node:
        shape = (parts[0].shape[0], sum(p.channels for p in parts), *parts[0].shape[2:])
        return Node(self.make_concat([p.value for p in parts]), shape)

    def global_average(self, x: Node) -> Node:
        return Node(self.make_global_average(x.value), (*x.shape[:2], 1, 1))

    def local_response_norm(self, x: Node, size: int, alpha: float, beta: float) -> Node:
        """Krizhevsky's, over channels; `alpha` is for the mean of the squares."""
        return Node(self.make_local_response_norm(x.value, size, alpha, beta), x.shape)

    @abstractmethod
    def input(self, shape: Shape) -> Node: ...
    @abstractmethod
    def variable(self, label: str, shape: Shape) -> Any: ...
    @abstractmethod
    def make_conv(self, x: Any, w: Any, b: Any, stride: int, padding: int, groups: int) -> Any: ...
    @abstractmethod
    def make_deconv(self, x: Any, w: Any, b: Any, stride: int) -> Any: ...
    @abstractmethod
    def make_batch_norm(self, x: Any, parameters: list[Any]) -> Any: ...
    @abstractmethod
    def make_max_pool(
        self, x: Any, kernel: int, stride: int, before: int, after: list[int]
    ) -> Any: ...
    @abstractmethod
    def make_linear(self, x: Any, shape: Shape, w: Any, b: Any) -> Any: ...
    @abstractmethod
    def make_unary(self, name: str, x: Any) -> Any: ...
    @abstractmethod
    def make_add(self, x: Any, y: Any) -> Any: ...
    @abstractmethod
    def make_concat(self, parts: list[Any]) -> Any: ...
    @abstractmethod
    def make_global_average(self, x: Any) -> Any: ...
    @abstractmethod
    def make_local_response_norm(self, x: Any, size: int, alpha: float, beta: float) -> Any: ...


Network = Callable[[Builder], Node]


class NnefBuilder(Builder):
    """Writes the assignments of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def assign(self, hint: str, right: str) -> str:
        name = f"{hint}{len(self.lines)}"
        self.lines.append(f"    {name} = {right};")
        return name

    def document(self, name: str, output: Node) -> str:
        self.lines.append(f"    output = copy({output.value});")
        body = "\n".join(self.lines)
        return f"version 1.0;\n\ngraph {name}( input ) -> ( output )\n{{\n{body}\n}}\n"

    def input(self, shape: Shape) -> Node:
        self.lines.append(f"    input = external(shape = {list(shape)});")
        return Node("input", shape)

    def variable(self, label: str, shape: Shape) -> str:
        hint = label.rpartition("/")[2]
        return self.assign(hint, f"variable(shape = {list(shape)}, label = '{label}')")

    def make_conv(self, x: str, w: str, b: str | None, stride: int, padding: int, groups: int):
        bias = f", {b}" if b else ""
        return self.assign(
            "conv",
            f"conv({x}, {w}{bias}, stride = [{stride}, {stride}], dilation = [1, 1],"
            f" padding = [({padding}, {padding}), ({padding}, {padding})],"
            f" border = 'constant', groups = {groups})",
        )

    def make_deconv(self, x: str, w: str, b: str, stride: int) -> str:
        return self.assign(
            "deconv",
            f"deconv({x}, {w}, {b}, stride = [{stride}, {stride}], dilation = [1, 1],"
            " padding = [(0, 0), (0, 0)], border = 'constant')",
        )

    def make_batch_norm(self, x: str, parameters: list[str]) -> str:
        listed = ", ".join(parameters)
        return self.assign("norm", f"batch_normalization({x}, {listed}, epsilon = 0.00001)")

    def make_max_pool(self, x: str, kernel: int, stride: int, before: int, after: list[int]) -> str:
        pads = ", ".join(f"({before}, {a})" for a in after)
        return self.assign(
            "pool",
            f"max_pool({x}, size = [1, 1, {kernel}, {kernel}], stride = [1, 1, {stride}, {stride}],"
            f" padding = [(0, 0), (0, 0), {pads}], border = 'ignore')",
        )

    def make_linear(self, x: str, shape: Shape, w: str, b: str) -> str:
        flat = self.assign("flat", f"reshape({x}, shape = {list(shape)})")
        return self.assign("linear", f"linear({flat}, {w}, {b})")

    def make_unary(self, name: str, x: str) -> str:
        return self.assign(name, f"{name}({x})")

    def make_add(self, x: str, y: str) -> str:
        return self.assign("sum", f"add({x}, {y})")

    def make_concat(self, parts: list[str]) -> str:
        return self.assign("joined", f"concat([{', '.join(parts)}], axis = 1)")

    def make_global_average(self, x: str) -> str:
        return self.assign("average", f"mean_reduce({x}, axes = [2, 3])")

    def make_local_response_norm(self, x: str, size: int, alpha: float, beta: float) -> str:
        return self.assign(
            "norm",
            f"local_response_normalization({x}, size = [1, {size}, 1, 1], alpha = {alpha},"
            f" beta = {beta}, bias = 1.0)",
        )


class TorchBuilder(Builder):
    """Computes with PyTorch in float64."""

    def __init__(self, data: Array) -> None:
        super().__init__()
        import torch

        self.torch = torch
        self.f = torch.nn.functional
        self.data = torch.from_numpy(data.astype(np.float64))

    def input(self, shape: Shape) -> Node:
        assert tuple(self.data.shape) == shape
        return Node(self.data, shape)

    def variable(self, label: str, shape: Shape) -> Any:
        return self.torch.from_numpy(weights(label, shape).astype(np.float64))

    def make_conv(self, x: Any, w: Any, b: Any, stride: int, padding: int, groups: int) -> Any:
        bias = None if b is None else b[0]
        return self.f.conv2d(x, w, bias, stride, padding, 1, groups)

    def make_deconv(self, x: Any, w: Any, b: Any, stride: int) -> Any:
        return self.f.conv_transpose2d(x, w, b[0], stride)

    def make_batch_norm(self, x: Any, parameters: list[Any]) -> Any:
        mean, variance, offset, scale = (p[0] for p in parameters)
        return self.f.batch_norm(x, mean, variance, scale, offset, False, 0.0, 1e-5)

    def make_max_pool(self, x: Any, kernel: int, stride: int, before: int, after: list[int]) -> Any:
        pads = (before, after[1], before, after[0])
        return self.f.max_pool2d(self.f.pad(x, pads, value=-math.inf), kernel, stride)

    def make_linear(self, x: Any, shape: Shape, w: Any, b: Any) -> Any:
        return self.f.linear(x.reshape(shape), w, b[0])

    def make_unary(self, name: str, x: Any) -> Any:
        return self.torch.softmax(x, 1) if name == "softmax" else getattr(self.torch, name)(x)

    def make_add(self, x: Any, y: Any) -> Any:
        return x + y

    def make_concat(self, parts: list[Any]) -> Any:
        return self.torch.cat(parts, 1)

    def make_global_average(self, x: Any) -> Any:
        return x.mean((2, 3), keepdim=True)

    def make_local_response_norm(self, x: Any, size: int, alpha: float, beta: float) -> Any:
        return self.f.local_response_norm(x, size, alpha, beta, 1.0)


# -- networks


def vgg16(b: Builder, size: int = 224, classes: int = 1000, hidden: int = 4096) -> Node:
    """Simonyan and Zisserman, arXiv:1409.1556, configuration D."""
    x = b.input((1, 3, size, size))
    for block, (layers, channels) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)]):
        for layer in range(layers):
            x = b.conv_relu(x, f"conv{block + 1}_{layer + 1}", channels, 3, padding=1)
        x = b.max_pool(x, 2, 2)
    x = b.relu(b.linear(x, "fc6", hidden))
    x = b.relu(b.linear(x, "fc7", hidden))
    return b.softmax(b.linear(x, "fc8", classes))


def resnet(b: Builder, depth: int, size: int = 224, classes: int = 1000) -> Node:
    """He et al., arXiv:1512.03385; `depth` 18 or 50 (the stride is on the 3x3 of a bottleneck)."""
    layers = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[depth]
    x = b.input((1, 3, size, size))
    x = b.relu(b.conv_norm(x, "conv1", 64, 7, stride=2, padding=3))
    x = b.max_pool(x, 3, 2, 1)
    for stage, count in enumerate(layers):
        for i in range(count):
            block = _bottleneck if depth == 50 else _basic
            stride = 2 if stage and not i else 1
            x = block(b, x, f"stage{stage + 1}/block{i + 1}", 64 << stage, stride)
    return b.softmax(b.linear(b.global_average(x), "fc", classes))


def _basic(b: Builder, x: Node, label: str, channels: int, stride: int) -> Node:
    y = b.relu(b.conv_norm(x, f"{label}/a", channels, 3, stride=stride, padding=1))
    y = b.conv_norm(y, f"{label}/b", channels, 3, padding=1)
    return b.relu(b.add(y, _shortcut(b, x, label, channels, stride)))


def _bottleneck(b: Builder, x: Node, label: str, channels: int, stride: int) -> Node:
    y = b.relu(b.conv_norm(x, f"{label}/a", channels, 1))
    y = b.relu(b.conv_norm(y, f"{label}/b", channels, 3, stride=stride, padding=1))
    y = b.conv_norm(y, f"{label}/c", 4 * channels, 1)
    return b.relu(b.add(y, _shortcut(b, x, label, 4 * channels, stride)))


def _shortcut(b: Builder, x: Node, label: str, channels: int, stride: int) -> Node:
    if x.channels == channels and stride == 1:
        return x
    return b.conv_norm(x, f"{label}/shortcut", channels, 1, stride=stride)


def googlenet(b: Builder, size: int = 224, classes: int = 1000) -> Node:
    """Szegedy et al., arXiv:1409.4842, without the auxiliary classifiers."""
    x = b.input((1, 3, size, size))
    x = b.max_pool(b.conv_relu(x, "conv1", 64, 7, stride=2, padding=3), 3, 2, ceil=True)
    x = b.local_response_norm(x, 5, 0.0001, 0.75)
    x = b.conv_relu(b.conv_relu(x, "conv2/reduce", 64, 1), "conv2", 192, 3, padding=1)
    x = b.max_pool(b.local_response_norm(x, 5, 0.0001, 0.75), 3, 2, ceil=True)
    table = {
        "3a": (64, 96, 128, 16, 32, 32),
        "3b": (128, 128, 192, 32, 96, 64),
        "4a": (192, 96, 208, 16, 48, 64),
        "4b": (160, 112, 224, 24, 64, 64),
        "4c": (128, 128, 256, 24, 64, 64),
        "4d": (112, 144, 288, 32, 64, 64),
        "4e": (256, 160, 320, 32, 128, 128),
        "5a": (256, 160, 320, 32, 128, 128),
        "5b": (384, 192, 384, 48, 128, 128),
    }
    for name, channels in table.items():
        if name in ("4a", "5a"):
            x = b.max_pool(x, 3, 2, ceil=True)
        x = _inception(b, x, f"inception{name}", *channels)
    return b.softmax(b.linear(b.global_average(x), "fc", classes))


def _inception(
    b: Builder, x: Node, label: str, one: int, reduce3: int, three: int, reduce5: int,
    five: int, pool: int,
) -> Node:  # fmt: skip
    y1 = b.conv_relu(x, f"{label}/1x1", one, 1)
    y3 = b.conv_relu(x, f"{label}/3x3_reduce", reduce3, 1)
    y3 = b.conv_relu(y3, f"{label}/3x3", three, 3, padding=1)
    y5 = b.conv_relu(x, f"{label}/5x5_reduce", reduce5, 1)
    y5 = b.conv_relu(y5, f"{label}/5x5", five, 5, padding=2)
    yp = b.conv_relu(b.max_pool(x, 3, 1, 1), f"{label}/pool", pool, 1)
    return b.concat(y1, y3, y5, yp)


def unet(b: Builder, size: int = 64, channels: int = 8, depth: int = 3) -> Node:
    """A small U-Net (Ronneberger et al., arXiv:1505.04597) with padded convolutions."""
    x = b.input((2, 3, size, size))
    skips: list[Node] = []
    for level in range(depth):
        x = _twice(b, x, f"down{level}", channels << level)
        skips.append(x)
        x = b.max_pool(x, 2, 2)
    x = _twice(b, x, "bottom", channels << depth)
    for level in reversed(range(depth)):
        x = b.deconv(x, f"up{level}/deconv", channels << level, 2, 2)
        x = _twice(b, b.concat(skips[level], x), f"up{level}", channels << level)
    return b.sigmoid(b.conv(x, "mask", 1, 1))


def _twice(b: Builder, x: Node, label: str, channels: int) -> Node:
    x = b.conv_relu(x, f"{label}/a", channels, 3, padding=1)
    return b.conv_relu(x, f"{label}/b", channels, 3, padding=1)


def mobilenet(b: Builder, size: int = 224, classes: int = 1000) -> Node:
    """Howard et al., arXiv:1704.04861: depthwise and pointwise convolutions in turn."""
    x = b.input((1, 3, size, size))
    x = b.relu(b.conv_norm(x, "conv1", 32, 3, stride=2, padding=1))
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5]
    for i, (channels, stride) in enumerate([*plan, (1024, 2), (1024, 1)]):
        x = b.conv_norm(
            x, f"depthwise{i}", x.channels, 3, stride=stride, padding=1, groups=x.channels
        )
        x = b.relu(b.conv_norm(b.relu(x), f"pointwise{i}", channels, 1))
    return b.softmax(b.linear(b.global_average(x), "fc", classes))


def nnef_text(network: Network, name: str) -> tuple[str, dict[str, Shape]]:
    """(document, shapes of its variables by label)"""
    builder = NnefBuilder()
    return builder.document(name, network(builder)), builder.shapes


def torch_output(network: Network, data: Array) -> Array:
    """What PyTorch computes in float64 for an input."""
    import torch

    with torch.no_grad():
        return network(TorchBuilder(data)).value.numpy()


# -- networks that stand in the examples

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def alexnet_torch(data: Array, variables: dict[str, Array]) -> Array:
    """AlexNet as in appendix B.1, in float64; `variables` by label."""
    import torch

    f = torch.nn.functional
    x = torch.from_numpy(data.astype(np.float64))
    layers = [("conv1", 4, 0), ("conv2", 1, 2), ("conv3", 1, 1), ("conv4", 1, 1), ("conv5", 1, 1)]
    layers += [("fc6", 1, 0), ("fc7", 1, 0), ("fc8", 1, 0)]
    with torch.no_grad():
        for label, stride, padding in layers:
            w, b = (
                torch.from_numpy(variables[f"alexnet_v2/{label}/{kind}"].astype(np.float64))
                for kind in ("kernel", "bias")
            )
            x = f.conv2d(x, w, b[0], stride, padding)
            if label != "fc8":
                x = torch.relu(x)
            if label in ("conv1", "conv2", "conv5"):
                x = f.max_pool2d(x, 3, 2)
        return torch.softmax(x, 1).numpy()


def lstm_torch(steps: Array, variables: dict[str, Array]) -> list[tuple[Array, Array]]:
    """(hidden, cell) state after each step of `examples/lstm`, from PyTorch's cell in float64."""
    import torch

    w = variables["lstm/weights"].astype(np.float64)
    bias = variables["lstm/bias"][0].astype(np.float64)
    hidden, inputs = bias.size // 4, steps.shape[-1]
    cell = torch.nn.LSTMCell(inputs, hidden).double()
    states: list[tuple[Array, Array]] = []
    with torch.no_grad():
        cell.weight_ih.copy_(torch.from_numpy(w[:, :inputs]))
        cell.weight_hh.copy_(torch.from_numpy(w[:, inputs:]))
        cell.bias_ih.copy_(torch.from_numpy(bias))
        cell.bias_hh.zero_()
        state = tuple(
            torch.from_numpy(variables[f"lstm/{kind}"].astype(np.float64))
            for kind in ("hidden", "cell")
        )
        for step in steps:
            state = cell(torch.from_numpy(step.astype(np.float64)), state)
            states.append((state[0].numpy(), state[1].numpy()))
    return states
