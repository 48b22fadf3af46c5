"""attention: what `passes.fuse_attention` makes of two products with a softmax between them.

    attention(q, k, v, others) {scores, depth, width, q, k, v, y, expression}

is softmax(expression(q k^T, others)) v, over the last axis of the scores; these are of shape
`scores`, [..., rows, keys].  The operands hold, perhaps among other things, q [..., rows, depth],
k [..., keys, depth] and v [..., keys, width].  Where, say the attributes of the same names: the
number of the first item, then the stride along each dimension, in items (0 where it repeats).  `y`
says where in the output the items of the result [..., rows, width] are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnefc.ir import Op, Shape, TensorType
from nnefc.ops.common import Array

View = tuple[int, ...]
"""Number of the first item, then strides in items."""


def view(x: Array, shape: Shape, where: View) -> Array:
    """Items of `x` as an array of `shape`."""
    first, *strides = where
    flat = np.ascontiguousarray(x).reshape(-1)[first:]
    return np.lib.stride_tricks.as_strided(flat, shape, [s * x.itemsize for s in strides])


def shapes(op: Op) -> dict[str, Shape]:
    """Shapes of q, k, v and y."""
    *batch, rows, keys = op.attributes["scores"]
    depth, width = op.attributes["depth"], op.attributes["width"]
    return {
        "q": (*batch, rows, depth),
        "k": (*batch, keys, depth),
        "v": (*batch, keys, width),
        "y": (*batch, rows, width),
    }


def attention(
    op: Op, operands: Sequence[Array], expression: Callable[[list[Array], TensorType], Array]
) -> Array:
    """The result; `expression` computes that of the operation over its inputs."""
    places = shapes(op)
    q, k, v = (
        view(x, places[name], op.attributes[name]) for name, x in zip("qkv", operands, strict=False)
    )
    scores = q @ k.swapaxes(-1, -2)
    type_ = TensorType(op.output.type.dtype, tuple(op.attributes["scores"]))
    scores = expression([scores, *operands[3:]], type_)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    result: Array = np.zeros(op.output.type.dims)
    target = view(result, places["y"], op.attributes["y"])
    target[...] = (powers / powers.sum(-1, keepdims=True)) @ v
    return result


def problems(op: Op) -> list[str]:
    """What is wrong with the attributes."""
    found: list[str] = []
    types: dict[str, Any] = dict(zip("qkvy", (*(v.type for v in op.inputs[:3]), op.output.type)))
    for name, shape in shapes(op).items():
        first, *strides = op.attributes[name]
        if len(strides) != len(shape):
            found.append(f"{name} has {len(strides)} strides for {len(shape)} dimensions")
            continue
        last = first + sum(s * (n - 1) for s, n in zip(strides, shape))
        if first < 0 or min(strides) < 0 or last >= types[name].volume:
            found.append(f"{name} reaches item {last} of {types[name]}")
    if math.prod(shapes(op)["y"]) != op.output.type.volume:
        found.append("the result does not fill the output")
    return found


def macs(op: Op) -> int:
    """Multiply-accumulate operations of both products."""
    return math.prod(op.attributes["scores"]) * (op.attributes["depth"] + op.attributes["width"])
