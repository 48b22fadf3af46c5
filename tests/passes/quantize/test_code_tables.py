"""Functions of codes become tables: compared with the formulas in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.options.compile_config import CompileConfig
from tests.helpers.onnx.codes import kernels_of, model_of_codes
from tests.helpers.onnx.evaluate import graph_for

Array = np.ndarray[Any, Any]

RANDOM = np.random.default_rng(10)
ONE = CompileConfig(1)
make = helper.make_node
S, T = np.array(0.037, "f4"), np.array(0.0083, "f4")


def conversions(x: str, y: str, scale: str = "s", zero: str = "z") -> list[NodeProto]:
    codes = f"{y}_codes"
    return [
        make("QuantizeLinear", [x, scale, zero], [codes]),
        make("DequantizeLinear", [codes, scale, zero], [y]),
    ]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def rounded(x: Array, scale: Array, zero: int) -> Array:
    """Reals of the codes of x, which are uint8."""
    return (np.clip(np.rint(x / np.float64(scale)) + zero, 0, 255) - zero) * np.float64(scale)


FUNCTIONS: dict[str, tuple[list[NodeProto], Callable[[Array], Array]]] = {
    "relu": ([make("Relu", ["r"], ["relu"])], lambda x: np.maximum(x, 0)),
    "relu6": ([make("Clip", ["r", "zero", "six"], ["relu6"])], lambda x: np.clip(x, 0, 6)),
    "tanh": ([make("Tanh", ["r"], ["tanh"])], np.tanh),
    "leaky": (
        [make("LeakyRelu", ["r"], ["leaky"], alpha=0.25)],
        lambda x: np.where(x < 0, 0.25 * x, x),
    ),
    "hard": (
        [make("HardSigmoid", ["r"], ["h"], alpha=1 / 6), make("Mul", ["r", "h"], ["hard"])],
        lambda x: x * np.clip(np.float32(1 / 6) * x + 0.5, 0, 1),
    ),
    "silu": (
        [
            make("Sigmoid", ["r"], ["g"]),
            *conversions("g", "gr", "t"),
            make("Mul", ["r", "gr"], ["silu"]),
        ],
        lambda x: x * rounded(sigmoid(x), T, 31),
    ),
    "viewed": (
        [
            make("Reshape", ["r", "flat"], ["f"]),
            make("Tanh", ["f"], ["flat_tanh"]),
            make("Reshape", ["flat_tanh", "back"], ["viewed"]),
        ],
        np.tanh,
    ),
    "scaled": (
        [*conversions("r", "again", "t"), make("Mul", ["again", "six"], ["scaled"])],
        lambda x: rounded(x, T, 31) * 6,
    ),
}
NAMES = list(FUNCTIONS)
SHAPE = (2, 20, 9, 12)
CONSTANTS = {
    **{"zero": np.array(0, "f4"), "six": np.array(6, "f4"), "t": T},
    **{"flat": np.array([2, -1]), "back": np.array(SHAPE)},
}


def test_functions_of_codes() -> None:
    nodes = [node for some, _ in FUNCTIONS.values() for node in some]
    pool = make("MaxPool", ["r"], ["p"], kernel_shape=[1, 2])
    nodes += [pool, *conversions("p", "pr"), make("Tanh", ["pr"], ["blocked"])]
    x = RANDOM.integers(0, 256, SHAPE).astype("u1")
    names = [*NAMES, "blocked"]
    graph = graph_for(model_of_codes(nodes, names, x, 31, CONSTANTS), [x])
    kernels = kernels_of(lower_graph(graph.clone(), ONE))
    assert not [k for k in kernels if "float" in k and not k.startswith("movement")]
    # the only element-wise kernels are those of relu and relu6: maxima and minima of codes
    assert len([k for k in kernels if k.startswith("elementwise.code_table")]) == len(names) - 2
    reals = (x.astype("f8") - 31) * np.float64(S)
    functions = [function for _, function in FUNCTIONS.values()]
    wide = np.maximum(reals[..., :-1], reals[..., 1:])
    expected = [*(f(reals) for f in functions), np.tanh(wide)]
    for name, got, want in zip(names, compile_graph(graph, ONE)(x), expected, strict=True):
        codes = np.clip(np.rint(want / np.float64(S)) + 31, 0, 255)
        np.testing.assert_array_equal(got, codes, name)
        assert len(np.unique(codes)) > 20, name


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_every_length_and_code(dtype: str) -> None:
    """Whole vectors, several of them, and the rest of a row."""
    for count in (256 + 64 + 17, 5):
        limits = np.iinfo(dtype)
        x = (np.arange(3 * count).reshape(3, count) % 256 + limits.min).astype(dtype)
        nodes = [make("Neg", ["r"], ["n"])]
        graph = graph_for(model_of_codes(nodes, ["n"], x, 3), [x])
        want = np.clip(3 - (x.astype(int) - 3), limits.min, limits.max)
        np.testing.assert_array_equal(compile_graph(graph, ONE)(x), want)
