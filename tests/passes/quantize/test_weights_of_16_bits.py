"""Sums of codes of 16 bits and known weights of 16 bits, against sums of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.tools.build import build, constant
from nnefc.passes.analysis.known_data import constant_op
from nnefc.passes.quantize.split_weights import SplitWeights

Array = np.ndarray[Any, Any]
NONE: dict[str, Any] = {"padding": ((0, 0), (0, 0))}
CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "matrix": ("integer_matmul", (3, 700), (700, 20), {}),
    "transposed matrix": ("integer_matmul", (5, 66), (20, 66), {"transposeB": True}),
    "convolution": ("integer_conv", (2, 40, 6, 5), (20, 40, 3, 3), {"padding": ((1, 0), (1, 1))}),
    "large window": ("integer_conv", (1, 2, 11, 12), (3, 2, 11, 11), dict(NONE)),
    "groups": ("integer_conv", (1, 40, 5, 5), (6, 20, 2, 2), {**NONE, "groups": 2}),
    "depthwise": ("integer_conv", (1, 20, 5, 5), (20, 1, 3, 3), {**NONE, "groups": 0}),
    "transposed": ("integer_deconv", (1, 20, 4, 3), (20, 8, 3, 3), {**NONE, "stride": (2, 2)}),
}
"""Operation, dims of both tensors, attributes."""
MIDDLE = {DType.INT16: 0, DType.UINT16: 1 << 15}


def product(name: str, dtype: DType, weights: Array, zero: int = 0) -> Graph:
    """The sums of integers; codes of uint16 have a zero point in the middle."""
    operation, dims, _, attributes = CASES[name]
    graph = Graph("g")
    x = graph.add_input(TensorType(dtype, dims), "x")
    type_ = TensorType(DType.INT16, weights.shape)
    w = graph.insert(constant_op(weights, type_, None)).output
    zeros = [constant(graph, MIDDLE[dtype], dtype), constant(graph, zero, DType.INT16)]
    op = build(graph, operation, [x, w, *zeros], {**attributes, "wide": True})
    graph.add_output(op.output, "y")
    return graph


def by_torch(name: str, x: Array, w: Array) -> Array:
    """The sums in float64, which are exact."""
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torch.nn.functional")
    operation, _, _, attributes = CASES[name]
    a, b = (torch.from_numpy(each.astype(np.float64)) for each in (x, w))
    if operation == "integer_matmul":
        return (a @ (b.T if attributes else b)).numpy()
    if operation == "integer_deconv":
        return functional.conv_transpose2d(a, b, stride=attributes["stride"]).numpy()
    padding = [n for pair in reversed(attributes.get("padding", ())) for n in pair]
    groups = attributes.get("groups", 1) or x.shape[1]
    return functional.conv2d(functional.pad(a, padding), b, groups=groups).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("most", [3, 900, 32768])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", MIDDLE)
def test_sums_are_exact(dtype: DType, name: str, most: int) -> None:
    random = np.random.default_rng(most)
    dims, shape = CASES[name][1:3]
    weights = -random.integers(most // 2, most + 1, shape).astype(np.int16)
    weights[random.random(shape) < 0.1] *= -1
    limits = np.iinfo(dtype.numpy)
    x = random.integers(limits.min, int(limits.max) + 1, dims).astype(dtype.numpy)
    x[random.random(dims) < 0.9] = limits.min  # sums are nearly as large as they can be
    model: Any = nnefc.compile(product(name, dtype, weights), threads=1)
    expected = by_torch(name, x.astype(np.int64) - MIDDLE[dtype], weights)
    np.testing.assert_array_equal(model(x), expected)


@pytest.mark.parametrize(
    ("name", "most", "zero", "splits"),
    [
        ("matrix", 90, 0, False),  # 700 * 90 * 32768 fits int32
        ("matrix", 900, 0, False),  # parts of 72 products do
        ("matrix", 2000, 0, True),  # parts of 32 products do, which are too short
        ("matrix", 2000, 1, False),  # there is no kernel for zero points of weights
        ("large window", 900, 0, True),  # a channel of 121 products exceeds int32
    ],
)
def test_digits_where_parts_are_short(name: str, most: int, zero: int, splits: bool) -> None:
    weights = np.full(CASES[name][2], most, np.int16)
    graph = product(name, DType.INT16, weights, zero)
    assert SplitWeights().run(graph) is splits
    assert not SplitWeights().run(graph)
