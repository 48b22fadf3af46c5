"""Fold batch normalisations into the layers before them, so that their results become codes.

    y = batch_normalization(conv(x, W, b), mean, variance, offset, scale)

becomes, with s = scale / sqrt(variance + epsilon) for each channel,

    y = conv(x, W s, (b - mean) s + offset)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.driver.quantize.layers import (
    CHANNELS,
    Layer,
    channel_axis,
    items_of,
    known_bias,
    layers_of,
)
from nnefc.driver.quantize.variables import add_variable, drop_unused
from nnefc.ir import Graph, Op
from nnefc.ops.core.known_items import known_items
from nnefc.passes.op_queries import only_user

Array = np.ndarray[Any, Any]


def fold_normalizations(graph: Graph) -> bool:
    """Fold the normalisations of a graph of reals in place; returns whether there are any.

    Those with known parameters of channels are folded, if nothing else reads the result of the
    layer.  The layer then has the name of the result of the normalisation.
    """
    folded = [_fold(graph, layer) for layer in layers_of(graph)]
    if any(folded):
        drop_unused(graph)
    return any(folded)


def _fold(graph: Graph, layer: Layer) -> bool:
    op, bias, axis = layer.op, known_bias(layer), channel_axis(layer.op, 1)
    user = only_user(graph, op.output, "batch_normalization")
    if user is None or bias is None or axis is None or layer.weights != (1,):
        return False
    affine = _affine(user, op)
    if affine is None:
        return False
    factors, offsets = affine
    weights, channels = items_of(op.inputs[1]), op.output.type.dims[CHANNELS]
    groups = channels // weights.shape[axis]
    if groups > 1:  # the channels of all groups of a deconvolution share an index
        by_group = weights.astype(np.float64).reshape(groups, -1, *weights.shape[1:])
        shape = (groups, 1, weights.shape[axis], *(1,) * (weights.ndim - 2))
        scaled = (by_group * factors.reshape(shape)).reshape(weights.shape)
    else:
        scaled = weights * factors.reshape([-1 if i == axis else 1 for i in range(weights.ndim)])
    name, dtype = user.output.name or op.output.name or op.name, op.output.type.dtype.numpy
    items = (bias * factors + offsets)[None]
    op.set_input(1, add_variable(graph, f"{name}_filter", scaled.astype(dtype), op))
    op.set_input(2, add_variable(graph, f"{name}_bias", items.astype(dtype), op))
    op.output.name = user.output.name
    graph.replace_value(user.output, op.output)
    graph.erase(user)
    return True


def _affine(op: Op, layer: Op) -> tuple[Array, Array] | None:
    """The factor and the offset of each channel, float64; None if they are not known."""
    channels = layer.output.type.dims[CHANNELS]
    if op.inputs[0] is not layer.output:
        return None
    terms: list[Array] = []
    for value in op.inputs[1:]:
        items = known_items(value)
        if items is None or value.type.dims not in ((), (1,), (1, 1), (1, channels)):
            return None
        terms.append(np.broadcast_to(items.astype(np.float64).reshape(-1), (channels,)))
    mean, variance, offset, scale = terms
    factors = scale / np.sqrt(variance + op.attributes["epsilon"])
    return factors, offset - mean * factors
