"""Attention of codes: projections, heads, softmax and products, compared with float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.options.compile_config import CompileConfig
from tests.helpers.onnx.codes import kernels_of, model_of_codes
from tests.helpers.onnx.evaluate import graph_for, reference_results

Array = np.ndarray[Any, Any]

TOKENS, WIDTH, HEADS = 37, 48, 3
ORDERS = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
ROUNDINGS = 6
"""Roundings of a result and of what it is computed from: each may differ in 0.1 % of its items."""
make = helper.make_node


def conversions(x: str, y: str, scale: str) -> list[Any]:
    return [
        make("QuantizeLinear", [x, scale, "z"], [f"{y}_codes"]),
        make("DequantizeLinear", [f"{y}_codes", scale, "z"], [y]),
    ]


def attention() -> tuple[list[Any], dict[str, Array]]:
    """The nodes from r to y, as quantizers write them, and their constants."""
    random = np.random.default_rng(2)
    constants: dict[str, Array] = {
        **{"split": np.array([2, TOKENS, HEADS, -1]), "join": np.array([2, TOKENS, WIDTH])},
        **{"ps": np.array(1 / 200, "f4"), "hs": np.array(0.051, "f4"), "ws": np.array(0.01, "f4")},
        **{"scores": np.array(0.09, "f4"), "ys": np.array(0.013, "f4"), "wz": np.array(0, "i1")},
        "root": np.array(0.125, "f4"),
    }
    nodes: list[Any] = []
    for name in ("q", "k", "v"):
        constants[f"w{name}"] = random.integers(-127, 128, (WIDTH, WIDTH)).astype("i1")
        nodes += [
            make("DequantizeLinear", [f"w{name}", "ws", "wz"], [f"w{name}_real"]),
            make("MatMul", ["r", f"w{name}_real"], [f"{name}1"]),
            *conversions(f"{name}1", f"{name}2", "hs"),
            make("Reshape", [f"{name}2", "split"], [f"{name}3"]),
            *conversions(f"{name}3", f"{name}4", "hs"),
            make("Transpose", [f"{name}4"], [name], perm=ORDERS[name]),
        ]
    nodes += [
        make("MatMul", ["q", "k"], ["s1"]),
        make("Mul", ["s1", "root"], ["s2"]),
        *conversions("s2", "s3", "scores"),
        make("Softmax", ["s3"], ["p1"], axis=-1),
        *conversions("p1", "p", "ps"),
        make("MatMul", ["p", "v"], ["h1"]),
        *conversions("h1", "h2", "ys"),
        make("Transpose", ["h2"], ["h3"], perm=[0, 2, 1, 3]),
        make("Reshape", ["h3", "join"], ["y"]),
    ]
    return nodes, constants


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_attention_is_computed_on_codes(dtype: str) -> None:
    limits, zero = np.iinfo(dtype), 100 if dtype == "uint8" else -20
    x = np.random.default_rng(5).integers(limits.min, limits.max, (2, TOKENS, WIDTH), dtype)
    nodes, constants = attention()
    graph = graph_for(model_of_codes(nodes, ["y"], x, zero, constants), [x])
    (want,) = reference_results(graph, [x])
    kernels = kernels_of(lower_graph(graph.clone(), CompileConfig(1)))
    assert len([k for k in kernels if k.startswith("reduce.code_softmax")]) == 1
    products = ("product.code_matmul", "product.matrix_code_matmul")
    assert len([k for k in kernels if k.startswith(products)]) == 5
    assert not [k for k in kernels if k.startswith(("product.matmul", "reduce.softmax"))]
    got = compile_graph(graph, CompileConfig(1))(x)
    np.testing.assert_array_equal(compile_graph(graph, CompileConfig(2))(x), got)
    difference = np.abs(got.astype(np.int64) - want.astype(np.int64))
    assert difference.max() <= 1
    assert np.mean(difference > 0) <= 0.001 * ROUNDINGS
    assert len(np.unique(got)) > 30
