"""Pseudo-quantizations of documents as conversions to codes, by the formulas of NNEF in float64."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.emit.convert.nnef_quantized import quantized_document
from nnefc.frontends.nnef import import_text
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from nnefc.passes.pipeline import run_pass, run_pipeline
from nnefc.passes.quantize.float_layers import FloatLayers
from nnefc.passes.quantize.recognise_quantizations import RecogniseQuantizations

Array = np.ndarray[Any, Any]
PASS = RecogniseQuantizations()


def document(body: str, shape: str = "[2,3,4]") -> Graph:
    return import_text(
        "version 1.0; extension KHR_enable_fragment_definitions; "
        f"graph net(x) -> (y) {{ x = external(shape = {shape}); {body} }}"
    )


def names(graph: Graph) -> Counter[str]:
    return Counter(op.name for op in graph.ops)


@given(
    st.integers(1, 16),
    st.integers(-3, 3),
    st.data(),
    st.sampled_from(["linear", "min_max", "zero_point"]),
)
def test_results_are_those_of_the_formulas(
    bits: int, exponent: int, data: st.DataObject, kind: str
) -> None:
    """With a scale that is a power of two, halves between codes are exact."""
    scale = 2.0**exponent
    signed, symmetric = (data.draw(st.booleans()) if kind != "linear" else False for _ in "ab")
    if bits == 1:
        signed = False
    narrow = signed and symmetric
    last = 2**bits - 1 - narrow
    flags = f"signed = {str(signed).lower()}, symmetric = {str(symmetric).lower()}"
    if kind == "zero_point":
        first = -(2 ** (bits - 1)) + symmetric if signed else 0
        zero = data.draw(st.integers(first, first + last))
        call = f"zero_point_linear_quantize(x, {zero}, {scale!r}, bits = {bits}, {flags})"
    else:
        zero = data.draw(st.integers(0, last))
        ends = f"{-zero * scale!r}, {(last - zero) * scale!r}, bits = {bits}"
        call = f"linear_quantize(x, {ends})"
        if kind == "min_max":
            call = f"min_max_linear_quantize(x, {ends}, {flags})"
    graph = document(f"y = {call};")
    units = data.draw(st.lists(st.integers(-3 << bits, 3 << bits), min_size=24, max_size=24))
    x = (np.reshape(units, (2, 3, 4)) * scale / 2).astype(np.float32)
    expected = evaluate(graph, {"x": x}).outputs["y"]
    changed = graph.clone()
    assert run_pass(PASS, changed)
    assert {"quantize", "dequantize"} <= set(names(changed))
    np.testing.assert_array_equal(evaluate(changed, {"x": x}).outputs["y"], expected)


def test_halves_go_up_in_kernels() -> None:
    graph = document("y = linear_quantize(x, -1.0, 126.5, bits = 8);", "[1,1,64]")
    x = ((np.arange(64) - 20) / 4).astype(np.float32).reshape(1, 1, 64)
    expected = evaluate(graph, {"x": x}).outputs["y"]
    assert (expected != np.rint(x * 2) / 2).any(), "some halves would go to even codes"
    np.testing.assert_array_equal(nnefc.compile(graph)(x), expected)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("linear_quantize(x, -2.0, 2.5, bits = 8)", "0 is no code of the range"),
        ("linear_quantize(x, 1.0, 2.0, bits = 8)", "0 is no code of the range"),
        ("linear_quantize(x, 1.0, 1.0, bits = 8)", "the range is empty"),
        ("linear_quantize(x, 0.0, max_reduce(x, axes = [1,2]), bits = 8)", "range is computed"),
        ("linear_quantize(x, 0.0, 1.0, bits = 20)", "codes have 20 bits"),
        ("logarithmic_quantize(x, 1.0, bits = 4)", "codes are logarithms"),
    ],
)
def test_others_compute_on_reals_and_tell_why(call: str, reason: str) -> None:
    graph, floats = document(f"y = {call};"), FloatLayers()
    assert not run_pass(PASS, graph)
    run_pipeline(graph, hook=floats)
    ((_, found),) = floats.found
    assert reason in found


NETWORK = """version 1.0; graph net(x) -> (y) {
    x = external(shape = [1,4,12,12]);
    w1 = variable(shape = [8,4,3,3], label = 'w1'); b1 = variable(shape = [1,8], label = 'b1');
    w2 = variable(shape = [8,8,1,1], label = 'w2');
    w3 = variable(shape = [5,8], label = 'w3'); b3 = variable(shape = [1,5], label = 'b3');
    first = relu(conv(x, w1, b1, padding = [(1,1),(1,1)]));
    sum = relu(add(conv(first, w2, b1), first));
    up = deconv(sum, w2, b1);
    y = linear(squeeze(mean_reduce(up, axes = [2,3]), axes = [2,3]), w3, b3);
}"""


@pytest.mark.parametrize("activations", ["uint8", "int8", "int16"])
def test_written_documents_compute_as_the_graph_of_codes(tmp_path: Path, activations: Any) -> None:
    """Scales of channels, biases and residuals of a document of NNEF 1.0.2 are found again."""
    graph = import_text(NETWORK)
    random = np.random.default_rng(7)
    for variable in graph.variables.values():
        items = random.normal(size=variable.type.dims, scale=0.3)
        variable.data = items.astype(np.float32)
    samples = random.normal(size=(5, 1, 4, 12, 12)).astype(np.float32)
    codes = nnefc.quantize(graph, samples, activations=activations)
    quantized_document(codes).write(tmp_path / "net")
    again = nnefc.import_model(tmp_path / "net")
    floats, graphs = FloatLayers(), [codes.clone(), again.clone()]
    for each in graphs:
        run_pipeline(each, hook=floats)
    assert floats.found == []
    counted = [names(each) for each in graphs]
    for name in ("fused_code_conv", "fused_code_deconv", "fused_code_matmul", "code_sum_reduce"):
        assert counted[0][name] == counted[1][name] > 0
    assert counted[1]["fused_code_conv"] == 2, "the second one adds the residual"
    inputs = [[len(op.inputs) for op in each.ops if "_conv" in op.name] for each in graphs]
    assert inputs[0] == inputs[1], "biases are whole, so there are no offsets"
    model = nnefc.compile(again, strict_quantization=True)
    for x in samples:
        expected = evaluate(again, {"x": x}).outputs["y"]
        np.testing.assert_allclose(model(x), expected, rtol=1e-4, atol=1e-4)
