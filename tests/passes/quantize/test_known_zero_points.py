"""Convolutions of codes whose zero point a run computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.options.compile_config import CompileConfig
from tests.passes.quantize.test_code_planes import codes, known

ONE = CompileConfig(1)


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
@pytest.mark.parametrize(
    ("extents", "filter_", "window"),
    [
        ((9, 8), (20, 5, 3, 3), {"padding": ((1, 2), (3, 0)), "dilation": (1, 2)}),
        ((9, 8), (20, 5, 3, 2), {"padding": ((2, 1), (0, 1)), "stride": (2, 3)}),
        ((7, 6), (10, 1, 3, 3), {"groups": 5, "padding": ((1, 1), (0, 0))}),
        ((7, 6), (8, 5, 1, 1), {"padding": ((0, 0), (0, 0))}),
        ((7, 6), (8, 5, 3, 3), {"padding": ((1, 1), (1, 1)), "border": "replicate"}),
    ],
)
def test_sums(
    extents: tuple[int, ...], filter_: tuple[int, ...], window: dict[str, Any], dtype: DType
) -> None:
    shape = (2, 5, *extents)
    graph = Graph("g")
    x = graph.add_input(TensorType(dtype, shape), "x")
    zero = graph.add_input(TensorType(dtype, ()), "zero")
    weights = known(graph, codes(*filter_).astype(np.int8))
    zeros = known(graph, codes(filter_[0], *(1 for _ in filter_[1:])).astype(np.int8))
    attributes = {"border": "constant", "groups": 1, **window}
    sums = build(graph, "integer_conv", [x, weights, zero, zeros], attributes)
    graph.add_output(sums.output, "y")
    given = {"x": codes(*shape).astype(dtype.numpy), "zero": np.array(117, dtype.numpy)}
    (want,) = evaluate(graph, given).outputs.values()
    kernels = [k.family for each in lower_graph(graph.clone(), ONE).launches for k in each.kernels]
    assert any("codes" in k for k in kernels if k.startswith("convolution."))
    np.testing.assert_array_equal(compile_graph(graph, ONE).run(given)["y"], want)
