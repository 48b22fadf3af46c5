"""Parameters of graphs: exchanged tensors, and those that cannot be exchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc import openvx as vx
from nnefc.support.errors import NnefError

ABS = vx.ActivationFunction.ABS
X = np.array([[-3, 2, 100], [0, -128, 7]], np.int8)
"""Absolute values saturate: that of -128 is 127."""
Y = np.array([[3, 2, 100], [0, 127, 7]], np.int8)


def test_tensors_are_exchanged() -> None:
    context = vx.Context(threads=1)
    x, y, z, other = (context.create_tensor((3, 2), vx.Type.INT8) for _ in range(4))
    rows = context.create_tensor((5, 4), vx.Type.INT8)
    view = rows.create_tensor_from_view((1, 1), (4, 3))
    graph = context.create_graph()
    first = graph.activation_layer(x, ABS, 0, 0, y)
    second = graph.activation_layer(y, ABS, 0, 0, z)
    indexes = [graph.add_parameter(*each) for each in ((first, 0), (first, 4), (second, z))]
    assert indexes == [0, 1, 2]
    graph.verify()
    compiled = graph._compiled  # pyright: ignore[reportPrivateUsage]
    graph.set_parameter(0, view)
    graph.set_parameter(1, other)
    view.copy_from(X)
    graph.process()
    np.testing.assert_array_equal(other.copy_to(), Y)
    np.testing.assert_array_equal(z.copy_to(), Y)
    assert not y.copy_to().any()
    graph.set_parameter(2, view)
    graph.process()
    np.testing.assert_array_equal(rows.copy_to()[1:3, 1:4], Y)
    assert rows.copy_to().astype(int).sum() == Y.astype(int).sum()
    assert graph._compiled is compiled  # pyright: ignore[reportPrivateUsage]
    rows.name, other.name = "rows", "other"
    text = graph.description()
    assert "inputs: rows[1:4, 1:3]\noutputs: other, rows[1:4, 1:3]" in text
    assert "    inputs = other: INT8[3, 2]\n    outputs = rows[1:4, 1:3]: INT8[3, 2]" in text
    graph.set_parameter(2, other)
    with pytest.raises(NnefError, match=r"other \(parameter 1\) and other \(parameter 2\)"):
        graph.process()


def test_wrong_parameters() -> None:
    context = vx.Context(threads=1)
    x, y = (context.create_tensor((3, 2), vx.Type.UINT8) for _ in range(2))
    weights = context.create_tensor((3, 4), vx.Type.UINT8)
    graph = context.create_graph()
    hidden = graph.create_virtual_tensor((3, 2), vx.Type.UINT8)
    saturate, to_zero = vx.ConvertPolicy.SATURATE, vx.RoundPolicy.TO_ZERO
    sums = context.create_tensor((4, 2), vx.Type.UINT8)
    node = graph.activation_layer(x, ABS, 0, 0, hidden)
    last = graph.fully_connected_layer(hidden, weights, None, saturate, to_zero, sums)
    add: Any = graph.add_parameter
    for each in ((node, 1), (node, 5), (node, -1), (node, y), (node, hidden), (last, 1), (last, 2)):
        with pytest.raises(NnefError, match="openvx/graph-parameter"):
            add(*each)
    for wrong in (context.create_graph().softmax_layer(x, y), 0):
        with pytest.raises(NnefError, match="openvx/argument"):
            add(wrong, 0)
    assert add(last, 5) == 0
    assert add(node, x) == 1
    for index, dims, type in (
        (1, (2, 3), vx.Type.UINT8),
        (1, (3, 2), vx.Type.INT8),
        (2, (3, 2), 3),
    ):
        with pytest.raises(NnefError, match="openvx/graph-parameter"):
            graph.set_parameter(index, context.create_tensor(dims, vx.Type(type)))
    with pytest.raises(NnefError, match="openvx/graph-parameter"):
        graph.set_parameter(1, hidden)
