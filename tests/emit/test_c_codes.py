"""Quantized convolutions give the same bits in artifacts and in programs in C."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnefc
from tests.helpers.artifacts.c_programs import (
    LIBRARIES,
    compile_c,
    needs_compiler,
    run_main,
)
from tests.helpers.onnx.quantized_networks import Network

UNIT = 0.02
SHAPE = (2, 20, 9, 7)


def residual_network() -> Any:
    """Convolutions of codes with a residual, of the signedness that kernels do not multiply."""
    net = Network()
    x = net.rounded("x", UNIT, 3, "int8")
    y = net.rounded(net.conv(x, UNIT, (20, 20), pads=[1, 1, 1, 1]), UNIT, -5, "int8")
    y = net.rounded(net.node("Relu", net.node("Add", x, y)), UNIT, -100, "int8")
    y = net.conv(y, UNIT, (20, 24), 1)
    return net.model(SHAPE, y=(y, "float32"))


def attention_network() -> Any:
    """A product with known codes, and one of two computed matrices; 33 rows and 70 items deep."""
    net = Network()
    weights = np.random.default_rng(1).integers(-127, 127, (70, 40), np.int8, endpoint=True)
    x = net.rounded("x", UNIT, 120, "uint8")
    known = net.node(
        "DequantizeLinear", net.constant(weights), *net.parameters(UNIT / 4, 0, "int8")
    )
    y = net.rounded(net.node("MatMul", x, known), UNIT, 100, "uint8")
    turned = net.node("Transpose", y, perm=[0, 2, 1])
    return net.model((2, 33, 70), y=(net.node("MatMul", y, turned), "float32"))


@needs_compiler
@pytest.mark.parametrize("network", [residual_network, attention_network])
def test_artifacts_and_programs_have_the_bits_of_the_model(
    network: Callable[[], Any], tmp_path: Path
) -> None:
    document = network()
    onnx.save(document, tmp_path / "net.onnx")
    model = nnefc.compile(tmp_path / "net.onnx")
    assert isinstance(model, nnefc.Model)
    x = np.random.default_rng(0).normal(0, 1, model.inputs[0].shape).astype(np.float32)
    want = np.asarray(model(x))
    assert len(np.unique(want)) > 50
    model.save(tmp_path / "net.nnefc")
    np.testing.assert_array_equal(nnefc.load(tmp_path / "net.nnefc")(x), want)
    model.emit_c(tmp_path / "c")
    program = tmp_path / "c" / "example"
    compile_c("main.c", "quantized.o", "-o", program, *LIBRARIES)
    for threads in (1, 2):
        (got,) = run_main(program, threads, [x], [want])
        np.testing.assert_array_equal(got, want)


def test_a_batch_that_varies_has_the_bits_of_the_model(tmp_path: Path) -> None:
    fixed = residual_network()
    onnx.save(fixed, tmp_path / "net.onnx")
    fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(fixed, tmp_path / "varying.onnx")
    x = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    want = np.asarray(nnefc.compile(tmp_path / "net.onnx")(x))
    model = nnefc.compile(tmp_path / "varying.onnx")
    np.testing.assert_array_equal(model(x), want)
    np.testing.assert_array_equal(model(np.tile(x, (2, 1, 1, 1))), np.tile(want, (2, 1, 1, 1)))
