"""Convolutions of codes with borders of other items than zeros, and with large planes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.analysis import blocked_support, integer_support
from tests.helpers.onnx.quantized_networks import Network
from tests.passes.quantize.test_code_convolutions import UNIT
from tests.passes.quantize.test_code_convolutions import compare as compare_network

ONE = CompileConfig(1)
RANDOM = np.random.default_rng(5)


def codes(*shape: int) -> Any:
    return RANDOM.integers(0, 256, shape).astype(np.uint8)


def known(graph: Graph, items: Any) -> Value:
    attributes = {"shape": items.shape, "value": tuple(items.reshape(-1).tolist())}
    dtype = DType(str(items.dtype))
    return build(graph, "constant", [], attributes, dtype=dtype).output


def sums(
    kind: str, shape: tuple[int, ...], filter_: tuple[int, ...], **attributes: Any
) -> tuple[Graph, Any]:
    """A graph of `integer_conv` or `integer_deconv`, and codes for it."""
    graph = Graph("g")
    x = graph.add_input(TensorType(DType.UINT8, shape), "x")
    weights = known(graph, codes(*filter_).astype(np.int8))
    zeros = (known(graph, np.array(zero, dtype)) for zero, dtype in ((117, "u1"), (-3, "i1")))
    graph.add_output(build(graph, kind, [x, weights, *zeros], attributes).output, "y")
    return graph, codes(*shape)


def compare(graph: Graph, x: Any) -> None:
    """Compare sums with those of the reference; they are integers."""
    (want,) = evaluate(graph, {"x": x}).outputs.values()
    kernels = [k.family for each in lower_graph(graph.clone(), ONE).launches for k in each.kernels]
    convolutions = [k for k in kernels if k.startswith("convolution.")]
    assert convolutions
    assert all("codes" in k for k in convolutions)
    assert len(np.unique(want)) > 50
    np.testing.assert_array_equal(compile_graph(graph, ONE).run({"x": x})["y"], want)


@pytest.mark.parametrize("border", ["replicate", "reflect", "reflect-even"])
def test_borders_of_other_items(border: str) -> None:
    window: dict[str, Any] = {"border": border, "groups": 1, "stride": (2, 1)}
    more: dict[str, Any] = {"padding": ((1, 2), (3, 0)), "dilation": (1, 2)}
    compare(*sums("integer_conv", (2, 5, 9, 8), (20, 5, 3, 3), **window, **more))
    compare(*sums("integer_deconv", (1, 5, 6, 7), (5, 20, 4, 3), **window, **more))
    whole = {**window, "output_shape": (1, 20, 12, 7)}
    compare(*sums("integer_deconv", (1, 5, 6, 7), (5, 20, 3, 3), **whole))


def test_borders_of_windows_without_padding() -> None:
    """A border of the zero point becomes the padding, whatever border the window has."""
    graph, items = Graph("g"), codes(1, 5, 8, 9)
    x = graph.add_input(TensorType(DType.UINT8, items.shape), "x")
    around: dict[str, Any] = {"padding": ((0, 0), (0, 0), (1, 1), (1, 0)), "border": "constant"}
    padded = build(graph, "pad", [x], {**around, "value": 117.0}).output
    weights = known(graph, codes(20, 5, 3, 3).astype(np.int8))
    zeros = (known(graph, np.array(zero, dtype)) for zero, dtype in ((117, "u1"), (-3, "i1")))
    window = {"border": "replicate", "groups": 1, "padding": ((0, 0), (0, 0))}
    sums = build(graph, "integer_conv", [padded, weights, *zeros], window)
    graph.add_output(sums.output, "y")
    compare(graph, items)


def test_large_planes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands of rows, with strides, dilations, groups and residuals."""
    for module in (integer_support, blocked_support):
        monkeypatch.setattr(module, "MAX_PLANE", 200)
    window: dict[str, Any] = {"border": "constant", "dilation": (2, 1), "groups": 5}
    more = {"padding": ((3, 2), (0, 1)), "stride": (1, 2)}
    compare(*sums("integer_conv", (2, 10, 41, 15), (20, 2, 3, 3), **window, **more))
    net = Network()
    x = net.rounded("x", UNIT, 128, "uint8")
    y = net.rounded(net.conv(x, UNIT, (20, 20), pads=[1, 1, 1, 1]), UNIT, 137, "uint8")
    y = net.rounded(net.node("Relu", net.node("Add", x, y)), UNIT, 28, "uint8")
    y = net.conv(y, UNIT, (20, 20), group=20, strides=[2, 2], pads=[1, 1, 1, 1])
    y = net.rounded(y, UNIT, 120, "uint8")
    shape = (2, 20, 37, 15)
    compare_network(net.model(shape, y=(y, "float32")), shape, {"y": UNIT})
