"""Models in the text syntax of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser

from nnefc.ir import Graph
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results

Array = np.ndarray[Any, Any]


def parsed(text: str, opset: int = 17) -> onnx.ModelProto:
    header = f'<ir_version: 8, opset_import: ["": {opset}]> graph '
    return onnx.parser.parse_model(header + text)


def check(text: str, *inputs: Array, opset: int = 17) -> Graph:
    """Compare a model with onnxruntime; returns its graph."""
    model = parsed(text, opset)
    graph = graph_for(model, inputs)
    results = reference_results(graph, inputs)
    expected = onnxruntime_results(model, inputs)
    assert len(results) == len(expected)
    for y, want in zip(results, expected, strict=True):
        assert (y.dtype, y.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    return graph
