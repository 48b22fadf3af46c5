"""Whole networks: the interpreter and compiled models match PyTorch in float64.

The interpreter must agree to 1e-12, and compiled float32 code to 1e-5, both relative to the largest
output.  Networks have their full structure but small images, so that the tests are quick.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnefc
from benchmarks.zoo import ZOO, inputs_of
from benchmarks.zoo.oracle import torch_outputs
from nnefc.frontends.nnef import import_text
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from tests.helpers.pytorch.example_models import EXAMPLES, alexnet_torch, lstm_torch

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.filterwarnings("ignore::nnefc.NnefWarning")


def _input(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def _relative(found: Array, expected: Array) -> float:
    """The largest difference relative to the largest value."""
    assert found.shape == expected.shape
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))


@pytest.mark.parametrize("name", ZOO)
def test_networks_match_pytorch(name: str) -> None:
    entry = ZOO[name]
    document = entry.document(name, small=True)
    graph = import_text(document.text)
    for variable in graph.variables.values():
        variable.data = document.variables[variable.label].data()
    data = inputs_of(document.inputs)
    expected = torch_outputs(entry.network(small=True), data)
    reference = evaluate(graph, data).outputs
    results = nnefc.compile(graph).run(data)
    for output, want in expected.items():
        assert 0.01 * want.max() < np.std(want) < 0.5 * want.max(), "a poor test"
        assert _relative(reference[output], want) < 1e-12
        assert _relative(results[output], want) < 1e-5


def _example(name: str, **options: Any) -> Graph:
    return nnefc.import_model(EXAMPLES / name, random_weights=7, **options)


def _data(graph: Graph) -> dict[str, Array]:
    return {v.label: v.data for v in graph.variables.values() if v.data is not None}


@pytest.mark.slow
def test_alexnet_matches_pytorch() -> None:
    graph, data = _example("alexnet"), _input((1, 3, 224, 224))
    expected = alexnet_torch(data, _data(graph))
    model = nnefc.compile(graph)
    assert _relative(model(data), expected) < 1e-5
    assert _relative(evaluate(graph, {"input": data}).outputs["output"], expected) < 1e-12


def test_lstm_states_match_pytorch_and_can_be_reset() -> None:
    graph = _example("lstm")
    steps = np.random.default_rng(2).standard_normal((6, 1, 16)).astype(np.float32)
    expected = lstm_torch(steps, _data(graph))
    model = nnefc.compile(graph)
    state: dict[str, Array] = {}
    for step, (hidden, cell) in zip(steps, expected):
        run = evaluate(graph, {"input": step}, state)
        state = run.variables
        for name, want, got in zip(("hidden", "cell"), (hidden, cell), model(step)):
            assert _relative(run.outputs[name], want) < 1e-12
            assert _relative(got, want) < 1e-5
    assert _relative(np.asarray(model.variables["lstm/cell"]), expected[-1][1]) < 1e-5
    model.reset()
    assert _relative(model(steps[0])[0], expected[0][0]) < 1e-5
