"""Computations on shapes stay symbolic: one graph holds for many extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import nnefc
from nnefc.onnx import InferenceSession
from nnefc.symbolic.integers import Trace, is_symbolic
from tests.helpers.onnx.evaluate import source_of
from tests.helpers.onnx.models import model, node, save, tensor, weight
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results

Nodes = Sequence[onnx.NodeProto]

SHAPE = node("Shape", ["x"], ["shape"])
S = [SHAPE, node("Gather", ["shape", "i1"], ["s"])]
"""The shape of x [N, S, 8], and its extent S as a scalar."""

CHAINS: dict[str, Nodes] = {
    "heads and back": [
        SHAPE,
        node("Slice", ["shape", "i0_", "i2_"], ["ns"]),
        node("Concat", ["ns", "heads"], ["split"], axis=0),
        node("Reshape", ["x", "split"], ["h"]),
        node("Transpose", ["h"], ["t"], perm=[0, 2, 1, 3]),
        node("Transpose", ["t"], ["u"], perm=[0, 2, 1, 3]),
        node("Reshape", ["u", "keep"], ["y"]),
    ],
    "rows flattened": [
        *S,
        node("Unsqueeze", ["s", "i0_"], ["s_"]),
        node("Concat", ["minus_", "eight_"], ["flat"], axis=0),
        node("Reshape", ["x", "flat"], ["rows"]),
        node("Concat", ["minus_", "s_", "eight_"], ["back"], axis=0),
        node("Reshape", ["rows", "back"], ["y"]),
    ],
    "halves": [
        *S,
        node("Div", ["s", "two"], ["half"]),
        node("Unsqueeze", ["half", "i0_"], ["half_"]),
        node("Slice", ["x", "half_", "huge_", "i1_"], ["y"]),
    ],
    "last item": [node("Gather", ["x", "minus"], ["y"], axis=1)],
    "reversed": [node("Slice", ["x", "minus_", "tiny_", "i1_", "minus_"], ["y"])],
    "positions": [
        *S,
        node("Range", ["i0", "s", "i1"], ["p"]),
        node("Unsqueeze", ["p", "i0_"], ["p_"]),
        node("Cast", ["p_"], ["y"], to=1),
    ],
    "mask": [
        *S,
        node("Unsqueeze", ["s", "i0_"], ["s_"]),
        node("Concat", ["s_", "s_"], ["ss"], axis=0),
        node("ConstantOfShape", ["ss"], ["ones"], value=weight("", np.ones(1, np.float32))),
        node("Trilu", ["ones"], ["y"], upper=0),
    ],
    "expanded": [
        SHAPE,
        node("Gather", ["x", "i0_"], ["one"], axis=1),
        node("Expand", ["one", "shape"], ["y"]),
    ],
    "padded": [node("Pad", ["x", "pads"], ["y"])],
    "tiled": [
        *S,
        node("Unsqueeze", ["s", "i0_"], ["s_"]),
        node("Concat", ["i1_", "i1_", "s_"], ["r"], axis=0),
        node("Tile", ["x", "r"], ["y"]),
    ],
    "wrapped": [node("Pad", ["x", "pads"], ["y"], mode="wrap")],
    "resized": [
        *S,
        node("Mul", ["s", "two"], ["s2"]),
        node("Unsqueeze", ["s2", "i0_"], ["s2_"]),
        node("Resize", ["x", "", "", "s2_"], ["y"], axes=[1], mode="linear"),
    ],
    "scaled extents": [
        SHAPE,
        node("Gather", ["shape", "i1_"], ["s_"]),
        node("Cast", ["s_"], ["real"], to=1),
        node("Mul", ["real", "factor"], ["scaled"]),
        node("Floor", ["scaled"], ["floor"]),
        node("Cast", ["floor"], ["size"], to=7),
        node("Resize", ["x", "", "", "size"], ["y"], axes=[1], mode="nearest"),
    ],
    "scaled extents, joined as reals": [
        *S,
        node("Cast", ["s"], ["real"], to=1),
        node("Div", ["real", "four"], ["quarter"]),
        node("Ceil", ["quarter"], ["ceil"]),
        node("Unsqueeze", ["ceil", "i0_"], ["ceil_"]),
        node("Concat", ["ceil_", "factor"], ["both"], axis=0),
        node("Gather", ["both", "i0_"], ["first"]),
        node("Cast", ["first"], ["size"], to=6),
        node("Cast", ["size"], ["size_"], to=7),
        node("Tile", ["eights", "size_"], ["y"]),
    ],
    "one-hot": [
        *S,
        node("Range", ["i0", "s", "i1"], ["p"]),
        node("OneHot", ["p", "s", "off_on"], ["y"]),
    ],
}
"""Nodes that compute y from x [N, S, 8], by name."""

WEIGHTS = [
    *(weight(f"i{i}", np.array(i)) for i in range(2)),
    *(weight(f"i{i}_", np.array([i])) for i in range(3)),
    weight("minus", np.array(-1)),
    weight("minus_", np.array([-1])),
    weight("two", np.array(2)),
    weight("four", np.array(4, np.float32)),
    weight("factor", np.array([2.5], np.float32)),
    weight("eights", np.array([8, 8, 8], np.float32)),
    weight("eight_", np.array([8])),
    weight("heads", np.array([2, 4])),
    weight("keep", np.array([0, 0, -1])),
    weight("huge_", np.array([2**63 - 1])),
    weight("tiny_", np.array([-(2**63)])),
    weight("pads", np.array([0, 1, 0, 0, 2, 0])),
    weight("off_on", np.array([0, 1], np.float32)),
]


def model_of(nodes: Nodes) -> onnx.ModelProto:
    return model(nodes, [tensor("x", ["N", "S", 8])], [tensor("y", None)], WEIGHTS, opset=18)


@pytest.mark.parametrize("name", CHAINS)
def test_extents_are_expressions(name: str) -> None:
    made = model_of(CHAINS[name])
    trace = Trace()
    n, s = trace.symbol(5), trace.symbol(30)
    graph = source_of(made).graph({"x": (n, s, 8)}, lifted={"N": n, "S": s})
    dims = graph.outputs[0].type.dims
    assert is_symbolic(dims)
    function = trace.function(dims)
    for values in ((3, 12), (7, 101)):
        x = np.zeros((*values, 8), np.float32)
        assert function(*values) == list(onnxruntime_results(made, [x])[0].shape)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_one_model_for_many_shapes(name: str, tmp_path: Any) -> None:
    made = model_of(CHAINS[name])
    compiled = nnefc.compile(save(made, tmp_path / "net.onnx"))
    for n, s in ((2, 6), (3, 31), (1, 2), (3, 40)):
        x = np.random.default_rng(s).standard_normal((n, s, 8)).astype(np.float32)
        (expected,) = onnxruntime_results(made, [x])
        np.testing.assert_allclose(compiled(x=x), expected, rtol=1e-5, atol=1e-6)


def rounded_down(factor: float) -> onnx.ModelProto:
    """A model that resizes x to floor(S * factor) rows."""
    chain = CHAINS["scaled extents"]
    made = model_of(chain)
    (stored,) = (w for w in made.graph.initializer if w.name == "factor")
    stored.CopyFrom(weight("factor", np.array([factor], np.float32)))
    return made


def test_a_product_that_float32_rounds_is_no_expression() -> None:
    trace = Trace()
    n, s = trace.symbol(5), trace.symbol(30)
    source = source_of(rounded_down(0.7))
    with pytest.raises(nnefc.NnefError):
        source.graph({"x": (n, s, 8)}, lifted={"N": n, "S": s})


@pytest.mark.parametrize("extent", [10, 20, 33])
def test_a_product_is_rounded_to_float32(extent: int) -> None:
    """10 times 0.7 is below 7 in float64, but 7 in float32."""
    made = rounded_down(0.7)
    x = np.zeros((2, extent, 8), np.float32)
    graph = source_of(made).graph({"x": x.shape})
    assert graph.outputs[0].type.dims == onnxruntime_results(made, [x])[0].shape


def test_indices_of_maxima_of_one_plane() -> None:
    """The first plane begins at index 0, whatever the symbols are."""
    pool = node("MaxPool", ["x"], ["y", "index"], kernel_shape=[2, 3], pads=[0, 1, 0, 1])
    made = model(
        [pool],
        [tensor("x", [1, 1, "H", "W"])],
        [tensor("y", [1, 1, "P", "Q"]), tensor("index", [1, 1, "P", "Q"], onnx.TensorProto.INT64)],
    )
    session = InferenceSession(made.SerializeToString())
    for shape in ((1, 1, 4, 5), (1, 1, 7, 3)):
        x = np.random.default_rng(shape).standard_normal(shape).astype(np.float32)
        results, expected = session.run(None, {"x": x}), onnxruntime_results(made, [x])
        for y, want in zip(results, expected, strict=True):
            np.testing.assert_array_equal(y, want)
