"""Operations that select items compute on codes: compared with onnxruntime, which selects reals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnefc.driver.compile import compile_graph
from nnefc.driver.lower_graph import lower_graph
from nnefc.options.compile_config import CompileConfig
from tests.helpers.onnx.codes import kernels_of, model_of_codes
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results

RANDOM = np.random.default_rng(8)
ONE = CompileConfig(1)
make = helper.make_node

WINDOW: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
NODES = {
    "max": make("MaxPool", ["r"], ["max"], **WINDOW),
    "wide": make("MaxPool", ["max"], ["wide"], kernel_shape=[7, 5], pads=[3, 2, 3, 2]),
    "pair": make("MaxPool", ["r"], ["pair"], kernel_shape=[2, 2], strides=[2, 2]),
    "most": make("ReduceMax", ["max"], ["most"], axes=[2, 3]),
    "least": make("ReduceMin", ["max"], ["least"], axes=[2, 3]),
    "rows": make("ReduceMax", ["max"], ["rows"], axes=[3]),
    "twice": make("Resize", ["max", "", "scales"], ["twice"], mode="nearest"),
    "joined": make("Concat", ["max", "wide"], ["joined"], axis=1),
    "turned": make("Transpose", ["r"], ["turned"], perm=[0, 2, 3, 1]),
    "flat": make("Flatten", ["max"], ["flat"]),
    "part": make("Slice", ["max", "starts", "ends", "one"], ["part"]),
    "taken": make("Gather", ["r", "indices"], ["taken"], axis=2),
    "few": make("Slice", ["r", "first", "third", "one"], ["few"]),
    "lines": make("MaxPool", ["few"], ["lines"], kernel_shape=[2, 2], strides=[1, 2]),
    "padded": make("Pad", ["r", "pads"], ["padded"]),
}
CONSTANTS = {
    "scales": np.array([1, 1, 2, 2], "f4"),
    "starts": np.array([3]),
    "ends": np.array([17]),
    "one": np.array([1]),
    "first": np.array([0]),
    "third": np.array([3]),
    "indices": np.array([4, 0, 4, 2]),
    "pads": np.array([0, 0, 1, 2, 0, 0, 0, 1]),
}


@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 31), ("int8", -128)])
def test_selections_of_codes(dtype: str, zero: int) -> None:
    names, shape = list(NODES), (2, 20, 10, 9)
    largest = np.linspace(30, 255, 20)[:, None, None]  # so that maxima differ
    x = (np.iinfo(dtype).min + RANDOM.uniform(0, largest, shape)).astype(dtype)
    proto = model_of_codes(list(NODES.values()), names, x, zero, CONSTANTS)
    graph = graph_for(proto, [x])
    program = lower_graph(graph.clone(), ONE)
    kernels = kernels_of(program)
    # movements take bytes as the widest items that fit
    computing = [k for k in kernels if not k.startswith("movement")]
    assert not [k for k in computing if "float" in k]
    assert len([k for k in computing if k.startswith("window.pooling.window('max'")]) == 3
    results = compile_graph(graph, ONE)(x)
    for name, got, want in zip(names, results, onnxruntime_results(proto, [x]), strict=True):
        assert np.ptp(want.astype(int)) > 5, name
        np.testing.assert_array_equal(got, want, name)


def test_quantization_moves_to_the_producer() -> None:
    """Quantized behind a pooling of reals, in a model whose products alone are quantized."""
    nodes = [
        make("Mul", ["x", "x"], ["square"]),
        make("MaxPool", ["square"], ["p"], **WINDOW),
        make("Transpose", ["p"], ["t"], perm=[0, 2, 3, 1]),
        make("QuantizeLinear", ["t", "s", "z"], ["y"]),
    ]
    constants = {"s": np.array(0.03, "f4"), "z": np.array(7, "u1")}
    x = RANDOM.normal(size=(1, 32, 12, 12)).astype("f4")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(items, name) for name, items in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=opset, ir_version=8)
    built = graph_for(proto, [x])
    program = lower_graph(built.clone(), ONE)
    assert any(k.startswith("window.pooling.window('max', 'uint8'") for k in kernels_of(program))
    (want,) = onnxruntime_results(proto, [x])
    np.testing.assert_array_equal(compile_graph(built, ONE)(x), want)
