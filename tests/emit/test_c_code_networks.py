"""C programs of quantized models give the bits of Python."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path

import onnx

import nnefc
from tests.helpers.artifacts.c_programs import LIBRARIES, compile_c, needs_compiler, run_main
from tests.helpers.artifacts.saved import inputs, results
from tests.helpers.onnx.network_of_codes import network_of_codes


@needs_compiler
def test_codes_in_c(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network_of_codes("uint8")[0], path)
    model = nnefc.compile(path)
    model.emit_c(tmp_path / "c", name="net")
    program = tmp_path / "c" / "example"
    compile_c("-std=c99", "main.c", "net.o", "-o", program, *LIBRARIES)
    expected = results(model)
    for y, got in zip(expected, run_main(program, 1, inputs(model), expected), strict=True):
        assert got.tobytes() == y.tobytes()
