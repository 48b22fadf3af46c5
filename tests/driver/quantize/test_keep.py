"""Layers that stay reals: by name, for a ratio of signal to noise, or for a loss."""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# (arrays of any type)

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from nnefc.cli.digits import HELD_OUT, IMAGES
from nnefc.driver.quantize.layers import layers_of
from nnefc.driver.quantize.samples import read_samples
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from tests.helpers.command_line import DIGITS

Array = np.ndarray[Any, Any]
NAMES = ("conv1", "conv2", "conv3", "scores")
SAMPLES = np.random.default_rng(3).uniform(0, 1, (3, 1, 1, 8, 8)).astype(np.float32)
SAMPLES[:, ..., 0, 0] = [[40.0]]
"""A far item, which makes the step of the first codes large: conv1 is the most sensitive layer."""

PICTURES = np.load(HELD_OUT)["images"][:30, None, None] / np.float32(16)


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


def test_layers_are_not_kept_for_noise_that_cancels() -> None:
    """conv3 alone does, though conv1 and conv2, which make more noise alone, do not."""
    reals = nnefc.import_model(DIGITS)
    images = [sample["image"] for sample in read_samples(IMAGES, reals.inputs)]
    expected = [evaluate(reals, {"image": x}).outputs["probabilities"] for x in images]

    def decibels(graph: Graph) -> float:
        found = [evaluate(graph, {"image": x}).outputs["probabilities"] for x in images]
        noise = np.sum((np.stack(found) - np.stack(expected)) ** 2)
        return float(10 * np.log10(np.sum(np.square(expected)) / noise))

    kept = [["conv1", "conv2"], ["conv3"], ["conv1", "conv2", "conv3"]]
    ratios = [decibels(nnefc.quantize(DIGITS, IMAGES, keep=names)) for names in kept]
    assert ratios[0] < 55 < ratios[1] < ratios[2]
    assert stays(nnefc.quantize(DIGITS, IMAGES, signal_to_noise=55)) == {"conv3"}


def losses(graph: Graph, measure: str) -> float:
    """The loss of the output in percent, by the reference."""
    a, b = (
        np.stack([evaluate(each, {"image": x}).outputs["probabilities"] for x in SAMPLES])
        for each in (nnefc.import_model(DIGITS), graph)
    )
    if measure == "top-1":
        return 100 * float(np.mean(a.argmax(2) != b.argmax(2)))
    if measure == "psnr":
        return 100 * float(np.sqrt(np.mean((a - b) ** 2)) / np.ptp(a))
    lengths = np.linalg.norm(a, axis=2) * np.linalg.norm(b, axis=2)
    products = np.sum(a * b, axis=2)
    return 100 * float(np.mean(1 - products / lengths))


@pytest.mark.parametrize("measure", ["cosine", "psnr"])
def test_as_few_layers_stay_as_a_loss_needs(measure: str) -> None:
    alone = {
        name: losses(nnefc.quantize(DIGITS, SAMPLES, keep=[n for n in NAMES if n != name]), measure)
        for name in NAMES
    }
    order = sorted(NAMES, key=lambda name: -alone[name])
    kept = [list(order[:count]) for count in range(len(NAMES))]
    found = [losses(nnefc.quantize(DIGITS, SAMPLES, keep=names), measure) for names in kept]
    assert found == sorted(found, reverse=True), "each layer that stays costs less"
    for count, (above, below) in enumerate(itertools.pairwise([2 * found[0], *found])):
        bound = f"{(above + below) / 2:.12f}%"
        graph = nnefc.quantize(DIGITS, SAMPLES, keep=bound, measure=measure)  # pyright: ignore[reportArgumentType]
        assert stays(graph) == set(kept[count])


def test_classes_stay_the_same_for_a_bound() -> None:
    """Codes of a far wider range than the pictures have lose classes."""
    rough = {"activations": "int8", "observer": "min-max"}
    samples = np.concatenate([PICTURES, np.full((1, 1, 1, 8, 8), 250.0, np.float32)])
    expected = classes(nnefc.import_model(DIGITS), samples)
    lost = [
        float(np.mean(classes(graph, samples) != expected))
        for graph in (
            nnefc.quantize(DIGITS, samples, **rough),  # pyright: ignore[reportArgumentType]
            nnefc.quantize(DIGITS, samples, keep=["10%"], **rough),  # pyright: ignore[reportArgumentType]
        )
    ]
    assert lost[0] > 0.1
    assert lost[1] <= 0.1


def test_a_bound_and_names_are_kept_together() -> None:
    assert stays(nnefc.quantize(DIGITS, SAMPLES, keep=["99%", "conv2"])) == {"conv2"}


def classes(graph: Graph, samples: Array) -> Array:
    """The first class of each sample, by the reference."""
    found = [evaluate(graph, {"image": x}).outputs["probabilities"].argmax() for x in samples]
    return np.array(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": "5 percent"}, "expected names"),
        ({"keep": "x%"}, "a bound must be at least 0% and below 100%"),
        ({"keep": ["-1%"]}, "a bound must be at least 0% and below 100%"),
        ({"keep": ["1%", "2%"]}, "only one bound"),
        ({"keep": "1%", "signal_to_noise": 30}, "only one bound"),
        ({"keep": "0%", "measure": "cosine"}, "no layer can be quantized with 0%"),
        ({"measure": "top-5"}, "measure = 'top-5': must be one of 'top-1', 'cosine', 'psnr'"),
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
        nnefc.quantize(DIGITS, iter(SAMPLES), keep="1%")
    with pytest.raises(NnefError, match="an iterator can"):
        nnefc.quantize(DIGITS, iter(SAMPLES), signal_to_noise=10)
    with pytest.raises(NnefError, match="an iterator can"):
        nnefc.quantize(DIGITS, iter(SAMPLES), correct_bias=True)
    assert nnefc.quantize(DIGITS, iter(SAMPLES))
