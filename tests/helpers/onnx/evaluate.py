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
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits

NEEDS_VALUES = ("operator/attribute", "onnx/value", "onnx/unsupported")
"""Rules of errors about values that are computed when the model runs."""


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


def graph_and_inputs(model: onnx.ModelProto, inputs: Sequence[Any]) -> tuple[Graph, list[Any]]:
    """The graph of a model, and its inputs.

    As few inputs as possible become initializers because their values must be known: integers
    behind the first input, then all behind it, then all.
    """
    kinds = [np.asarray(x).dtype.kind if hasattr(x, "dtype") else "" for x in inputs]
    integers = {i for i, kind in enumerate(kinds) if i and kind in "iub" and kind}
    behind = {i for i, kind in enumerate(kinds) if i and kind}
    choices = [set[int](), integers, behind, {i for i, kind in enumerate(kinds) if kind}]
    for known in choices[:-1]:
        try:
            return _with_known(model, inputs, known)
        except NnefError as error:
            if not any(each.rule in NEEDS_VALUES for each in error.errors):
                raise
    return _with_known(model, inputs, choices[-1])


def _with_known(
    model: onnx.ModelProto, inputs: Sequence[Any], known: set[int]
) -> tuple[Graph, list[Any]]:
    """The graph with the inputs `known` as initializers, and the other inputs."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for i in sorted(known, reverse=True):
        name = changed.graph.input[i].name
        changed.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(inputs[i]), name))
        del changed.graph.input[i]
    left = [x for i, x in enumerate(inputs) if i not in known]
    return graph_for(changed, left), left


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
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, want)
    else:
        a, b = actual.astype(np.float64), want.astype(np.float64)
        if want.dtype.name == "bfloat16":  # tolerances of the cases suit other types
            rtol, atol = max(rtol, 2**-6), max(atol, 2**-7)
        if want.dtype == np.float32 and want.size and np.isfinite(want).all():
            # items that should be 0 are sums of rounded ones
            atol = max(atol, 4 * float(np.finfo(np.float32).eps) * float(np.abs(b).max()))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
