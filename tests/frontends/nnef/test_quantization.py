"""Quantization files: their checks, and their effect on the graph (5.3, 7.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.formats.tensor_file import write_tensor
from nnefc.frontends.nnef.flatten import flatten
from nnefc.frontends.read_model import read_graph
from nnefc.ir import Graph
from nnefc.ir.verify import verify
from nnefc.ops.tools.reference import evaluate
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import NnefError
from tests.helpers.nnef.conformance import CONFORMANCE, needs_conformance

DOCUMENT = """version 1.0;
graph G( x ) -> ( y, v )
{
    x = external(shape = [1,2]);
    v = variable(shape = [2,2], label = 'block/v');
    i = external<integer>(shape = [1]);
    z = add(x, v);
    y = relu(z);
}
""".replace("( x )", "( x, i )")


def quantized(folder: Path, text: str, document: str = DOCUMENT, **options: Any) -> Graph:
    (folder / "graph.nnef").write_text(document)
    (folder / "graph.quant").write_text(text)
    options.setdefault("random_weights", 1)
    return read_graph(folder, ImportConfig(**options))


def linear(x: Any, low: Any, high: Any, bits: int) -> Any:
    """The formula of 4.9.5."""
    r = 2.0**bits - 1
    z = np.clip(x, low, high)
    return np.floor((z - low) / (high - low) * r + 0.5) / r * (high - low) + low


def test_uses_and_outputs_see_the_quantized_tensor(tmp_path: Path) -> None:
    text = """"x": linear_quantize(min = -1.0, max = 1.0, bits = 2);
"v": linear_quantize(min = -2.0, max = 2.0, bits = 3);
"y": linear_quantize(min = 0.0, max = 3.0, bits = 2);
"""
    graph = quantized(tmp_path, text)
    assert not verify(graph)
    names = [op.name for op in graph.ops if op.name != "constant"]
    quantize = "linear_quantize"
    assert sorted(names) == sorted(["variable", "add", "relu", quantize, quantize, quantize])
    assert graph.output_names == ["y", "v"]
    x = np.array([[0.3, -0.9]])
    weights = graph.variables["block/v"].data
    assert weights is not None
    result = evaluate(graph, {"x": x, "i": np.array([1])}, {"block/v": weights}).outputs
    v = linear(weights.astype(np.float64), -2.0, 2.0, 3)
    y = np.maximum(linear(x, -1.0, 1.0, 2) + v, 0)
    np.testing.assert_allclose(result["v"], v, atol=1e-12)
    np.testing.assert_allclose(result["y"], linear(y, 0.0, 3.0, 2), atol=1e-12)
    users = quantized(tmp_path, text, quantize=False).inputs[0].users
    assert [op.name for op in users] == ["add"]


def test_a_variable_stays_updatable(tmp_path: Path) -> None:
    document = """version 1.0;
graph G( x ) -> ( y )
{
    x = external(shape = [2]);
    v = variable(shape = [2], label = 'v');
    y = add(v, x);
    u = update(v, y);
}
"""
    graph = quantized(tmp_path, '"v": linear_quantize(min = 0.0, max = 1.0, bits = 8);', document)
    (update,) = [op for op in graph.ops if op.name == "update"]
    assert update.inputs[0].op is not None and update.inputs[0].op.name == "variable"
    flat = flatten(graph)
    assert "v = linear_quantize(v_raw, 0.0, 1.0, bits = 8);" in flat
    assert "update(v_raw, y)" in flat


def test_parameters_per_channel_broadcast(tmp_path: Path) -> None:
    text = """"v": min_max_linear_quantize(min = [-1.0,-2.0], max = [1.0,2.0],
    bits = 8, signed = true, symmetric = false);
"z": zero_point_linear_quantize(zero_point = [1,2], scale = [[0.5,0.25]], bits = 4 * 2,
    signed = true, symmetric = false);
"""
    graph = quantized(tmp_path, text)
    shapes = [op.output.type.shape for op in graph.ops if op.name == "constant"]
    assert shapes == [(2,), (2,), (1, 2), (1, 2)]
    with pytest.raises(NnefError) as caught:
        quantized(tmp_path, text.replace("[1,2]", "[1,2,3]"))
    assert [e.rule for e in caught.value.errors] == ["quantization/channels"]


def test_stored_codes_are_decoded(tmp_path: Path) -> None:
    write_tensor(tmp_path / "block_v.dat", np.array([[3, 5], [-1, 7]], np.int8))
    document = DOCUMENT.replace("block/v", "block_v")
    text = """"v": zero_point_linear_quantize(zero_point = 3, scale = 0.5, bits = 8,
    signed = true, symmetric = false);
