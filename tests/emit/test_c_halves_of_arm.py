"""Products, convolutions, attention and networks of halves on aarch64.

They are compared with float64, and networks with onnxruntime.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import nnefc
from tests.helpers.artifacts.c_programs import run_main
from tests.helpers.artifacts.emulated import emulated_program, needs_emulator

MODEL = """<ir_version: 8, opset_import: ["": 17]>
g (float[13,300] a, float[1,16,9,9] x, float[2,S,32] t)
    => (float[13,21] y, float[1,24,7,7] z, float[1,10] n, float[2,S,32] s) {
  y = MatMul(a, b)
  z = Conv(x, w)
  c = Conv <pads = [1, 1, 1, 1]> (x, w1)
  r = Relu(c)
  d = Conv <pads = [1, 1, 1, 1], group = 24> (r, w2)
  e = Sigmoid(d)
  f = Mul(d, e)
  h = Conv <pads = [1, 1, 1, 1]> (f, w3)
  i = Add(h, r)
  j = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (i)
  k = Conv(j, w4)
  l = GlobalAveragePool(k)
  m = Flatten(l)
  n = MatMul(m, v)
  p = MatMul(t, q)
  o = Transpose <perm = [0, 2, 1]> (p)
  u = MatMul(p, o)
  scores = Softmax <axis = -1> (u)
  s = MatMul(scores, p)
}"""
SHAPES = {
    **{"b": (300, 21), "w": (24, 16, 3, 3), "w1": (24, 16, 3, 3), "w2": (24, 1, 3, 3)},
    **{"w3": (24, 24, 3, 3), "w4": (32, 24, 1, 1), "v": (32, 10), "q": (32, 32)},
}
ERRORS = {"float16": (2**-13, 2**-10), "bfloat16": (2**-12, 2**-8)}
"""Bounds of the error of sums of products, relative to the sum of their sizes."""
LARGE = 60000.0


def document(random: np.random.Generator, path: Path) -> dict[str, np.ndarray]:
    """Writes the model; returns its weights."""
    weights = {
        name: (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in SHAPES.items()
    }
    model = onnx.parser.parse_model(MODEL)
    known = [onnx.numpy_helper.from_array(items, name) for name, items in weights.items()]
    model.graph.initializer.extend(known)
    onnx.save(model, path)
    return weights


@pytest.mark.slow
@needs_emulator
@pytest.mark.filterwarnings("ignore:.* are not faster here")
@pytest.mark.parametrize(
    ("precision", "target"), [("float16", "aarch64+fp16"), ("bfloat16", "aarch64+bf16")]
)
def test_networks_of_halves(precision: Any, target: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = document(random, tmp_path / "net.onnx")
    shapes = (13, 300), (1, 16, 9, 9)
    a, x = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    a[0] = LARGE  # whose products exceed float16
    a[6:] = a[1]  # in tiles of seven and of six rows
    model: Any = nnefc.compile(tmp_path / "net.onnx", precision=precision)
    model.emit_c(tmp_path / "c", name="net", target=target, shapes={"S": 40})
    program = emulated_program(tmp_path / "c", "net")

    def results(a: np.ndarray, x: np.ndarray, *known: np.ndarray) -> list[np.ndarray]:
        a, x, b, w = (each.astype(np.float64) for each in (a, x, *known))
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        return [a @ b, np.einsum("ncyxhw,ochw->noyx", windows, w)]

    operands = a, x, weights["b"], weights["w"]
    want, sizes = results(*operands), results(*(np.abs(each) for each in operands))
    session: Any = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    least, most = ERRORS[precision]
    for length in (40, 54):
        t = random.standard_normal((2, length, 32)).astype(np.float32)
        networks = session.run(["n", "s"], {"a": a, "x": x, "t": t})
        like = [each.astype(np.float32) for each in (*want, *networks)]
        given = run_main(program, 1, [a, x, t], like, [length])
        for got, exact, size in zip(given, want, sizes, strict=False):
            error = np.abs(got - exact) / size
            # in float32 the error would be 2**-20
            assert least < error.max() < most
        assert (given[0][6:] == given[0][1]).all()
        for got, exact in zip(given[2:], networks, strict=True):
            assert least / 4 < np.abs(got - exact).max() / np.abs(exact).max() < 2 * most
