"""Transformers and an LSTM step."""

from __future__ import annotations

import math

from benchmarks.zoo.builder import UNARY_POWER, Builder, Node


def vit(
    b: Builder, size: int = 224, classes: int = 1000, patch: int = 16, width: int = 384,
    depth: int = 12, heads: int = 6,
) -> dict[str, Node]:  # fmt: skip
    """Dosovitskiy et al., arXiv:2010.11929; ViT-S/16 of arXiv:2012.12877."""
    x = b.conv(b.input(3, size, size), "patches", width, patch, stride=patch)
    count = x.shape[2] * x.shape[3]
    x = b.transpose(b.reshape(x, x.batch, width, count), 0, 2, 1)
    first = b.weight("class_token", (1, 1, width), 1.0)
    if x.batch > 1:
        repeats = [x.batch, 1, 1]
        first = b.op("tile", first, result=(x.batch, 1, width), power=1.0, repeats=repeats)
    x = b.concat(first, x, axis=1)
    x = b.add(x, b.weight("positions", (1, count + 1, width), 0.3))
    for i in range(depth):
        label = f"block{i + 1}"
        y = _joint_attention(b, layer_norm(b, x, f"{label}/norm1"), f"{label}/attention", heads)
        x = b.add(x, y)
        y = b.dense(layer_norm(b, x, f"{label}/norm2"), f"{label}/mlp/a", 4 * width)
        x = b.add(x, b.dense(b.unary("gelu", y), f"{label}/mlp/b", width))
    x = layer_norm(b, x, "norm")
    slices = {"axes": [1], "begin": [0], "end": [1]}
    x = b.op("slice", x, result=(x.batch, 1, width), power=x.power, **slices)
    return {"output": b.linear(b.reshape(x, x.batch, width), "head", classes)}


def bert(
    b: Builder, tokens: int = 128, width: int = 768, depth: int = 12, heads: int = 12
) -> dict[str, Node]:
    """Devlin et al., arXiv:1810.04805: the encoder of BERT-base over embedded tokens."""
    x = b.input(tokens, width)
    for i in range(depth):
        label = f"layer{i + 1}"
        y = _attention(b, x, f"{label}/attention", heads)
        x = layer_norm(b, b.add(x, y), f"{label}/norm1", 1e-12)
        y = b.dense(_gelu_tanh(b, b.dense(x, f"{label}/mlp/a", 4 * width)), f"{label}/mlp/b", width)
        x = layer_norm(b, b.add(x, y), f"{label}/norm2", 1e-12)
    return {"output": x}


def layer_norm(b: Builder, x: Node, label: str, epsilon: float = 1e-6) -> Node:
    """Layer normalisation of the last of three dimensions, in operations of exporters."""
    column = (*x.shape[:2], 1)
    mean = b.op("mean_reduce", x, result=column, power=x.power, axes=[2])
    d = b.op("sub", x, mean, result=x.shape, power=x.power)
    squares = b.op("pow", d, 2.0, result=x.shape, power=x.power)
    variance = b.op("mean_reduce", squares, result=column, power=x.power, axes=[2])
    shifted = b.op("add", variance, epsilon, result=column, power=x.power)
    root = b.op("sqrt", shifted, result=column, power=x.power)
    y = b.op("div", d, root, result=x.shape, power=1.0)
    scale = b.weight(f"{label}/scale", (1, 1, x.shape[2]), 0.1, 1.0)
    offset = b.weight(f"{label}/offset", (1, 1, x.shape[2]), 0.1)
    return b.add(b.mul(y, scale), offset)


def _gelu_tanh(b: Builder, x: Node) -> Node:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), in primitive operations."""
    shape, power = x.shape, x.power
    cube = b.op("pow", x, 3.0, result=shape, power=power)
    inner = b.add(x, b.mul(cube, 0.044715))
    inner = b.unary("tanh", b.mul(inner, math.sqrt(2 / math.pi)))
    gate = b.op("add", inner, 1.0, result=shape, power=1.0)
    half = b.mul(x, 0.5)
    return b.op("mul", half, gate, result=shape, power=UNARY_POWER["gelu"](power))


def _scores(b: Builder, query: Node, key: Node, value: Node, *, transposed: bool) -> Node:
    """Attention over [batch, heads, tokens, width]; `transposed`: transpose the key."""
    width = query.shape[-1]
    scores = b.mul(b.matmul(query, key, power=width, transposed=transposed), width**-0.5)
    return b.matmul(b.softmax(scores, axis=3), value, power=value.power)


def _join(b: Builder, x: Node) -> Node:
    """[batch, heads, tokens, width] -> [batch, tokens, heads * width]"""
    batch, heads, tokens, width = x.shape
    return b.reshape(b.transpose(x, 0, 2, 1, 3), batch, tokens, heads * width)


def _joint_attention(b: Builder, x: Node, label: str, heads: int) -> Node:
    """Self-attention with one product for query, key and value."""
    batch, tokens, width = x.shape
    y = b.reshape(b.dense(x, f"{label}/qkv", 3 * width), batch, tokens, 3, heads, width // heads)
    parts = b.split(b.transpose(y, 2, 0, 3, 1, 4), 3, axis=0)
    each = (batch, heads, tokens, width // heads)
    query, key, value = (
        b.op("squeeze", part, result=each, power=part.power, axes=[0]) for part in parts
    )
    y = _scores(b, query, key, value, transposed=True)
    return b.dense(_join(b, y), f"{label}/out", width)


def _attention(b: Builder, x: Node, label: str, heads: int) -> Node:
    """Self-attention with a product for each of query, key and value."""
    batch, tokens, width = x.shape

    def project(kind: str, *axes: int) -> Node:
        y = b.reshape(b.dense(x, f"{label}/{kind}", width), batch, tokens, heads, width // heads)
        return b.transpose(y, *axes)

    query, key, value = (
        project("query", 0, 2, 1, 3), project("key", 0, 2, 3, 1), project("value", 0, 2, 1, 3),
    )  # fmt: skip
    y = _scores(b, query, key, value, transposed=False)
    return b.dense(_join(b, y), f"{label}/out", width)


def lstm_step(b: Builder, inputs: int = 256, hidden: int = 512) -> dict[str, Node]:
    """One step of an LSTM; its states are inputs and outputs."""
    x = b.input(inputs)
    h = b.input(hidden, name="hidden")
    c = b.input(hidden, name="cell")
    gates = b.linear(b.concat(x, h), "gates", 4 * hidden)
    i, f, o, g = b.split(gates, 4)
    forgotten = b.mul(b.sigmoid(f), c)
    cell = b.add(forgotten, b.mul(b.sigmoid(i), b.unary("tanh", g)))
    return {"hidden_out": b.mul(b.sigmoid(o), b.unary("tanh", cell)), "cell_out": cell}