"""
    graph = quantized(tmp_path, text, document, quantize=False)
    np.testing.assert_array_equal(graph.variables["block_v"].data, [[0.0, 1.0], [-2.0, 2.0]])
    with pytest.raises(NnefError) as caught:
        quantized(tmp_path, "", document)
    (error,) = caught.value.errors
    assert error.rule == "data/type"
    assert "graph.quant" in error.hint


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("'nope': q(min = 0.0, max = 1.0, bits = 8);", "quantization/tensor"),
        ("'block/v': q(min = 0.0, max = 1.0, bits = 8);", "quantization/tensor"),
        ("'i': q(min = 0.0, max = 1.0, bits = 8);", "quantization/tensor"),
        ("'x': relu(min = 0.0);", "quantization/algorithm"),
        ("'x': q(min = 0.0, bits = 8);", "invocation/missing-argument"),
        ("'x': q(x = 0.0, min = 0.0, max = 1.0, bits = 8);", "invocation/duplicate-argument"),
        ("'x': q(min = 0.0, min = 0.0, max = 1.0, bits = 8);", "invocation/duplicate-argument"),
        ("'x': q(min = 0.0, max = 1.0, bits = 8.0);", "type/argument"),
        ("'x': q(min = 0.0, max = 1, bits = 8);", "type/argument"),
        ("'x': q(min = 0.0, max = 1.0, bits = [8]);", "type/argument"),
        ("'x': q(min = v, max = 1.0, bits = 8);", "identifier/undefined"),
        ("'x': q(min = 0.0, max = 1.0, bits = 8 / 0);", "argument/arithmetic"),
        ("'x': q(min = 0.0, max = 1.0, bits = 0);", "argument/linear_quantize"),
        ("'x': q<scalar>(min = 0.0, max = 1.0, bits = 8);", "invocation/generic"),
    ],
)  # fmt: skip
def test_errors_have_file_line_and_rule(tmp_path: Path, text: str, rule: str) -> None:
    with pytest.raises(NnefError) as caught:
        quantized(tmp_path, "# first line\n" + text.replace(" q", " linear_quantize"))
    (error,) = caught.value.errors
    assert error.rule == rule
    assert error.file == str(tmp_path / "graph.quant")
    assert error.line == 2


WRONG_NUMBERS = [
    (
        "z(zero_point = 3, scale = 0.0, S)",
        "scale",
        "must be positive and finite in float32: it is 0.0",
    ),
    ("z(zero_point = 3, scale = -0.5, S)", "scale", "positive and finite in float32: it is -0.5"),
    ("z(zero_point = 3, scale = 1e39, S)", "scale", "positive and finite in float32: it is 1e+39"),
    ("z(zero_point = 3, scale = 1e-50, S)", "scale", "positive and finite in float32: it is 1e-50"),
    ("z(zero_point = 3, scale = [0.5,-1.0], S)", "scale", "it is -1.0"),
    ("z(zero_point = 3, scale = [0.5,0.5,0.5], S)", "channels", "3 items of scale for 2 channels"),
    ("z(zero_point = 3, scale = [], S)", "channels", "0 items of scale for 2 channels"),
    ("z(zero_point = [1,2,3], scale = 0.5, S)", "channels", "3 items of zero_point for 2 channels"),
    ("z(zero_point = 128, scale = 0.5, S)", "zero-point", "codes -128 to 127: it is 128"),
    ("z(zero_point = [1,-129], scale = 0.5, S)", "zero-point", "-128 to 127: it is -129"),
    ("q(min = 1.0, max = -1.0, bits = 8)", "range", "must not be greater than max: they are 1.0"),
    ("q(min = [0.0,2.0], max = [1.0,1.0], bits = 8)", "range", "they are 2.0 and 1.0"),
    ("q(min = -1e39, max = 1.0, bits = 8)", "range", "min must be finite in float32: it is -1e+39"),
    ("q(min = -3e38, max = 3e38, bits = 8)", "range", "max - min exceeds float32: it is 6e+38"),
    ("log(max = 0.0, bits = 8)", "range", "max must be positive: it is 0.0"),
    ("log(max = -1.0, bits = 8)", "range", "max must be positive: it is -1.0"),
]


@pytest.mark.parametrize("stored", [np.float32, np.int8])
@pytest.mark.parametrize(("text", "rule", "message"), WRONG_NUMBERS, ids=range(len(WRONG_NUMBERS)))
def test_numbers_that_stand_for_no_codes(
    tmp_path: Path, text: str, rule: str, message: str, stored: type
) -> None:
    write_tensor(tmp_path / "block_v.dat", np.zeros((2, 2), stored))
    for short, long in (
        ("z(", "zero_point_linear_quantize("),
        ("q(", "linear_quantize("),
        ("log(", "logarithmic_quantize("),
        ("S)", "bits = 8, signed = true, symmetric = false)"),
    ):
        text = text.replace(short, long)
    with pytest.raises(NnefError) as caught:
        quantized(tmp_path, f"'v': {text};", DOCUMENT.replace("block/v", "block_v"))
    error = caught.value.errors[0]
    assert error.rule == f"quantization/{rule}"
    assert error.file == str(tmp_path / "graph.quant")
    assert error.message.startswith("tensor 'v': ")
    assert message in error.message


def test_a_range_of_one_number_is_allowed(tmp_path: Path) -> None:
    quantized(tmp_path, "'v': linear_quantize(min = 1.0, max = 1.0, bits = 8);")


def test_a_tensor_is_quantized_once(tmp_path: Path) -> None:
    line = "'x': linear_quantize(min = 0.0, max = 1.0, bits = 8);\n"
    with pytest.raises(NnefError, match="quantization/duplicate"):
        quantized(tmp_path, line * 2)


def _cases() -> list[Any]:
    if CONFORMANCE is None:
        return []
    found = json.loads((CONFORMANCE / "quant" / "cases.json").read_text())
    return [pytest.param(found["graph"], case, id=case["what"]) for case in found["cases"]]


@needs_conformance
@pytest.mark.parametrize(("graph", "case"), _cases())
def test_conformance_cases_are_accepted_or_refused(
    tmp_path: Path, graph: str, case: dict[str, str]
) -> None:
    if case["kind"] in ("invalid", "debatable"):
        with pytest.raises(NnefError) as caught:
            quantized(tmp_path, case["quant"], graph)
        assert all(e.line for e in caught.value.errors)
        return
    # two channels need a variable of two rows
    if "per-channel" in case["what"]:
        graph = graph.replace("variable(shape = [1,2]", "variable(shape = [2,2]")
    quantized(tmp_path, case["quant"], graph)
