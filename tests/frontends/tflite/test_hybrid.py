"""Layers of reals with weights of 8 or 4 bits, compared with LiteRT."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.support.errors import NnefError
from tests.frontends.tflite.test_operators import fixed, lstm_inputs, real
from tests.helpers.tflite.one_operator import (
    Array,
    Case,
    Constant,
    Variable,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
    source_of,
)

RNG = np.random.default_rng(27)
WINDOW = {"padding": 0, "stride_w": 1, "stride_h": 2}


def reals(*shape: int) -> Array:
    """Drawn by this module alone, so that cases of other modules do not change these."""
    return RNG.standard_normal(shape).astype(np.float32)


def codes(*shape: int) -> Constant:
    return Constant(RNG.integers(-127, 128, shape).astype(np.int8))


def scales(count: int = 1, axis: int = 0) -> dict[str, Any]:
    values = tuple(float(each) for each in RNG.uniform(0.001, 0.01, count))
    return {"scale": values, "zero_point": (0,) * count, "quantized_dimension": axis}


def images(*shape: int) -> Array:
    """Images of different brightness, so that each has a scale and zero point of its own."""
    factors = np.arange(1, shape[0] + 1, dtype=np.float32).reshape(-1, 1, 1, 1)
    return (reals(*shape) + 0.5) * factors


def fully_connected(count: int, *, asymmetric: bool, of_4_bits: bool = False) -> Case:
    weights = codes(6, 24)
    if of_4_bits:
        weights = Constant(weights.array >> 4, of_4_bits=True)
    inputs = [reals(5, 24), weights, Constant(reals(6))]
    options = {"fused_activation_function": 1, "asymmetric_quantize_inputs": asymmetric}
    name, table = "FULLY_CONNECTED", "FullyConnectedOptions"
    return Case(name, inputs, [real(5, 6)], table, options, 9, {1: scales(count)})


def conv(count: int, padding: int, *, groups: int = 1) -> Case:
    inputs = [images(2, 7, 8, 4), codes(6, 3, 2, 4 // groups), Constant(reals(6))]
    shape = (2, 4, 8, 6) if not padding else (2, 3, 7, 6)
    options = {**WINDOW, "padding": padding}
    return Case("CONV_2D", inputs, [real(*shape)], "Conv2DOptions", options, 5, {1: scales(count)})


def depthwise(padding: int) -> Case:
    inputs = [images(2, 7, 8, 3), codes(1, 3, 2, 6), Constant(reals(6))]
    shape = (2, 4, 8, 6) if not padding else (2, 3, 7, 6)
    options = {**WINDOW, "padding": padding, "depth_multiplier": 2, "stride_h": 2}
    options["stride_w"] = options["stride_h"]
    shape = (2, 4, 4, 6) if not padding else (2, 3, 4, 6)
    name, table = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
    return Case(name, inputs, [real(*shape)], table, options, 6, {1: scales(6, 3)})


def batch_matmul(*, asymmetric: bool, turned: bool) -> Case:
    weights = codes(2, 5, 8) if turned else codes(2, 8, 5)
    options = {"adj_y": turned, "asymmetric_quantize_inputs": asymmetric}
    inputs = [reals(2, 3, 8), weights]
    return Case(
        "BATCH_MATMUL", inputs, [real(2, 3, 5)], "BatchMatMulOptions", options, 4, {1: scales()}
    )


def quantized(given: list[Any], *, matrices: set[int], first: int) -> tuple[list[Any], Any]:
    """Inputs of a layer, of which some become codes, and their scales by position."""
    made: list[Any] = []
    found: dict[int, Any] = {}
    place = first
    for i, each in enumerate(given):
        if isinstance(each, Constant) and i in matrices:
            made.append(codes(*each.array.shape))
            found[place] = scales()
        else:
            made.append(each)
        place += each is not None
    return made, found


LSTM_MATRICES = {*range(11), 15}


def lstm(name: str, steps: tuple[int, ...], *, asymmetric: bool, **kind: bool) -> Case:
    table = "LSTMOptions" if name == "LSTM" else "UnidirectionalSequenceLSTMOptions"
    given, found = quantized(lstm_inputs(**kind), matrices=LSTM_MATRICES, first=1)
    options = {"fused_activation_function": 4, "asymmetric_quantize_inputs": asymmetric}
    units = 2 if kind["projection"] else 4
    inputs = [reals(2, *steps, 3), *given]
    return Case(name, inputs, [real(2, *steps, units)], table, options, 3, found)


def bidirectional() -> Case:
    kinds = {"cifg": True, "peephole": True, "projection": True, "normalized": False}
    layers = [lstm_inputs(**kinds) for _ in range(2)]
    weights = [each for layer in layers for each in layer[:17]]
    states = [each for layer in layers for each in layer[17:19]]
    matrices = LSTM_MATRICES | {17 + i for i in LSTM_MATRICES}
    given, found = quantized(weights, matrices=matrices, first=1)
    options = {"fused_activation_function": 4, "merge_outputs": True, "time_major": True}
    return Case(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        [reals(5, 2, 3), *given, *states, *[None] * 9],
        [real(5, 2, 4)],
        "BidirectionalSequenceLSTMOptions",
        options,
        3,
        found,
    )


def rnn(name: str, steps: tuple[int, ...], *, asymmetric: bool) -> Case:
    table = "RNNOptions" if name == "RNN" else "SequenceRNNOptions"
    inputs = [reals(2, *steps, 3), codes(4, 3), codes(4, 4), Constant(reals(4)), Variable((2, 4))]
    options = {"fused_activation_function": 4, "asymmetric_quantize_inputs": asymmetric}
    found = {1: scales(), 2: scales()}
    return Case(name, inputs, [real(2, *steps, 4)], table, options, 3, found)


def svdf(*, asymmetric: bool) -> Case:
    inputs = [reals(2, 3), codes(8, 3), codes(8, 5), Constant(reals(4)), Variable((2, 40))]
    options = {"rank": 2, "asymmetric_quantize_inputs": asymmetric}
    found = {1: scales(), 2: scales()}
    return Case("SVDF", inputs, [real(2, 4)], "SVDFOptions", options, 4, found)


PLAIN = {"cifg": False, "peephole": False, "projection": False, "normalized": False}
FULL = {"cifg": False, "peephole": True, "projection": True, "normalized": True}


def of_old_files(case: Case) -> Case:
    """The case with weights of int8 that are stored as uint8."""
    x, weights, *rest = case.inputs
    return replace(case, inputs=[x, Constant(weights.array.view(np.uint8)), *rest])


def narrow(case: Case) -> Case:
    """The case with weights of 4 bits."""
    x, weights, *rest = case.inputs
    return replace(case, inputs=[x, Constant(weights.array >> 4, of_4_bits=True), *rest], version=7)


CASES = [
    of_old_files(fully_connected(1, asymmetric=True)),
    narrow(conv(1, 0)),
    narrow(conv(6, 1)),
    conv(6, 0, groups=2),
    *(fully_connected(n, asymmetric=each) for n in (1, 6) for each in (False, True)),
    *(fully_connected(1, asymmetric=each, of_4_bits=True) for each in (False, True)),
    *(conv(count, padding) for count in (1, 6) for padding in (0, 1)),
    *map(depthwise, (0, 1)),
    *(
        batch_matmul(asymmetric=each, turned=turned)
        for each in (False, True)
        for turned in (False, True)
    ),
    *(
        Case("EMBEDDING_LOOKUP", [fixed([2, 0, 1]), codes(4, 5)], [real(3, 5)], codes={1: each})
        for each in (scales(), scales(4))
    ),
    *(
        lstm(name, steps, asymmetric=each, **kind)
        for name, steps in (("LSTM", ()), ("UNIDIRECTIONAL_SEQUENCE_LSTM", (4,)))
        for each in (False, True)
        for kind in (PLAIN, FULL)
    ),
    bidirectional(),
    *(
        rnn(name, steps, asymmetric=each)
        for name, steps in (("RNN", ()), ("UNIDIRECTIONAL_SEQUENCE_RNN", (4,)))
        for each in (False, True)
    ),
    *(svdf(asymmetric=each) for each in (False, True)),
]


def largest_difference(ours: Array, theirs: Array) -> float:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_those_of_litert(case: Case) -> None:
    """Rows are rounded as by LiteRT: products of unrounded reals are 100 times as far away."""
    content = content_of(case)
    (expected,) = litert_results(content, [inputs_of(case)])
    for ours, theirs in zip(reference_results(content, inputs_of(case)), expected, strict=True):
        assert largest_difference(ours, theirs) < 2e-6


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_compiled_layers_round_alike(case: Case, tmp_path: Path) -> None:
    """Codes are rounded in float32 and zero points in float64, as LiteRT does."""
    content = content_of(case)
    path = tmp_path / "net.tflite"
    path.write_bytes(content)
    model: Any = nnefc.compile(path, keep=False)
    ((expected,),) = litert_results(content, [inputs_of(case)])
    assert largest_difference(model(*inputs_of(case)), expected) < 1e-6


def test_an_input_of_zeros_gives_the_bias() -> None:
    for asymmetric in (False, True):
        case = fully_connected(6, asymmetric=asymmetric)
        zeros = replace(case, inputs=[np.zeros((5, 24), np.float32), *case.inputs[1:]])
        content = content_of(zeros)
        (expected,) = litert_results(content, [inputs_of(zeros)])
        np.testing.assert_array_equal(reference_results(content, inputs_of(zeros)), expected)


@pytest.mark.parametrize(
    ("weights", "given", "message"),
    [
        (codes(6, 24), {"scale": (0.1,), "zero_point": (3,)}, "has the zero point 3"),
        (codes(6, 24), {}, "tensor 1 't1' has no scale"),
        (codes(6, 24), scales(5), "it has 5 scales along dimension 0"),
        (Constant(np.ones((6, 24), np.int32)), scales(), "has items of INT32 for reals"),
    ],
)
def test_errors_name_the_weights(weights: Constant, given: Any, message: str) -> None:
    case = fully_connected(1, asymmetric=False)
    wrong = replace(case, inputs=[case.inputs[0], weights, case.inputs[2]], codes={1: given})
    with pytest.raises(NnefError) as caught:
        source_of(content_of(wrong)).graph({})
    assert message in str(caught.value)
    assert "tensor 1 't1'" in str(caught.value)
