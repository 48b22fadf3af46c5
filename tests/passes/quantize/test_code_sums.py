"""Means and sums of codes, compared with means of reals in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.options.compile_config import CompileConfig
from tests.helpers.onnx.codes import kernels_of, model_of_codes
from tests.helpers.onnx.evaluate import graph_for, reference_results

RANDOM = np.random.default_rng(9)
ONE = CompileConfig(1)
make = helper.make_node

NODES = [
    make("AveragePool", ["r"], ["mean"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    make("AveragePool", ["r"], ["wide"], kernel_shape=[5, 7], pads=[2, 3, 2, 3]),
    make(
        "AveragePool",
        ["r"],
        ["padded"],
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
    ),
    make("MaxPool", ["r"], ["p"], kernel_shape=[2, 2]),
    make("QuantizeLinear", ["p", "s", "z"], ["pq"]),
    make("DequantizeLinear", ["pq", "s", "z"], ["pr"]),
    make("GlobalAveragePool", ["pr"], ["whole"]),
    make("ReduceMean", ["r"], ["columns"], axes=[3]),
    make("ReduceMean", ["r"], ["channels"], axes=[1]),
]
NAMES = ["mean", "wide", "padded", "whole", "columns", "channels"]


@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 31), ("int8", -6)])
def test_means_of_codes(dtype: str, zero: int) -> None:
    shape, limits = (2, 20, 12, 11), np.iinfo(dtype)
    largest = np.linspace(30, 255, 20)[:, None, None]
    x = (limits.min + RANDOM.uniform(0, largest, shape)).astype(dtype)
    proto = model_of_codes(NODES, NAMES, x, zero)
    graph = graph_for(proto, [x])
    kernels = kernels_of(lower_graph(graph.clone(), ONE))
    assert len([k for k in kernels if k.startswith("window.pooling.code_sums")]) == 3
    assert [k for k in kernels if k.startswith("window.plane_reduction.code_sum")]
    wrong = items = 0
    wanted = reference_results(graph, [x])
    for name, got, want in zip(NAMES, compile_graph(graph, ONE)(x), wanted, strict=True):
        difference: Any = np.abs(np.asarray(got, int) - np.asarray(want, int))
        assert difference.max() <= 1, name
        assert np.ptp(np.asarray(want, int)) > 20, name
        wrong, items = wrong + np.count_nonzero(difference), items + difference.size
    assert wrong <= items / 1000


def test_ties_of_means_are_even() -> None:
    """Means of four codes with the parameters of the result: a quarter of them are ties."""
    node = make("AveragePool", ["r"], ["mean"], kernel_shape=[2, 2], strides=[2, 2])
    x = RANDOM.integers(0, 256, (1, 16, 32, 32)).astype("u1")
    for zero in (0, 31):
        graph = graph_for(model_of_codes([node], ["mean"], x, zero), [x])
        sums = x.astype(int).reshape(1, 16, 16, 2, 16, 2).sum((3, 5)) - 4 * zero
        want = np.rint(sums / 4) + zero
        np.testing.assert_array_equal(compile_graph(graph, ONE)(x), want)
