"""Layers in the spellings of PyTorch's exporters become the same few launches."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import nnefc
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results, reals

Array = np.ndarray[Any, Any]


class Layer(NamedTuple):
    """Spellings of a layer by name, and the kinds of its launches, without those for layouts."""

    shape: tuple[int, ...]
    weights: dict[str, Array]
    constants: str
    spellings: dict[str, str]
    kinds: list[str]


ROW = {"w": reals(16, seed=1), "c": reals(16, seed=2)}
PRODUCT = {"w": reals(16, 16, seed=1), "c": reals(16, seed=2)}
CONVOLUTION = {
    **{"w": reals(8, 3, 3, 3, seed=1), "scale": reals(8, seed=3) + 2, "shift": reals(8, seed=4)},
    **{"mean": reals(8, seed=5), "var": reals(8, seed=6) ** 2 + 0.5},
}
SQUEEZED = {**CONVOLUTION, "down": reals(4, 8, 1, 1, seed=7), "up": reals(8, 4, 1, 1, seed=8)}
GROUPS = {
    **{"ones": np.ones(2, np.float32), "zeros": np.zeros(2, np.float32)},
    **{"w": reals(8, 1, 1, seed=1), "c": reals(8, 1, 1, seed=2)},
}

NORM = "float two = {2}, float one = {1}, float eps = {0.00001}, int64[1] last = {-1}"
ROOT = "v = ReduceMean (s, last) e = Add (v, eps) r = Sqrt (e) "
CENTERED = "m = ReduceMean (x, last) d = Sub (x, m) "
AFFINE = "n = Div (d, r) g = Mul (n, w) y = Add (g, c)"
GELU = "float root = {1.4142135}, float one = {1}, float half = {0.5}"
ERF = "d = Div (h, root) e = Erf (d) a = Add (e, one) "
FAST = "float k = {0.044715}, float root = {0.7978846}, float one = {1}, float half = {0.5}"
TANH = (
    "r = Mul (q, k) s = Add (h, r) t = Mul (s, root) u = Tanh (t) a = Add (u, one)"
    " b = Mul (h, half) y = Mul (b, a)"
)
SIX = "float low = {0}, float high = {6}, float three = {3}, float six = {6}"
BLOCK = "f = Conv <pads = [1, 1, 1, 1]> (x, w) h = BatchNormalization (f, scale, shift, mean, var) "
GATE = (
    " i = Conv (g, down) j = Relu (i) k = Conv (j, up)"
    " l = HardSigmoid <alpha = 0.16666667, beta = 0.5> (k) y = Mul (r, l)"
)
SHUFFLE = "int64[6] apart = {1, 2, 2, 2, 3, 3}, int64[4] joined = {1, 2, 6, 6}"

LAYERS = {
    "layer normalisation": Layer(
        (4, 16),
        ROW,
        NORM,
        {
            "power": f"{CENTERED} s = Pow (d, two) {ROOT} {AFFINE}",
            "product": f"{CENTERED} s = Mul (d, d) {ROOT} {AFFINE}",
            "operator": "y = LayerNormalization (x, w, c)",
        },
        ["fused_mean_variance_normalization"],
    ),
    "root mean square": Layer(
        (4, 16),
        ROW,
        NORM,
        {
            "quotient": f"s = Pow (x, two) {ROOT} q = Div (one, r) n = Mul (x, q) y = Mul (w, n)",
            "reciprocal": f"s = Mul (x, x) {ROOT} q = Reciprocal (r) n = Mul (x, q) y = Mul (n, w)",
        },
        ["fused_mean_variance_normalization"],
    ),
    "GELU": Layer(
        (4, 16),
        PRODUCT,
        GELU,
        {
            "half last": f"p = MatMul (x, w) h = Add (p, c) {ERF} b = Mul (h, a) y = Mul (b, half)",
            "half first": f"p = MatMul (x, w) h = Add (c, p) {ERF} t = Mul (h, half)"
            " y = Mul (t, a)",
        },
        ["fused_matmul"],
    ),
    "GELU by tanh": Layer(
        (4, 16),
        PRODUCT,
        f"{FAST}, float three = {{3}}",
        {
            "power": f"p = MatMul (x, w) h = Add (p, c) q = Pow (h, three) {TANH}",
            "products": f"h = Gemm (x, w, c) z = Mul (h, h) q = Mul (z, h) {TANH}",
        },
        ["fused_matmul"],
    ),
    "hard-swish": Layer(
        (1, 3, 8, 8),
        CONVOLUTION,
        SIX,
        {
            "operator": f"{BLOCK} y = HardSwish (h)",
            "hard sigmoid": f"{BLOCK} g = HardSigmoid <alpha = 0.16666667, beta = 0.5> (h)"
            " y = Mul (h, g)",
            "clip": f"{BLOCK} a = Add (h, three) b = Clip (a, low, high) d = Div (b, six)"
            " y = Mul (h, d)",
        },
        ["fused_conv"],
    ),
    "squeeze and excitation": Layer(
        (1, 3, 8, 8),
        SQUEEZED,
        "int64[2] axes = {2, 3}",
        {
            "pooling": f"{BLOCK} r = Relu (h) g = GlobalAveragePool (r) {GATE}",
            "mean": f"{BLOCK} r = Relu (h) g = ReduceMean (r, axes) {GATE}",
        },
        ["fused_conv", "sum_reduce", "fused_matmul", "fused_matmul", "mul"],
    ),
    "group normalisation": Layer(
        (1, 8, 6, 6),
        GROUPS,
        "int64[3] groups = {0, 2, -1}, int64[4] back = {1, 8, 6, 6}",
        {
            "instances": "g = Reshape (x, groups) i = InstanceNormalization (g, ones, zeros)"
            " r = Reshape (i, back) m = Mul (r, w) y = Add (m, c)",
        },
        ["mean_variance_normalization", "fused"],
    ),
    "pixel shuffle": Layer(
        (1, 8, 3, 3),
        {},
        SHUFFLE,
        {
            "operator": 'y = DepthToSpace <blocksize = 2, mode = "CRD"> (x)',
            "moves": "a = Reshape (x, apart) t = Transpose <perm = [0, 1, 4, 2, 5, 3]> (a)"
            " y = Reshape (t, joined)",
        },
        ["transpose"],
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_launches(name: str, tmp_path: Path) -> None:
    layer = LAYERS[name]
    x = reals(*layer.shape, seed=9)
    dims = ", ".join(map(str, layer.shape))
    head = f'<ir_version: 8, opset_import: ["": 18]> graph (float[{dims}] x) => (float y)'
    for spelling, nodes in layer.spellings.items():
        model = onnx.parser.parse_model(f"{head} <{layer.constants}> {{ {nodes} }}")
        for key, array in layer.weights.items():
            model.graph.initializer.append(numpy_helper.from_array(array, key))
        path = tmp_path / f"{spelling}.onnx"
        path.write_bytes(model.SerializeToString())
        compiled = nnefc.compile(path, threads=1)
        assert isinstance(compiled, CompiledModel)
        kinds = [launch.label.split(" ")[0] for launch in compiled.launches]
        assert [kind for kind in kinds if kind != "layout"] == layer.kinds, spelling
        (want,) = onnxruntime_results(model, [x])
        np.testing.assert_allclose(compiled(x), want, rtol=1e-5, atol=2e-5, err_msg=spelling)
