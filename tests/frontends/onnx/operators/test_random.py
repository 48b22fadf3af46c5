"""Random numbers of ONNX: distributions, seeds and states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from nnefc.frontends.onnx.source import OnnxSource
from nnefc.ops.tools.reference import evaluate
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import source_of

Array = np.ndarray[Any, Any]
COUNT = 4000


def random_source(name: str, x: Any = None, **attributes: Any) -> OnnxSource:
    """A model of one operator; `x`: the shape of its input, if it has one."""
    inputs = [] if x is None else [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
    node = helper.make_node(name, ["x"] if inputs else [], ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    return source_of(model)


def drawn(source: OnnxSource, *inputs: Array, calls: int = 1) -> list[Array]:
    """The results of consecutive calls, by the reference interpreter."""
    results: list[Array] = []
    states: dict[str, Array] = {}
    for _ in range(calls):
        graph = source.graph({}, states={name: x.shape for name, x in states.items()})
        values = dict(zip(source.inputs, inputs, strict=True))
        for state in graph.states:
            if state.input is not None:
                values[graph.inputs[state.input].name] = states[state.name]
        outputs = list(evaluate(graph, values).outputs.values())
        results.append(outputs[0])
        for state in graph.states:
            assert state.output is not None
            states[state.name] = outputs[state.output]
    return results


def test_normal_numbers_have_their_mean_and_deviation() -> None:
    (y,) = drawn(random_source("RandomNormal", shape=[COUNT], mean=3.0, scale=2.0, seed=1.0))
    assert abs(y.mean() - 3) < 5 * 2 / COUNT**0.5
    assert abs(y.std() - 2) < 0.15


def test_uniform_numbers_fill_their_interval() -> None:
    (y,) = drawn(random_source("RandomUniform", shape=[COUNT], low=-1.0, high=3.0, seed=1.0))
    assert -1 <= y.min() < -0.98 and 2.98 < y.max() < 3
    counts: Array = np.histogram(y, 8, (-1, 3))[0]
    assert np.all(abs(counts - COUNT / 8) < 5 * (COUNT / 8) ** 0.5)


@pytest.mark.parametrize("name", ["RandomNormalLike", "RandomUniformLike"])
def test_numbers_like_a_tensor_have_its_shape(name: str) -> None:
    (y,) = drawn(random_source(name, (3, 5), seed=2.0), np.zeros((3, 5), np.float32))
    assert y.shape == (3, 5)
    assert len(np.unique(y)) == 15


def test_bernoulli_draws_ones_with_their_probability() -> None:
    p = np.tile(np.array([0, 0.25, 1], np.float32), (COUNT, 1))
    (y,) = drawn(random_source("Bernoulli", p.shape, seed=1.0), p)
    assert set(y.reshape(-1).tolist()) == {0, 1}
    assert np.all(y[:, 0] == 0) and np.all(y[:, 2] == 1)
    assert abs(y[:, 1].mean() - 0.25) < 5 * (0.25 * 0.75 / COUNT) ** 0.5


def test_multinomial_draws_classes_with_their_weights() -> None:
    weights = np.array([[0.5, 0.3, 0.2, 0]])
    with np.errstate(divide="ignore"):
        logits = np.log(weights).astype(np.float32)
    source = random_source(
        "Multinomial", (1, 4), sample_size=COUNT, seed=3.0, dtype=TensorProto.INT64
    )
    (y,) = drawn(source, logits)
    assert y.shape == (1, COUNT)
    shares = np.bincount(y.reshape(-1).astype(int), minlength=4) / COUNT
    assert np.all(abs(shares - weights[0]) < 5 * (0.25 / COUNT) ** 0.5)
    assert shares[3] == 0


def test_a_seed_gives_the_same_numbers_in_every_model_and_others_in_each_call() -> None:
    attributes: dict[str, Any] = {"shape": [8], "seed": 7.5}
    first = drawn(random_source("RandomNormal", **attributes), calls=3)
    again = drawn(random_source("RandomNormal", **attributes), calls=3)
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first)) == 24


def test_models_without_a_seed_give_different_numbers() -> None:
    one, other = (drawn(random_source("RandomUniform", shape=[8])) for _ in range(2))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("RandomUniform", {"low": 1.0, "high": 1.0}, "low must be less than high"),
        ("RandomNormal", {"scale": -1.0}, "deviation must not be below 0"),
        ("RandomNormal", {"dtype": TensorProto.INT32}, "random numbers are reals"),
        ("RandomUniform", {"high": float("inf")}, "must be finite"),
    ],
)
def test_impossible_distributions_are_errors(
    name: str, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(NnefError, match=message):
        random_source(name, shape=[2], **attributes).graph({})
