"""Layers of long short-term memory of int8, compared with LiteRT over several calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.frontends.tflite.tables_of_int16 import logistic_table, tanh_table
from nnefc.support.errors import NnefError
from tests.frontends.tflite.test_codes import I8, codes, scaled
from tests.helpers.tflite.one_operator import (
    Case,
    Constant,
    Variable,
    content_of,
    inputs_of,
    litert_results,
    source_of,
)
from tests.helpers.tflite.packages import files_of, save_folder

RNG = np.random.default_rng(31)
UNITS, DEPTH = 4, 3


def weights(*shape: int) -> Constant:
    return Constant(RNG.integers(-127, 128, shape).astype(np.int8))


def biases(count: int) -> Constant:
    return Constant(RNG.integers(-3000, 3000, count).astype(np.int32))


def coefficients() -> Constant:
    return Constant(RNG.integers(-32767, 32768, UNITS).astype(np.int16))


def layer(
    *,
    cifg: bool = False,
    projection: bool = False,
    peepholes: bool = False,
    normalized: bool = False,
    time_major: bool = False,
    clip: float = 0.0,
    depth: int = DEPTH,
    entry: dict[str, Any] | None = None,
) -> Case:
    """`entry`: the quantization of the input."""
    outputs = 2 if projection else UNITS
    gates = range(1 if cifg else 0, 4)
    given: list[Any] = [None] * 24
    for gate in gates:
        given[1 + gate] = weights(UNITS, depth)
        given[5 + gate] = weights(UNITS, outputs)
        given[12 + gate] = biases(UNITS)
        if normalized:
            given[20 + gate] = coefficients()
        if peepholes and gate != 2:
            given[(9, 10, 0, 11)[gate]] = coefficients()
    if projection:
        given[16], given[17] = weights(outputs, UNITS), biases(outputs)
    given[0] = codes(I8, *((5, 2) if time_major else (2, 5)), depth)
    given[18] = Variable((2, outputs), I8)
    given[19] = Variable((2, UNITS), "INT16")
    numbers = {0: entry or scaled(0.02, 5), 18: scaled(0.009, -7), 19: scaled(2.0**-11)}
    numbers |= {i: scaled(float(RNG.uniform(0.005, 0.02))) for i in (*range(1, 9), 16)}
    numbers |= {i: scaled(float(RNG.uniform(2e-5, 3e-4))) for i in (*range(9, 12), *range(20, 24))}
    present = [i for i, each in enumerate(given) if each is not None]
    quantization = {place: numbers[i] for place, i in enumerate(present) if i in numbers}
    quantization[len(present)] = numbers[18]
    hidden = scaled(0.008, 3) if projection else numbers[18]
    sums = [scaled(float(RNG.uniform(1e-4, 4e-4))) for _ in range(4)]
    between = [((0,), "INT16", each) for each in sums] + [((0,), I8, hidden)]
    return Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        given,
        [((*given[0].shape[:2], outputs), I8)],
        "UnidirectionalSequenceLSTMOptions",
        {
            "fused_activation_function": 4,
            "cell_clip": clip,
            "proj_clip": clip / 2,
            "time_major": time_major,
        },
        3,
        quantization,
        intermediates=between,
    )


def single(of: Case) -> Case:
    """One step of a layer."""
    shape = of.outputs[0][0]
    inputs = [of.inputs[0][:, 0], *of.inputs[1:]]
    values = {name: value for name, value in of.values.items() if name != "time_major"}
    outputs = [((shape[0], shape[2]), I8)]
    return replace(
        of, name="LSTM", inputs=inputs, outputs=outputs, options="LSTMOptions", values=values
    )


CASES = [
    single(layer(projection=True, peepholes=True, normalized=True)),
    layer(),
    layer(peepholes=True),
    layer(normalized=True, clip=0.5),
    layer(cifg=True, projection=True, peepholes=True, normalized=True, clip=0.5),
    layer(cifg=True, projection=True, peepholes=True, time_major=True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_those_of_litert(case: Case, tmp_path: Path) -> None:
    content = content_of(case)
    path = tmp_path / "net.tflite"
    path.write_bytes(content)
    model: Any = nnefc.compile(path, keep=False)
    session = model.session()
    calls = [[codes(I8, *case.inputs[0].shape)] for _ in range(3)]
    every = litert_results(content, calls)
    assert len(np.unique(every)) > 6
    for inputs, (expected,) in zip(calls, every, strict=True):
        np.testing.assert_array_equal(session(*inputs), expected)


def without(case: Case, absent: int) -> Case:
    """The model without an input."""
    position = sum(each is not None for each in case.inputs[:absent])
    inputs = [None if i == absent else each for i, each in enumerate(case.inputs)]
    moved = {i - (i > position): each for i, each in case.codes.items() if i != position}
    return replace(case, inputs=inputs, codes=moved)


def basic(state: dict[str, Any]) -> Case:
    """A step of the basic kernel of uint8."""
    rows, depth, units = 8, 12, 16
    given = [
        *(codes("UINT8", rows, each) for each in (depth, units)),
        Constant(codes("UINT8", 4 * units, depth + units)),
        Constant(RNG.integers(-3000, 3000, 4 * units).astype(np.int32)),
        codes("INT16", rows, units),
    ]
    of_codes = scaled(1 / 128, 128)
    scales = [of_codes, of_codes, scaled(0.02, 131), scaled(0.02 / 128), state]
    scales += [of_codes, state, of_codes, scaled(2.0**-12)]
    results = [((rows, units), "UINT8"), ((rows, units), "INT16")]
    results += [((rows, depth + units), "UINT8"), ((rows, 4 * units), "INT16")]
    options = {"kernel_type": 1, "fused_activation_function": 4}
    return Case("LSTM", given, results, "LSTMOptions", options, 2, dict(enumerate(scales)))


def test_the_basic_kernel_has_the_results_of_litert(tmp_path: Path) -> None:
    case = basic(scaled(2.0**-11))
    content = content_of(case)
    (tmp_path / "net.tflite").write_bytes(content)
    model: Any = nnefc.compile(tmp_path / "net.tflite", keep=False)
    (expected,) = litert_results(content, [inputs_of(case)])
    assert all(len(np.unique(each)) > 30 for each in expected)
    for y, theirs in zip(model(*inputs_of(case)), expected, strict=True):
        np.testing.assert_array_equal(y, theirs)


def test_joined_models_keep_the_scales_inside(tmp_path: Path) -> None:
    first = layer()
    second = layer(projection=True, depth=UNITS, entry=scaled(0.009, -7))
    models = {"a": content_of(first), "b": content_of(second)}
    manifest = {
        "models": ["a", "b"],
        "pkg-inputs": ["0:0:0"],
        "pkg-outputs": ["1:0:0"],
        "model-connect": [{"from": "0:0:0", "to": ["1:0:0"]}],
    }
    path = save_folder(files_of(manifest, models), tmp_path)
    model: Any = nnefc.compile(path, keep=False)
    x = codes(I8, 2, 5, DEPTH)
    ((between,),) = litert_results(models["a"], [[x]])
    ((expected,),) = litert_results(models["b"], [[between]])
    np.testing.assert_array_equal(model.session()(x), expected)


def test_functions_of_16_bits_are_near_those_of_reals() -> None:
    x = np.arange(-32768, 32768) / 4096
    np.testing.assert_allclose(logistic_table() / 32768, 1 / (1 + np.exp(-x)), atol=3e-4)
    for bits in (0, 3, 4):
        wide = np.arange(-32768, 32768) / 2 ** (15 - bits)
        np.testing.assert_allclose(tanh_table(bits) / 32768, np.tanh(wide), atol=5e-4)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (basic(scaled(0.001)), "a state with the scale 1/2048"),
        (replace(layer(), intermediates=()), "its intermediate tensors are missing"),
        (without(layer(peepholes=True), 9), "no input 9, where INT16 is expected"),
        (without(layer(normalized=True), 23), "no input 23, where INT16 is expected"),
        (replace(layer(), values={"cell_clip": -1.0}), "the limits -1.0 and 0"),
        (replace(layer(), codes={**layer().codes, 14: scaled(0.003)}), "no power of 2"),
    ],
)
def test_errors_name_the_operator(case: Case, message: str) -> None:
    with pytest.raises(NnefError, match="operator 0") as caught:
        source_of(content_of(case)).graph({})
    assert message in str(caught.value)
