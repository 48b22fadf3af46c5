"""Random convolutional networks, mostly on blocked tensors."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from nnefc.ir import DType, Graph, TensorType, Value, Variable
from nnefc.ops.tools.build import build
from tests.helpers.graphs.random_graphs import sample_data

CHANNELS = (1, 2, 3, 4, 6, 8, 8)


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """`random_network` with hypothesis choosing the seed and the number of layers."""
    size = draw(st.integers(1, 12))
    return random_network(draw(st.integers(0, 2**32 - 1)), size)


def random_network(seed: int, size: int) -> Graph:
    """A network of about `size` layers on small images, with branches that join again."""
    return _Generator(random.Random(seed)).make(size)


class _Generator:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.graph = Graph("g")
        shape = (rng.choice((1, 1, 2)), rng.choice(CHANNELS), rng.randint(4, 9), rng.randint(4, 9))
        self.values = [self.graph.add_input(TensorType(DType.FLOAT32, shape), "x")]

    def make(self, size: int) -> Graph:
        rng = self.rng
        kinds = ["convolution", "convolution", "depthwise", "deconvolution", "activation"]
        kinds += ["normalization", "pooling", "addition", "attention", "concat", "split", "slice"]
        kinds += ["upsampling", "shuffle", "shuffled_halves", "plain"]
        # few kinds at a time meet each other more often than all would
        kinds = ["convolution", "activation", *rng.sample(kinds, rng.randint(2, 8))]
        for _ in range(size):
            self.values += getattr(self, rng.choice(kinds))(self.pick())
        ends = [v for v in self.values if not v.users]
        for i, value in enumerate((*ends, *rng.choice(((), (self.pick(),))))):
            self.graph.add_output(value, f"y{i}")
        return self.graph

    def pick(self, *fitting: Value) -> Value:
        """A random value among `fitting`, or among all values; mostly a recent one."""
        values = fitting or tuple(self.values)
        return values[-1] if self.rng.random() < 0.5 else self.rng.choice(values)

    def op(self, name: str, *operands: Value, **attributes: Any) -> list[Value]:
        return list(build(self.graph, name, operands, attributes).outputs)

    def weights(self, *shape: int) -> Value:
        label = f"w{len(self.graph.variables)}"
        type_ = TensorType(DType.FLOAT32, shape)
        self.graph.variables[label] = Variable(label, type_, sample_data(label, type_))
        return self.op("variable", shape=shape, label=label)[0]

    def per_channel(self, x: Value) -> Value:
        return self.weights(1, x.type.dims[1])

    # -- layers

    def convolution(self, x: Value, *, groups: int = 1, outputs: int = 0) -> list[Value]:
        rng, inputs = self.rng, x.type.dims[1]
        if not outputs:
            groups = rng.choice([g for g in (1, 1, 2) if inputs % g == 0])
            outputs = rng.choice([n for n in CHANNELS if n % groups == 0])
        window = {
            "stride": (rng.choice((1, 1, 2)), rng.choice((1, 1, 2))),
            "dilation": (rng.choice((1, 1, 2)),) * 2,
            "border": rng.choice((*["constant"] * 5, "replicate")),
        }
        extents = (rng.choice((1, 3)), rng.choice((1, 3)))
        operands = [x, self.weights(outputs, inputs // groups, *extents)]
        if rng.random() < 0.6:
            operands.append(self.weights(1, outputs))
        return self.op("conv", *operands, groups=groups, **window)

    def depthwise(self, x: Value) -> list[Value]:
        channels = x.type.dims[1]
        return self.convolution(x, groups=channels, outputs=channels * self.rng.choice((1, 1, 2)))

    def deconvolution(self, x: Value) -> list[Value]:
        outputs, extent = self.rng.choice(CHANNELS), self.rng.choice((2, 3))
        filter_ = self.weights(x.type.dims[1], outputs, extent, extent)
        return self.op("deconv", x, filter_, stride=(self.rng.choice((1, 2)),) * 2)

    def activation(self, x: Value) -> list[Value]:
        return self.op(self.rng.choice(("relu", "sigmoid", "silu", "tanh", "abs")), x)

    def normalization(self, x: Value) -> list[Value]:
        mean, offset, scale = (self.per_channel(x) for _ in range(3))
        (variance,) = self.op("sqr", self.per_channel(x))
        return self.op("batch_normalization", x, mean, variance, offset, scale, epsilon=0.5)

    def pooling(self, x: Value) -> list[Value]:
        name = self.rng.choice(("max_pool", "avg_pool", "box"))
        size, stride = self.rng.choice(((2, 2), (3, 2), (3, 1)))
        border = self.rng.choice(("constant", "ignore"))
        window = {"size": (1, 1, size, size), "stride": (1, 1, stride, stride)}
        return self.op(name, x, border=border, **window)

    def addition(self, x: Value) -> list[Value]:
        """Add an earlier value of the same shape, or weights that broadcast to it."""
        if self.rng.random() < 0.5:
            other = self.pick(*(v for v in self.values if v.type.dims == x.type.dims))
        else:
            other = self.weights(*(self.rng.choice((n, 1)) for n in x.type.dims))
        return self.op(self.rng.choice(("add", "sub", "mul")), x, other)

    def attention(self, x: Value) -> list[Value]:
        """Scale channels by gates computed from their means or maxima."""
        name = self.rng.choice(("mean_reduce", "max_reduce"))
        (gate,) = self.op("sigmoid", *self.op(name, x, axes=(2, 3)))
        return self.op("mul", x, gate)

    def concat(self, x: Value) -> list[Value]:
        fitting = [v for v in self.values if v.type.dims[2:] == x.type.dims[2:]]
        others = [self.pick(*fitting) for _ in range(self.rng.randint(1, 2))]
        return self.op("concat", x, *others, axis=1)

    def split(self, x: Value) -> list[Value]:
        channels = x.type.dims[1]
        parts = self.rng.choice([n for n in (1, 2, 3) if channels % n == 0])
        return self.op("split", x, axis=1, ratios=(1,) * parts)

    def slice(self, x: Value) -> list[Value]:
        channels = x.type.dims[1]
        begin = self.rng.randrange(channels)
        end = self.rng.randint(begin + 1, channels)
        return self.op("slice", x, axes=(1,), begin=(begin,), end=(end,), stride=(1,))

    def upsampling(self, x: Value) -> list[Value]:
        if max(x.type.dims[2:]) > 12:
            return self.pooling(x)
        if self.rng.random() < 0.5:
            return self.op("nearest_upsample", x, factor=(2, 2))
        method = self.rng.choice(("symmetric", "asymmetric", "aligned"))
        return self.op("multilinear_upsample", x, factor=(2, 2), method=method, border="replicate")

    def shuffle(self, x: Value) -> list[Value]:
        batch, channels, *extents = x.type.dims
        groups = self.rng.choice([g for g in (1, 2, 3, 4) if channels % g == 0])
        (apart,) = self.op("reshape", x, shape=(batch, groups, channels // groups, *extents))
        (turned,) = self.op("transpose", apart, axes=(0, 2, 1, 3, 4))
        return self.op("reshape", turned, shape=x.type.dims)

    def shuffled_halves(self, x: Value) -> list[Value]:
        (joined,) = self.op("concat", x, *self.activation(x), axis=1)
        (shuffled,) = self.shuffle(joined)
        return self.op("split", shuffled, axis=1, ratios=(1, 1))

    def plain(self, x: Value) -> list[Value]:
        """An operation without a kernel for blocked tensors."""
        if self.rng.random() < 0.5:
            return self.op("softmax", x, axes=(1,))
        return self.op("transpose", x, axes=(0, 1, 3, 2))
