"""Small graphs of the layers that most networks consist of, for compiling their kernels ahead.

Kernels are generic in shape: which ones a network needs depends on its operations, on sizes of
windows, on whether channels fill blocks, and little else.  Shapes are as in real networks, because
the choice between algorithms depends on them; nothing is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from nnefc.driver.small_graph_builder import Sketch
from nnefc.ir import Graph, Value

Activation = Callable[[Sketch, Value], Value]


def graphs() -> Iterator[Graph]:
    """All typical graphs."""
    return (make() for make in MAKERS)


def usual_graphs() -> Iterator[Graph]:
    """The graphs whose kernels are compiled with the first network of a machine.

    They are few, because the user waits for that network.  The next network of each kind then
    finds four fifths of its kernels compiled.
    """
    return (make() for make in _USUAL)


def _silu(s: Sketch, x: Value) -> Value:
    return s.op("mul", x, s.op("sigmoid", x))


def _hard_swish(s: Sketch, x: Value) -> Value:
    gate = s.op("clamp", s.op("add", x, 3.0), 0.0, 6.0)
    return s.op("mul", x, s.op("div", gate, 6.0))


def _gelu_tanh(s: Sketch, x: Value) -> Value:
    inner = s.op("add", x, s.op("mul", s.op("pow", x, 3.0), 0.044715))
    gate = s.op("add", s.op("tanh", s.op("mul", inner, math.sqrt(2 / math.pi))), 1.0)
    return s.op("mul", s.op("mul", x, 0.5), gate)


ACTIVATIONS: Final[dict[str, Activation]] = {
    "none": lambda s, x: x,
    "relu": lambda s, x: s.op("relu", x),
    "relu6": lambda s, x: s.op("clamp", x, 0.0, 6.0),
    "leaky_relu": lambda s, x: s.op("leaky_relu", x, alpha=0.1),
    "sigmoid": lambda s, x: s.op("sigmoid", x),
    "tanh": lambda s, x: s.op("tanh", x),
    "silu": _silu,
    "hard_swish": _hard_swish,
    "gelu": lambda s, x: s.op("gelu", x),
    "gelu_tanh": _gelu_tanh,
}
"""Activation functions that follow convolutions and products."""
_USUAL_ACTIVATIONS: Final = ("relu", "silu")


def _convolutions(name: str, activate: Activation) -> Graph:
    """A first layer, then residual, depthwise and gated blocks."""
    s = Sketch(f"convolutions_{name}")
    x = activate(s, s.conv(s.input(1, 3, 224, 224), 32, 3, 3, stride=2))
    for channels in (64, 128):
        x = activate(s, s.conv(x, channels, 3, 3, stride=2))
        y = activate(s, s.conv(x, channels // 2, 1, 1))
        y = activate(s, s.conv(y, channels, 3, 3))
        x = activate(s, s.op("add", y, x))
        x = s.op("add", x, activate(s, s.conv(x, channels, 3, 3)))
    for window in (3, 5):
        for stride in (1, 2):
            channels = x.type.dims[1]
            x = activate(s, s.conv(x, channels, window, window, stride=stride, groups=channels))
            squeezed = s.op("mean_reduce", x, axes=(2, 3))
            gate = s.op("relu", s.conv(squeezed, 8, 1, 1))
            x = s.op("mul", x, s.op("sigmoid", s.conv(gate, channels, 1, 1)))
            x = s.conv(x, 24 if window == 5 else 80, 1, 1)
    s.linear(s.op("squeeze", s.op("mean_reduce", x, axes=(2, 3)), axes=(2, 3)), 1000)
    return s.finish()


def _dense(name: str, activate: Activation) -> Graph:
    s = Sketch(f"dense_{name}")
    for rows in (1, 8):
        activate(s, s.linear(s.input(rows, 64), 64))
        activate(s, s.linear(s.input(rows, 256), 512))
        activate(s, s.linear(s.input(rows, 1024), 1024))
        s.linear(s.input(rows, 64), 64)
        s.linear(s.input(rows, 512), 10)
        s.linear(s.input(rows, 1024), 1000)
    x = s.input(1, 128, 256)
    s.op("add", x, s.dense(activate(s, s.dense(x, 1024)), 256))
    return s.finish()


def _factored(window: tuple[int, int]) -> Graph:
    s = Sketch(f"window_{window[0]}x{window[1]}")
    for channels, extent in ((384, 8), (192, 17), (64, 35), (24, 35)):
        x = s.op("relu", s.conv(s.input(1, channels, extent, extent), channels, *window))
        s.op("relu", s.conv(x, 48, *window))
    return s.finish()


def _branches() -> Graph:
    """Convolutions with square and with separated windows, on pooled images."""
    s = Sketch("branches")
    for channels, extent, size, whole in ((192, 17, 7, 5), (384, 8, 3, 3)):
        x = s.input(1, channels, 2 * extent, 2 * extent)
        x = s.pool(x, "max_pool", 3, stride=2, before=1, after=0)
        branches = [s.conv(x, channels, *window) for window in ((1, size), (size, 1))]
        branches.append(s.conv(s.conv(x, 24, 1, 1), channels, whole, whole))
        branches.append(s.conv(x, 16, 1, 1))
        x = s.op("concat", *(s.op("relu", y) for y in branches), axis=1)
        x = s.shuffle(x, 2)
        x = s.op("squeeze", s.op("mean_reduce", x, axes=(2, 3)), axes=(2, 3))
        s.op("softmax", s.linear(x, 1000), axes=(1,))
    return s.finish()


def _pooling() -> Graph:
    s = Sketch("pooling")
    x = s.op("relu", s.conv(s.input(1, 16, 56, 56), 64, 3, 3))
    branches: list[Value] = []
    for operation in ("max_pool", "avg_pool"):
        for size, stride, before, after in (
            (2, 2, 0, 0),
            (3, 2, 0, 0),
            (3, 2, 0, 1),
            (3, 2, 1, 1),
            (3, 1, 1, 1),
            (5, 1, 2, 2),
        ):
            y = s.pool(x, operation, size, stride=stride, before=before, after=after)
            branches.append(s.conv(y, 16, 1, 1))
    same = [y for y in branches if y.type.dims[2] == 56]
    joined = s.op("concat", *same, axis=1)
    weights = (s.weight(1, joined.type.dims[1]) for _ in range(4))
    y = s.op("relu", s.op("batch_normalization", joined, *weights, epsilon=1e-5))
    s.conv(y, 32, 1, 1)
    s.op("max_reduce", joined, axes=(2, 3))
    return s.finish()


def _classifier() -> Graph:
    """The end of a fully convolutional network, with local response normalisation."""
    s = Sketch("classifier")
    x = s.op("relu", s.conv(s.input(1, 3, 224, 224), 64, 7, 7, stride=2))
    x = s.op("local_response_normalization", x, size=(1, 5, 1, 1), alpha=1e-4, beta=0.75, bias=1.0)
    x = s.op("mean_reduce", s.op("relu", s.conv(x, 1000, 1, 1)), axes=(2, 3))
    s.op("softmax", s.op("reshape", x, shape=(1, 1000)), axes=(1,))
    s.op("softmax", x, axes=(1,))
    return s.finish()


def _decoder() -> Graph:
    """Upsampling, concatenated with earlier feature maps."""
    s = Sketch("decoder")
    x = s.op("relu", s.conv(s.input(1, 3, 56, 56), 16, 3, 3))
    x = s.op("relu", s.conv(x, 64, 3, 3))
    y = s.op("relu", s.conv(x, 64, 3, 3, stride=2))
    ups = [
        s.op("nearest_upsample", y, factor=(2, 2)),
        s.op("multilinear_upsample", y, factor=(2, 2), method="symmetric", border="replicate"),
        s.conv(y, 64, 2, 2, stride=2, operation="deconv"),
    ]
    for up in ups:
        s.op("sigmoid", s.conv(s.op("concat", x, up, axis=1), 1, 1, 1))
    return s.finish()


def _elementwise() -> Graph:
    s = Sketch("elementwise")
    x, y, channel = s.input(1, 24, 14, 14), s.input(1, 24, 14, 14), s.input(1, 24, 1, 1)
    for name in ("add", "sub", "mul", "div", "max", "min"):
        s.op(name, x, y)
        s.op(name, x, channel)
    for name in ("neg", "abs", "exp", "log", "sqr", "sqrt", "rsqrt", "rcp", "softplus", "elu"):
        s.op(name, x)
    for activate in ACTIVATIONS.values():
        activate(s, x)
        activate(s, s.op("add", x, y))
    weights = (s.weight(1, 24) for _ in range(4))
    s.op("relu", s.op("batch_normalization", x, *weights, epsilon=1e-5))
    return s.finish()


def _rows() -> Graph:
    """Reductions and data movement."""
    s = Sketch("rows")
    x = s.input(4, 64, 48)
    for name in ("sum_reduce", "max_reduce", "min_reduce", "mean_reduce"):
        s.op(name, x, axes=(2,))
        s.op(name, x, axes=(1,))
    s.op("argmax_reduce", x, axes=(2,))
    s.op("softmax", x, axes=(2,))
    s.op("softmax", x, axes=(1,))
    s.op("transpose", x, axes=(0, 2, 1))
    s.op("transpose", s.op("reshape", x, shape=(4, 8, 8, 48)), axes=(0, 2, 1, 3))
    s.op("slice", x, axes=(2,), begin=(8,), end=(40,))
    s.op("concat", x, x, axis=2)
    s.op("matmul", x, s.op("transpose", x, axes=(0, 2, 1)))
    s.op("pad", x, padding=((0, 0), (1, 1), (0, 0)))
    return s.finish()


def _transformer(tokens: int, width: int, heads: int, epsilon: float, activation: str) -> Graph:
    """Two transformer blocks: one normalises after, one before."""
    s = Sketch(f"transformer_{width}")
    x = s.op("transpose", s.input(1, width, tokens), axes=(0, 2, 1))
    x = s.op("add", x, s.weight(1, tokens, width))
    x = _normalise(s, s.op("add", x, _attention(s, x, heads)), epsilon)
    x = s.op("add", x, _attention(s, _normalise(s, x, epsilon), heads))
    y = ACTIVATIONS[activation](s, s.dense(_normalise(s, x, epsilon), 4 * width))
    x = s.op("add", x, s.dense(y, width))
    _normalise(s, x, epsilon)
    first = s.op("slice", x, axes=(1,), begin=(0,), end=(1,))
    s.linear(s.op("reshape", first, shape=(1, width)), 1000)
    return s.finish()


def _normalise(s: Sketch, x: Value, epsilon: float) -> Value:
    """Layer normalisation over the last dimension."""
    width = x.type.dims[2]
    centred = s.op("sub", x, s.op("mean_reduce", x, axes=(2,)))
    variance = s.op("mean_reduce", s.op("pow", centred, 2.0), axes=(2,))
    y = s.op("div", centred, s.op("sqrt", s.op("add", variance, epsilon)))
    return s.op("add", s.op("mul", y, s.weight(1, 1, width)), s.weight(1, 1, width))


def _attention(s: Sketch, x: Value, heads: int) -> Value:
    _, tokens, width = x.type.dims

    def project() -> Value:
        y = s.op("reshape", s.dense(x, width), shape=(1, tokens, heads, width // heads))
        return s.op("transpose", y, axes=(0, 2, 1, 3))

    query, key, value = project(), project(), project()
    scores = s.op("matmul", query, key, transposeB=True)
    scores = s.op("mul", scores, (width / heads) ** -0.5)
    y = s.op("matmul", s.op("softmax", scores, axes=(3,)), value)
    y = s.op("reshape", s.op("transpose", y, axes=(0, 2, 1, 3)), shape=(1, tokens, width))
    return s.dense(y, width)


def _lstm() -> Graph:
    """One step of an LSTM with inputs, hidden state and cell state."""
    s = Sketch("lstm")
    x, hidden, cell = s.input(1, 64), s.input(1, 128), s.input(1, 128)
    gates = s.linear(s.op("concat", x, hidden, axis=1), 512)
    i, f, o, g = (
        s.op("slice", gates, axes=(1,), begin=(at,), end=(at + 128,)) for at in range(0, 512, 128)
    )
    carried = s.op("mul", s.op("sigmoid", f), cell)
    new = s.op("add", carried, s.op("mul", s.op("sigmoid", i), s.op("tanh", g)))
    s.op("mul", s.op("sigmoid", o), s.op("tanh", new))
    s.graph.add_output(new, "cell")
    return s.finish()


_USUAL: Final[tuple[Callable[[], Graph], ...]] = (
    *(partial(_convolutions, name, ACTIVATIONS[name]) for name in _USUAL_ACTIVATIONS),
    *(_branches, _decoder, _lstm),
    partial(_transformer, 128, 768, 12, 1e-12, "gelu_tanh"),
    partial(_transformer, 197, 384, 6, 1e-6, "gelu"),
)
_OTHERS: Final = tuple(name for name in ACTIVATIONS if name not in _USUAL_ACTIVATIONS)
MAKERS: Final[tuple[Callable[[], Graph], ...]] = (
    *_USUAL,
    *(partial(_convolutions, name, ACTIVATIONS[name]) for name in _OTHERS),
    *(partial(_dense, name, activation) for name, activation in ACTIVATIONS.items()),
    *(partial(_factored, window) for window in ((1, 3), (3, 1), (1, 7), (7, 1), (5, 5))),
    *(_pooling, _classifier, _elementwise, _rows),
)
"""A function for each typical graph."""
