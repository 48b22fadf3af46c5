"""Cross-layer equalisation: balance the ranges of the channels between two layers.

Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019.

    y = f(W x + b);  z = V y    becomes    y' = f(W / s x + b / s);  z = (V s) y'

where f(c x) = c f(x) for c > 0.  Channel i of y is divided by s[i] = sqrt(r[i] / q[i]), for the
largest magnitudes r[i] of the weights that make the channel and q[i] of those that read it.  So all
channels of y fill about the same part of the one range that its codes have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.driver.quantize.layers import CHANNELS, Layer, channel_axis, items_of, layers_of
from nnefc.driver.quantize.variables import add_variable, drop_unused
from nnefc.ir import Graph, Op, Value
from nnefc.passes.op_queries import only_user

Array = np.ndarray[Any, Any]

HOMOGENEOUS: Final = ("relu", "leaky_relu", "max_pool", "avg_pool", "copy", "pad")
"""Operations of one operand that commute with positive factors of channels, and keep channels at
axis 1."""
SWEEPS: Final = 40
"""The most passes over all pairs, which depend on each other."""
CLOSE: Final = 1e-3
"""Logarithms of factors below this end the sweeps."""


@dataclass(slots=True)
class _Weights:
    """The weights of a layer while factors are chosen."""

    op: Op
    items: Array
    """The filter or matrix, in float64."""
    bias: Array | None
    """[channels]; None if it is 0."""
    makes: int
    """The axis of the filter whose indices are channels of the result."""
    reads: int | None
    """The axis whose indices are channels of the input; None if groups mix them."""

    def ranges(self, axis: int) -> Array:
        """The largest magnitude for each index of an axis."""
        others = tuple(i for i in range(self.items.ndim) if i != axis)
        return np.abs(self.items).max(axis=others)

    def scale(self, axis: int, factors: Array) -> None:
        shape = [-1 if i == axis else 1 for i in range(self.items.ndim)]
        self.items = self.items * factors.reshape(shape)


def equalise(graph: Graph) -> Graph:
    """A copy of a graph of reals that computes the same, with balanced channels between layers."""
    copy = graph.clone()
    weights = {each.op: made for each in layers_of(copy) if (made := _weights_of(each))}
    pairs = list(_pairs(weights))
    for _ in range(SWEEPS):
        largest = 0.0
        for first, second in pairs:
            assert second.reads is not None
            made, read = first.ranges(first.makes), second.ranges(second.reads)
            both = (made > 0) & (read > 0)
            factors = np.sqrt(np.divide(read, made, where=both, out=np.ones_like(made)))
            largest = max(largest, float(np.abs(np.log(factors)).max()))
            first.scale(first.makes, factors)
            if first.bias is not None:
                first.bias = first.bias * factors
            second.scale(second.reads, 1 / factors)
        if largest < CLOSE:
            break
    first_ops = {first.op for first, _ in pairs}
    for op in dict.fromkeys(each.op for pair in pairs for each in pair):
        _store(copy, weights[op], makes=op in first_ops)
    drop_unused(copy)
    return copy


def _weights_of(layer: Layer) -> _Weights | None:
    """The weights of a convolution or linear layer with a known bias; None for other layers."""
    op = layer.op
    axis = channel_axis(op, 1)
    if op.name not in ("conv", "linear") or layer.weights != (1,) or axis is None:
        return None
    bias, channels = op.inputs[2], op.output.type.dims[CHANNELS]
    if bias.op is None or bias.op.name not in ("variable", "constant"):
        return None
    if bias.type.volume not in (1, channels) or op.attributes.get("border") == "ignore":
        return None
    items = items_of(op.inputs[1]).astype(np.float64)
    offset = items_of(bias).astype(np.float64).reshape(-1)
    groups = op.attributes.get("groups", 1)
    is_depthwise = groups in (0, channels) and items.shape[1] == 1 and groups != 1
    is_depthwise = is_depthwise and op.inputs[0].type.dims[CHANNELS] == channels
    reads = CHANNELS if groups == 1 else 0 if is_depthwise else None
    known = np.broadcast_to(offset, (channels,)) if offset.any() else None
    return _Weights(op, items, known, axis, reads)


def _pairs(weights: dict[Op, _Weights]) -> Iterator[tuple[_Weights, _Weights]]:
    """Layers whose result one other layer reads, behind homogeneous operations."""
    for op, first in weights.items():
        value = op.output
        graph = op.graph
        assert graph is not None
        while (user := only_user(graph, value)) is not None and _is_homogeneous(user):
            value = user.output
        second = weights.get(user) if user is not None else None
        if second is not None and second.reads is not None and second.op.inputs[0] is value:
            yield first, second


def _is_homogeneous(op: Op) -> bool:
    if op.name not in HOMOGENEOUS:
        return False
    if op.name == "pad":
        return op.attributes["padding"][CHANNELS] == (0, 0) and op.attributes["value"] == 0
    size = op.attributes.get("size")
    return size is None or size[CHANNELS] == 1


def _store(graph: Graph, weights: _Weights, *, makes: bool) -> None:
    """Let an operation read the new weights as variables, and the new bias if it `makes` channels
    of a pair.
    """
    op = weights.op
    op.set_input(1, _variable(graph, op, op.inputs[1], weights.items, ""))
    if makes and weights.bias is not None:
        op.set_input(2, _variable(graph, op, op.inputs[2], weights.bias[None], "_bias"))


def _variable(graph: Graph, before: Op, old: Value, items: Array, kind: str) -> Value:
    known = str(old.op.attributes.get("label", "")) if old.op is not None else ""
    name = f"{known or old.name or before.output.name + kind}_equalised"
    return add_variable(graph, name, items.astype(old.type.dtype.numpy), before)
