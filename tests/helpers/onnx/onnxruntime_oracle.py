"""Single nodes, computed by nnefc's reference interpreter and by onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.helpers.onnx.evaluate import graph_for, reference_results

Array = np.ndarray[Any, Any]


def node_model(
    op_type: str,
    inputs: Sequence[Array | None],
    *,
    opset: int = 21,
    domain: str = "",
    known: Sequence[int] = (),
    outputs: Sequence[bool] = (True,),
    types: Sequence[int] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node.

    `inputs`: examples, or None for those that are absent.  `known`: the inputs that are
    initializers.  `outputs`: whether each result is used.  `types`: of the results, as numbers of
    `TensorProto`, by default that of the first input.
    """
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    results = [f"y{i}" if wanted else "" for i, wanted in enumerate(outputs)]
    node = helper.make_node(op_type, names, results, domain=domain, **attributes)
    given = {name: x for name, x in zip(names, inputs, strict=True) if x is not None}
    types_of = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in given.items()}
    first = next(iter(types_of.values()), TensorProto.FLOAT)
    graph = helper.make_graph(
        [node],
        "graph",
        [
            helper.make_tensor_value_info(name, types_of[name], x.shape)
            for i, (name, x) in enumerate(zip(names, inputs, strict=True))
            if x is not None and i not in known
        ],
        [
            helper.make_tensor_value_info(name, types[i] if i < len(types) else first, None)
            for i, name in enumerate(results)
            if name
        ],
        [numpy_helper.from_array(given[names[i]], names[i]) for i in known if names[i]],
    )
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    version = 3 if opset < 9 else 8
    return helper.make_model(graph, opset_imports=opsets, ir_version=version)


def onnxruntime_results(model: onnx.ModelProto, inputs: Sequence[Array]) -> list[Array]:
    """The results of a model by onnxruntime, without optimisations."""
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {each.name: x for each, x in zip(session.get_inputs(), inputs, strict=True)}
    return [np.asarray(y) for y in session.run(None, feeds)]


def compare(
    op_type: str,
    inputs: Sequence[Array | None],
    *,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    known: Sequence[int] = (),
    expected: Sequence[Array] | None = None,
    **settings: Any,
) -> list[Array]:
    """Compare a node with onnxruntime, or with the results `expected`; returns nnefc's results.

    `settings`: see `node_model`.
    """
    model = node_model(op_type, inputs, known=known, **settings)
    given = [x for i, x in enumerate(inputs) if x is not None and i not in known]
    results = reference_results(graph_for(model, given), given)
    wanted = onnxruntime_results(model, given) if expected is None else expected
    assert len(results) == len(wanted)
    for y, want in zip(results, wanted, strict=True):
        assert y.dtype == want.dtype
        assert y.shape == want.shape
        np.testing.assert_allclose(
            y.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol
        )
    return results


def reals(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    """Random numbers of a normal distribution."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)
