"""Bias correction: the mean of each channel stays, in NumPy's float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.ir import Graph
from nnefc.ops.core.known_items import known_items
from nnefc.ops.tools.reference import evaluate
from tests.helpers.command_line import DIGITS

Array = np.ndarray[Any, Any]


def items(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).gamma(0.5, size=shape).astype(np.float32)


def values(graph: Graph, samples: Array, name: str) -> Array:
    """The values of a tensor for all samples, by the reference."""
    (key,) = {value.name for value in graph.inputs}
    found = [evaluate(graph, {key: x}, keep="all").values for x in samples]
    return np.concatenate([{v.name: a for v, a in each.items()}[name] for each in found])


def bias_scales(graph: Graph, name: str) -> Array:
    """The scales of the codes of the bias of a layer, for each channel."""
    (layer,) = (op for op in graph.ops if op.outputs[0].name == name)
    dequantize = layer.inputs[2].op
    assert dequantize is not None
    scales = known_items(dequantize.inputs[1])
    assert scales is not None
    return scales.reshape(-1)


@pytest.mark.parametrize(
    ("layer", "filter_", "bias"),
    [
        ("conv(x, w, b)", (6, 4, 3, 3), (1, 6)),
        ("conv(x, w, b, groups = 0)", (4, 1, 3, 3), (1, 1)),
        ("deconv(x, w, b, groups = 2)", (4, 3, 3, 3), (1, 6)),
        ("conv(x, w, 0.5)", (6, 4, 3, 3), None),
    ],
)
def test_means_of_channels_stay(tmp_path: Path, layer: str, filter_: Any, bias: Any) -> None:
    stored = f"b = variable(shape = {list(bias)}, label = 'b');" if bias else ""
    (tmp_path / "graph.nnef").write_text(
        f"""version 1.0; graph net(x) -> (y) {{ x = external(shape = [1,4,5,5]); {stored}
        w = variable(shape = {list(filter_)}, label = 'w'); y = {layer}; }}"""
    )
    nnefc.write_tensor(tmp_path / "w.dat", items(*filter_, seed=1))
    if bias:
        nnefc.write_tensor(tmp_path / "b.dat", items(*bias, seed=2))
    samples = items(5, 1, 4, 5, 5, seed=3)
    reals = values(nnefc.import_model(tmp_path), samples, "y").mean(axis=(0, 2, 3))
    means = [
        values(nnefc.quantize(tmp_path, samples, correct_bias=flag), samples, "y").mean((0, 2, 3))
        for flag in (False, True)
    ]
    assert np.abs(means[0] - reals).max() > 1e-3, "rounding changes the means"
    corrected = nnefc.quantize(tmp_path, samples, correct_bias=True)
    scales = bias_scales(corrected, "y")
    assert (np.abs(means[1] - reals) <= scales / 2 + 1e-5).all(), "biases are whole codes"


def test_each_layer_takes_back_its_own_error() -> None:
    """The error of a layer is that of its rounded operands with exact layers before it."""
    samples = items(4, 1, 1, 8, 8, seed=4)
    reals = nnefc.import_model(DIGITS)
    corrected = nnefc.quantize(DIGITS, samples, correct_bias=True)
    names = ("conv1", "conv2", "conv3", "scores")
    for name in names:
        others = [each for each in names if each != name]
        alone = nnefc.quantize(DIGITS, samples, keep=others)
        axes = (0,) if name == "scores" else (0, 2, 3)
        error = (values(alone, samples, name) - values(reals, samples, name)).mean(axis=axes)
        label = "linear/bias" if name == "scores" else f"{name}/bias"
        before = reals.variables[label].data
        codes = corrected.variables[f"{label}_quantized"].data
        assert before is not None
        assert codes is not None
        # both biases are whole codes
        scales = bias_scales(corrected, name)
        assert (np.abs(codes[0] * scales - (before[0] - error)) <= scales + 1e-5).all()
    assert not {"conv1/bias", "linear/bias"} & set(corrected.variables)


def test_layers_that_stay_keep_their_biases() -> None:
    samples = items(4, 1, 1, 8, 8, seed=4)
    options: dict[str, Any] = {"correct_bias": True, "keep": ["conv2"]}
    for ratio in (None, 1.0):
        graph = nnefc.quantize(DIGITS, samples, signal_to_noise=ratio, **options)
        biases = {label for label in graph.variables if "bias" in label}
        corrected = {f"{name}/bias_quantized" for name in ("conv1", "conv3", "linear")}
        assert biases == {*corrected, "conv2/bias"}


def test_matrix_products_have_no_bias(tmp_path: Path) -> None:
    (tmp_path / "graph.nnef").write_text(
        "version 1.0; graph net(x) -> (y) { x = external(shape = [2,3]); "
        "w = variable(shape = [3,4], label = 'w'); y = matmul(x, w); }"
    )
    nnefc.write_tensor(tmp_path / "w.dat", items(3, 4, seed=5))
    graphs = [nnefc.quantize(tmp_path, items(2, 3, seed=6), correct_bias=f) for f in (False, True)]
    assert str(graphs[0]) == str(graphs[1])
