"""Products and convolutions of bfloat16 on aarch64, compared with float64."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import nnefc
from tests.helpers.artifacts.c_programs import run_main
from tests.helpers.artifacts.emulated import emulated_program, needs_emulator

MODEL = """<ir_version: 8, opset_import: ["": 17]>
g (float[13,64] a, float[1,16,9,9] x) => (float[13,21] y, float[1,24,7,7] z) {
  y = MatMul(a, b)
  z = Conv(x, w)
}"""


@pytest.mark.slow
@needs_emulator
@pytest.mark.filterwarnings("ignore:.*bfloat16 are not faster here")
def test_products_of_bfloat16(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    shapes = (13, 64), (64, 21), (1, 16, 9, 9), (24, 16, 3, 3)
    a, b, x, w = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    document = onnx.parser.parse_model(MODEL)
    known = [onnx.numpy_helper.from_array(items, name) for items, name in ((b, "b"), (w, "w"))]
    document.graph.initializer.extend(known)
    onnx.save(document, tmp_path / "net.onnx")
    model = nnefc.compile(tmp_path / "net.onnx", precision="bfloat16")
    model.emit_c(tmp_path / "c", name="net", target="aarch64+bf16")
    program = emulated_program(tmp_path / "c", "net")

    def results(*operands: np.ndarray) -> list[np.ndarray]:
        a, b, x, w = (each.astype(np.float64) for each in operands)
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        return [a @ b, np.einsum("ncyxhw,ochw->noyx", windows, w)]

    want, sizes = results(a, b, x, w), results(*(np.abs(each) for each in (a, b, x, w)))
    given = run_main(program, 1, [a, x], [each.astype(np.float32) for each in want])
    for got, exact, size in zip(given, want, sizes, strict=True):
        error = np.abs(got - exact) / size
        # both factors of a product are rounded to 8 bits; in float32 the error would be 2**-20
        assert 2**-12 < error.max() < 2**-8
