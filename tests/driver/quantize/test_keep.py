"""Layers that stay reals, by name or for a ratio of signal to noise."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.driver.quantize.layers import layers_of
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from tests.helpers.command_line import DIGITS

Array = np.ndarray[Any, Any]
NAMES = ("conv1", "conv2", "conv3", "scores")
SAMPLES = np.random.default_rng(3).uniform(0, 1, (3, 1, 1, 8, 8)).astype(np.float32)
SAMPLES[:, ..., 0, 0] = [[40.0]]
"""A far item, which makes the step of the first codes large: conv1 is the most sensitive layer."""


def stays(graph: Graph) -> set[str]:
    """The layers whose operands are not codes."""
    return {layer.name for layer in layers_of(graph)}


def ratio(graph: Graph) -> float:
    """The ratio of the output in decibels, by the reference."""
    reals = nnefc.import_model(DIGITS)
    found = [
        np.stack([evaluate(each, {"image": x}).outputs["probabilities"] for x in SAMPLES])
        for each in (reals, graph)
    ]
    noise = np.sum((found[1] - found[0]) ** 2)
    return float(10 * np.log10(np.sum(found[0] ** 2) / noise)) if noise else np.inf


def test_named_layers_stay() -> None:
    graph = nnefc.quantize(DIGITS, SAMPLES, keep=["conv1", "scores"])
    assert stays(graph) == {"conv1", "scores"}
    assert sum(op.name == "quantize" for op in graph.ops) == 2
    assert {"conv1/filter", "conv2/filter_quantized"} <= set(graph.variables)


def test_as_few_layers_stay_as_a_ratio_needs() -> None:
    """No smaller set that begins with the most sensitive layers would do."""
    alone = {
        name: ratio(nnefc.quantize(DIGITS, SAMPLES, keep=[n for n in NAMES if n != name]))
        for name in NAMES
    }
    order = sorted(NAMES, key=lambda name: alone[name])
    kept = [list(order[:count]) for count in range(len(NAMES))]
    ratios = [ratio(nnefc.quantize(DIGITS, SAMPLES, keep=names)) for names in kept]
    assert ratios == sorted(ratios), "each layer that stays makes less noise"
    for count, (below, above) in enumerate(itertools.pairwise([ratios[0] - 2, *ratios])):
        graph = nnefc.quantize(DIGITS, SAMPLES, signal_to_noise=(below + above) / 2)
        assert stays(graph) == set(kept[count])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": ["conv9"]}, r"no layer 'conv9'[\s\S]*layers: conv1, conv2, conv3, scores"),
        ({"keep": NAMES}, "no layer is left to quantize"),
        ({"keep": "conv1"}, "keep = 'conv1': expected names"),
        ({"keep": [1]}, "expected names"),
        ({"signal_to_noise": 200}, "no layer can be quantized with 200 dB"),
        ({"signal_to_noise": float("nan")}, "expected a number of decibels"),
        ({"signal_to_noise": "much"}, "expected a number of decibels"),
    ],
)
def test_what_is_refused(options: Any, message: str) -> None:
    with pytest.raises(NnefError, match=message):
        nnefc.quantize(DIGITS, SAMPLES, **options)


def test_iterators_are_refused_with_a_ratio() -> None:
    with pytest.raises(NnefError, match="an iterator can"):
        nnefc.quantize(DIGITS, iter(SAMPLES), signal_to_noise=10)
    with pytest.raises(NnefError, match="an iterator can"):
        nnefc.quantize(DIGITS, iter(SAMPLES), correct_bias=True)
    assert nnefc.quantize(DIGITS, iter(SAMPLES))
