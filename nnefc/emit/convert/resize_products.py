"""Resizing as products with matrices, for documents of NNEF 1.0.2, which has no such operation."""

from __future__ import annotations

import math

import numpy as np

from nnefc.ir import Graph, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.extended.resize import Taps, resized_axes
from nnefc.ops.tools.build import build
from nnefc.passes.analysis.known_data import constant_op
from nnefc.passes.op_queries import replace


def resize_by_products(graph: Graph) -> None:
    """Replace each `resize` by a product along each axis that it changes."""
    for op in list(graph.ops):
        if op.name == "resize":
            y = op.inputs[0]
            for axis, taps in resized_axes(y.type.dims, op.attributes):
                y = _product(graph, op, y, axis, _matrix(taps, y.type.dims[axis]))
            replace(graph, op, [y])


def _matrix(taps: Taps, extent: int) -> Array:
    """The matrix [outputs, extent] of the weights."""
    matrix = np.zeros((len(taps.index), extent))
    rows = np.arange(len(taps.index))[:, None]
    np.add.at(matrix, (np.broadcast_to(rows, taps.index.shape), taps.index), taps.weight)
    return matrix


def _product(graph: Graph, before: Op, x: Value, axis: int, matrix: Array) -> Value:
    """The product of a matrix with the vectors along an axis."""
    outputs, extent = matrix.shape
    dims = x.type.dims
    around = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
    type_ = TensorType(x.type.dtype, (1, outputs, extent))
    items = matrix.reshape(type_.dims).astype(type_.dtype.numpy)
    operand = graph.insert(constant_op(items, type_, before.location), before).output
    planes = _reshaped(graph, before, x, (around[0], extent, around[1]))
    y = build(graph, "matmul", [operand, planes], before=before, location=before.location)
    return _reshaped(graph, before, y.output, (*dims[:axis], outputs, *dims[axis + 1 :]))


def _reshaped(graph: Graph, before: Op, x: Value, shape: tuple[int, ...]) -> Value:
    attributes = {"shape": shape}
    return build(graph, "reshape", [x], attributes, before=before, location=before.location).output
