"""Products between dequantizations: compiled codes against exact arithmetic of the QDQ formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.options.compile_config import CompileConfig
from tests.helpers.onnx.evaluate import graph_for

ROWS, DEPTH, COLUMNS = 24, 150, 40
RANDOM = np.random.default_rng(5)
ONE = CompileConfig(1)


def model(placement: str, nodes: dict[str, Any], *, trained: bool) -> Any:
    """x -> Q -> DQ -> product with DQ(w) -> bias -> relu -> Q; as front ends of `placement`.

    `trained`: weights are reals that the model quantizes.
    """
    make = helper.make_node
    middle = {
        "matmul": [make("MatMul", ["xr", "wr"], ["p"]), make("Add", ["p", "bias"], ["b"])],
        "gemm": [make("Gemm", ["xr", "wr", "bias"], ["b"], transB=1)],
        "transposed": [
            make("Transpose", ["wr"], ["wt"], perm=[1, 0]),
            make("MatMul", ["xr", "wt"], ["p"]),
            make("Add", ["p", "bias"], ["b"]),
        ],
    }[placement]
    axis = 1 if placement == "matmul" else 0
    every = [
        make("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        make("DequantizeLinear", ["xq", "xs", "xz"], ["xr"]),
        *([make("QuantizeLinear", ["reals", "ws", "wz"], ["w"], axis=axis)] if trained else []),
        make("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=axis),
        make("DequantizeLinear", ["bq", "bs", "bz"], ["bias"], axis=0),
        *middle,
        make("Relu", ["b"], ["r"]),
        make("QuantizeLinear", ["r", "ys", "yz"], ["y"]),
    ]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, DEPTH]),
        helper.make_tensor_value_info("y", TensorProto.UINT8, [ROWS, COLUMNS]),
    ]
    constants = [numpy_helper.from_array(value, name) for name, value in nodes.items()]
    graph = helper.make_graph(every, "g", ports[:1], ports[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("placement", ["matmul", "gemm", "transposed"])
def test_rounding_to_codes(placement: str, dtype: str, trained: bool) -> None:
    w = RANDOM.integers(-128, 128, (DEPTH, COLUMNS)).astype("i1")
    ws = RANDOM.uniform(0.001, 0.02, COLUMNS).astype("f4")
    bias = RANDOM.integers(-9000, 9000, COLUMNS).astype("i4")
    x = RANDOM.normal(0, 1, (ROWS, DEPTH)).astype("f4")
    xs, ys, xz = np.array(0.031, "f4"), np.array(0.17, "f4"), np.array(37, dtype)
    stored, scales = (w, ws) if placement == "matmul" else (np.ascontiguousarray(w.T), ws[:, None])
    weights = {"reals": (stored * scales).astype("f4")} if trained else {"w": stored}
    zeros = {"wz": np.zeros(COLUMNS, "i1"), "bz": np.zeros(COLUMNS, "i4")}
    made = model(
        placement,
        weights
        | {"ws": ws, "bq": bias, "bs": ws * xs, "xs": xs, "xz": xz}
        | zeros
        | {"ys": ys, "yz": np.array(11, "u1")},
        trained=trained,
    )
    graph = graph_for(made, [x])
    program = lower_graph(graph, ONE)
    assert any("code_matmul" in k.family for each in program.launches for k in each.kernels)
    y = compile_graph(graph, ONE)(x)

    limits = np.iinfo(dtype)
    codes = np.clip(np.rint(x / xs) + xz, limits.min, limits.max)  # in float32, as in ONNX
    sums = (codes.astype("i8") - int(xz)) @ w.astype("i8") + bias
    reals = np.maximum(sums * (np.float64(xs) * ws.astype("f8")), 0)
    expected = np.clip(np.rint(reals / np.float64(ys)) + 11, 0, 255)
    difference = np.abs(np.asarray(y, "i8") - expected)
    assert difference.max() <= 1
    assert np.mean(difference > 0) <= 0.001
    assert len(np.unique(expected)) > 50


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_codes_survive_conversion_to_reals_and_back(dtype: str) -> None:
    """The premise of `cancel_quantizations`, in float32 as kernels compute."""
    limits = np.iinfo(dtype)
    codes = np.arange(limits.min, limits.max + 1, dtype=np.float32)
    for scale in 2.0 ** RANDOM.uniform(-140, 99, 50):
        for zero in (limits.min, limits.max, 0):
            units = (codes - np.float32(zero)) * np.float32(scale) / np.float32(scale)
            np.testing.assert_array_equal(np.rint(units) + zero, codes)
