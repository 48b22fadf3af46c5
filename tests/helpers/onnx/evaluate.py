"""Evaluate an ONNX model with the reference interpreter, and compare with expected results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from nnefc.frontends.onnx.model import OnnxModel
from nnefc.frontends.onnx.read_model import source_of_model
from nnefc.frontends.onnx.source import OnnxSource
from nnefc.frontends.onnx.tensors import TensorReader
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits


def source_of(model: onnx.ModelProto, symbols: Mapping[str, int] | None = None) -> OnnxSource:
    """The source of a model in memory; raises NnefError with all errors."""
    limits = Limits()
    parsed = OnnxModel(model.SerializeToString(), "model.onnx", TensorReader(None, limits), limits)
    return source_of_model(parsed, Diagnostics(), symbols)


def graph_for(model: onnx.ModelProto, inputs: Sequence[Any]) -> Graph:
    """The graph of a model for the shapes of its inputs."""
    source = source_of(model)
    shapes = {name: np.shape(x) for name, x in zip(source.inputs, inputs, strict=False)}
    return source.graph(shapes)


def reference_results(graph: Graph, inputs: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The results of a graph by the reference interpreter, cut to their counted items."""
    named = {value.name: np.asarray(x) for value, x in zip(graph.inputs, inputs, strict=False)}
    outputs = list(evaluate(graph, named).outputs.values())
    whole = min([len(outputs) - len(graph.counts), *(s.output for s in graph.states if s.output)])
    for count in graph.counts:
        number = int(np.asarray(outputs[count.output]).reshape(()))
        outputs[count.of] = np.take(outputs[count.of], range(number), count.axis)
    types = [value.type.dtype.numpy for value in graph.outputs]
    return [np.asarray(y).astype(t) for y, t in zip(outputs[:whole], types, strict=False)]


def assert_equal(actual: Any, expected: Any, rtol: float, atol: float) -> None:
    """Assert that an array has the type, shape and items of another one."""
    want = np.asarray(expected)
    assert actual.dtype == want.dtype
    assert actual.shape == want.shape
    if want.dtype.kind in "biuOU":
        np.testing.assert_array_equal(actual, want)
    else:
        a, b = actual.astype(np.float64), want.astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
