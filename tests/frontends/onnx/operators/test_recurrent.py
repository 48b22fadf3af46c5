"""Recurrent layers against onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest

from nnefc.frontends.common.operators.recurrent.activations import RECURRENT
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import compare, node_model, reals

STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 5, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
RESULTS = {"RNN": (True, True), "GRU": (True, True), "LSTM": (True, True, True)}


def inputs_of(
    op_type: str, directions: int, *, lengths: bool = False, states: bool = False,
    peepholes: bool = False, bias: bool = True,
) -> list[Any]:  # fmt: skip
    """Random inputs of a layer."""
    gates = GATES[op_type] * HIDDEN
    shape = (directions, BATCH, HIDDEN)
    inputs: list[Any] = [
        reals(STEPS, BATCH, INPUTS),
        reals(directions, gates, INPUTS, seed=1) * 0.5,
        reals(directions, gates, HIDDEN, seed=2),
        reals(directions, 2 * gates, seed=3) if bias else None,
        np.array([2, 4, 1], np.int32) if lengths else None,
        reals(*shape, seed=4) if states else None,
    ]
    if op_type == "LSTM":
        inputs.append(reals(*shape, seed=5) if states else None)
        inputs.append(reals(directions, 3 * HIDDEN, seed=6) if peepholes else None)
    while inputs[-1] is None:
        inputs.pop()
    return inputs


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    "options",
    [
        {"bias": False},
        {"lengths": True},
        {"states": True, "peepholes": True},
        {"lengths": True, "states": True, "peepholes": True},
    ],
)
@pytest.mark.parametrize("opset", [7, 14])
def test_layer(op_type: str, direction: str, options: Any, opset: int) -> None:
    inputs = inputs_of(op_type, 2 if direction == "bidirectional" else 1, **options)
    settings: Any = {"opset": opset, "direction": direction, "hidden_size": HIDDEN}
    if op_type == "GRU" and options.get("states"):
        settings["linear_before_reset"] = 1
    if op_type == "LSTM" and options.get("lengths"):
        settings["input_forget"] = 1
    compare(op_type, inputs, outputs=RESULTS[op_type], **settings)


@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
def test_clip(op_type: str) -> None:
    inputs = inputs_of(op_type, 1, states=True)
    settings: Any = {"clip": 0.3, "hidden_size": HIDDEN, "opset": 14}
    compare(op_type, inputs, outputs=RESULTS[op_type], **settings)


@pytest.mark.parametrize(
    ("op_type", "activations", "alphas", "betas"),
    [
        ("RNN", ["Affine"], [0.7], [0.1]),
        ("RNN", ["LeakyRelu"], [0.2], []),
        ("RNN", ["ThresholdedRelu"], [0.4], []),
        ("RNN", ["ScaledTanh"], [0.8], [0.5]),
        ("RNN", ["Elu"], [0.6], []),
        ("RNN", ["Softsign"], [], []),
        ("RNN", ["Softplus"], [], []),
        ("GRU", ["HardSigmoid", "Relu"], [0.3], [0.4]),
        ("LSTM", ["Sigmoid", "HardSigmoid", "LeakyRelu"], [0.3, 0.1], [0.4]),
    ],
)
def test_activations(op_type: str, activations: Any, alphas: Any, betas: Any) -> None:
    settings: Any = {"activations": activations, "hidden_size": HIDDEN, "opset": 14}
    if alphas:
        settings["activation_alpha"] = alphas
    if betas:
        settings["activation_beta"] = betas
    inputs = inputs_of(op_type, 1, states=True)
    compare(op_type, inputs, outputs=RESULTS[op_type], **settings)


@pytest.mark.parametrize(
    "attributes",
    [
        {"direction": "sideways"},
        {"activations": ["Sigmoid"]},
        {"activations": ["Sigmoid", "Tanh", "Wave"]},
        {"activations": ["Sigmoid", "Tanh", "Gelu"]},
        {"activations": ["Sigmoid", "SiLU", "Tanh"]},
        {"activations": ["Clip", "Tanh", "Tanh"]},
        {"hidden_size": 9},
    ],
)
def test_errors(attributes: Any) -> None:
    inputs = inputs_of("LSTM", 1)
    with pytest.raises(NnefError) as error:
        graph_for(node_model("LSTM", inputs, opset=14, **attributes), inputs)
    assert error.value.errors[0].rule in ("argument/lstm", "argument/activation")


def test_the_standard_names_the_activations() -> None:
    text = str(onnx.defs.get_schema("LSTM", 22).doc)
    listed = text[text.index("Activation functions:") : text.index("Equations")]
    assert sorted(re.findall(r"^\* (\w+)\(x\)", listed, re.MULTILINE)) == sorted(RECURRENT)
