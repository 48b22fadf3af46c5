"""`nnefc compile --explain`: changes of each pass, from the graph before and after it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nnefc.api.importing import import_model
from nnefc.cli.compile.explain import PassRecord, PassRecorder, describe, kind
from nnefc.driver.compile import compile_graph
from nnefc.driver.precision import half_kernels
from nnefc.ir import Blocked, DType, Graph, Op, TensorType
from nnefc.ir.convolution_algorithm import Winograd
from nnefc.ir.parse import parse_graph
from nnefc.ops.tools.build import build
from nnefc.ops.tools.cost import traffic_bytes
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.cost.graph import executed_macs
from nnefc.passes.pipeline import PassRun, run_pipeline
from tests.helpers.command_line import Cli


def test_explain(cli: Cli, small: Path) -> None:
    arguments = ("compile", small, "--random-weights", 1, "--explain")
    shown = cli(*arguments).out
    for text in (
        "multiply-adds",
        "expand_compounds",
        "passes: 3 to",
        "for one core",
        "weights",
        "lower bound",
    ):
        assert text in shown
    facts = json.loads(cli(*arguments, "--json").out)
    first, *_, last = facts["passes"]
    assert first["pass"] == "import"
    assert facts["bits_of_processor"] == []
    assert first["operations"] == 3
    assert first["macs"] == 4 * 64 * 27
    assert last["macs"] == first["macs"]
    assert all(1e-7 < fact["estimated_seconds"] < 1e-5 for fact in facts["passes"])
    assert facts["arena_lower_bound"] <= facts["arena_bytes"]
    assert facts["parameter_bytes"] == 4 * (4 * 27 + 4) <= facts["constant_bytes"]
    shown = cli("compile", small, "--random-weights", 1).out
    assert "expand_compounds" not in shown


WIDE = """\
version 1.0;
graph wide( x ) -> ( y )
{
    x = external(shape = [1, 64, 56, 56]);
    filter = variable(shape = [64, 64, 3, 3], label = 'filter');
    y = relu(conv(x, filter));
}
"""


def test_explain_shows_the_gain_of_an_algorithm(cli: Cli, tmp_path: Path) -> None:
    document = tmp_path / "graph.nnef"
    document.write_text(WIDE)
    arguments = ("compile", document, "--random-weights", 1, "--explain", "--json")
    done: dict[str, list[dict[str, Any]]] = {}
    for accuracy in ("fast", "strict"):
        facts = json.loads(cli(*arguments, "--accuracy", accuracy).out)
        at = [fact["pass"] for fact in facts["passes"]].index("choose_convolution_algorithms")
        done[accuracy] = facts["passes"][at - 1 : at + 1]
    before, fast = done["fast"]
    assert any(name.startswith("fused_conv (winograd") for name in fast["added"])
    assert before["macs"] == 56 * 56 * 64 * 64 * 9 > 2 * fast["macs"]
    _, strict = done["strict"]
    assert strict["macs"] == before["macs"]
    assert fast["estimated_seconds"] < strict["estimated_seconds"] < before["estimated_seconds"]


PRODUCTS = """\
version 1.0;
graph net( x, z ) -> ( y, d )
{
    x = external(shape = [1, 40, 64]);
    z = external(shape = [1, 64, 40]);
    w = variable(shape = [1, 64, 96], label = 'w');
    y = relu(matmul(x, w));
    d = matmul(x, z);
}
"""


def test_explain_lists_products_in_bfloat16(cli: Cli, tmp_path: Path) -> None:
    document = tmp_path / "graph.nnef"
    document.write_text(PRODUCTS)
    arguments = ("compile", document, "--random-weights", 1, "--explain")
    assert json.loads(cli(*arguments, "--json").out)["precisions"] == []
    facts = json.loads(cli(*arguments, "--json", "--precision", "bfloat16").out)["precisions"]
    shown = cli(*arguments, "--precision", "bfloat16").out
    if half_kernels(CompileConfig(precision="bfloat16")) is None:
        assert facts == []
        return
    reason = "both matrices are computed"
    assert facts == [
        {"operation": "fused_matmul", "precision": "bfloat16", "reason": "", "number": 1},
        {"operation": "matmul", "precision": "float32", "reason": reason, "number": 1},
    ]
    assert "products in bfloat16: 1 fused_matmul" in shown
    assert f"products in float32: 1 matmul: {reason}" in shown


CONVOLUTIONS = """\
version 1.0;
graph net( x ) -> ( y, z )
{
    x = external(shape = [1, 16, 8, 8]);
    u = variable(shape = [16, 16, 1, 1], label = 'u');
    v = variable(shape = [16, 1, 3, 3], label = 'v');
    a = conv(x, u);
    b = conv(a, v, groups = 0);
    y = tanh(b);
    z = conv(y, u);
}
"""


def test_explain_names_what_stays_float32(cli: Cli, tmp_path: Path) -> None:
    kernels = half_kernels(CompileConfig(precision="bfloat16"))
    if kernels is None or kernels.block:
        pytest.skip("the processor multiplies no bfloat16 in vectors")
    document = tmp_path / "graph.nnef"
    document.write_text(CONVOLUTIONS)
    arguments = ("compile", document, "--random-weights", 1, "--explain")
    shown = cli(*arguments, "--precision", "bfloat16").out
    assert "products in bfloat16: 2 fused_conv" in shown
    groups = "groups lie within blocks of channels, operands are stored as bfloat16"
    assert f"products in float32: 1 fused_conv: {groups}" in shown
    copied = "results in float32, copied as bfloat16: 1 fused_conv: it is a result"
    assert copied in shown
    facts = json.loads(cli(*arguments, "--json", "--precision", "bfloat16").out)["copies"]
    assert facts == [{"operation": "fused_conv", "reason": "it is a result", "number": 1}]


def test_every_pass_is_recorded(small: Path) -> None:
    """The last record is the lowered graph; the changes lead from each record to the next."""
    recorder = PassRecorder()
    passes: list[tuple[str, int, int]] = []

    def hook(graph: Graph, ran: PassRun) -> None:
        recorder(graph, ran)
        passes.append((ran.name, sum(map(executed_macs, graph.ops)), traffic_bytes(graph)))

    compile_graph(import_model(small, random_weights=1), CompileConfig(1), hook=hook)
    facts = recorder.facts()
    assert [(f["pass"], f["macs"], f["traffic_bytes"]) for f in facts] == passes
    operations = Counter(recorder.stages[0].operations)
    for fact in facts:
        operations.subtract(fact["removed"])
        operations.update(fact["added"])
        stored = operations["constant"] + operations["variable"]
        assert operations.total() - stored == fact["operations"]
        assert fact["changed"] or not fact["removed"] | fact["added"]


def stage(changed: bool = True, **operations: int) -> PassRecord:
    return PassRecord("pass", changed, 0.0, Counter(operations), 0, 0, 0.0)


def test_descriptions_of_changes() -> None:
    before = stage(conv=3, relu=12, add=2, constant=4)
    assert describe(before, before) == "12 relu, 4 constant, 3 conv, 2 add"
    assert describe(before, stage(False, conv=3)) == "nothing"
    fused = stage(conv=3, fused=2, constant=1)
    assert describe(before, fused) == "12 relu, 3 constant, 2 add -> 2 fused"
    assert describe(before, stage(conv=3, relu=12, add=2)) == "removed 4 constant"
    assert describe(before, stage(conv=3, relu=12, add=2, constant=5)) == "added 1 constant"
    assert describe(before, stage(conv=3, relu=12, add=2, constant=4)) == "operands or attributes"


def test_kinds_differ_by_algorithm_and_layout() -> None:
    graph = Graph("g")
    x = graph.add_input(TensorType(DType.FLOAT32, (1, 8, 4, 4)), "x")
    assert kind(build(graph, "relu", [x], {})) == "relu"
    blocked = TensorType(DType.FLOAT32, (1, 8, 4, 4), Blocked(8, ((0, 0), (0, 0))))
    op = Op("fused_conv", [x], {"algorithm": Winograd(4)}, [blocked])
    assert kind(op) == "fused_conv (winograd4, blocked)"


CODES = """\
graph g(%x: uint8[3,2], %y: uint16[2,2], %p: uint8[1,1,4], %f: uint8[1,1,3]) -> (a = %a,
  b = %b, c = %c) {
  %s: float32[] = constant() {shape = [], value = [0.5]}
  %z: uint8[] = constant() {shape = [], value = [7]}
  %t: uint16[] = constant() {shape = [], value = [7]}
  %w: uint8[2,2] = constant() {shape = [2, 2], value = tensor uint8[2,2] [1, 2, 3, 4]}
  %0: float32[] = constant() {shape = [], value = [0.0]}
  %1: float32[3,2] = dequantize(%x, %s, %z)
  %2: float32[2,2] = dequantize(%w, %s, %z)
  %3: float32[2,2] = dequantize(%y, %s, %t)
  %4: float32[1,1,4] = dequantize(%p, %s, %z)
  %5: float32[1,1,3] = dequantize(%f, %s, %z)
  %a: float32[3,2] = matmul(%1, %2) {transposeA = false, transposeB = false}
  %b: float32[3,2] = matmul(%1, %3) {transposeA = false, transposeB = false}
  %c: float32[1,1,4] = conv(%4, %5, %0) {border = "constant", padding = [[1, 1]],
    stride = [1], dilation = [1], groups = 1}
}
"""


def test_products_of_codes_in_floats_have_reasons() -> None:
    recorder = PassRecorder()
    run_pipeline(parse_graph(CODES), hook=recorder)
    kinds = [(fact["operation"], fact["number"]) for fact in recorder.float_facts()]
    assert kinds == [("matmul", 1), ("conv", 1)]
    reasons = [fact["reason"] for fact in recorder.float_facts()]
    assert [fact["results"] for fact in recorder.float_facts()] == [["b"], ["c"]]
    wide = "codes are uint8 and uint16; the second may be int16 if the first has 16 bits"
    assert reasons == [wide, "the filter is computed"]
    varying = [(fact["operation"], fact["number"]) for fact in recorder.varying_facts()]
    assert varying == [("matmul", 1), ("conv", 1)]


ZEROS = """\
graph g(%x: uint8[1,2,4], %v: uint8[2,1,1]) -> (a = %a, b = %b, c = %c, d = %d) {
  %s: float32[] = constant() {shape = [], value = [0.5]}
  %z: uint8[] = constant() {shape = [], value = [7]}
  %y: uint8[1,2,1] = constant() {shape = [1, 2, 1], value = tensor uint8[1,2,1] [7, 8]}
  %w: uint8[2,2,1] = constant() {shape = [2, 2, 1], value = tensor uint8[2,2,1] [1, 2, 3, 4]}
  %0: float32[] = constant() {shape = [], value = [0.0]}
  %1: float32[1,2,4] = dequantize(%x, %s, %z)
  %2: float32[1,2,4] = dequantize(%x, %s, %y)
  %3: float32[2,2,1] = dequantize(%w, %s, %z)
  %4: float32[2,2,1] = dequantize(%w, %s, %ZERO)
  %5: float32[2,2,1] = dequantize(%w, %s, %v)
  %a: float32[1,2,4] = conv(%1, %4, %0) {border = "constant", padding = [[0, 0]],
    stride = [1], dilation = [1], groups = 1}
  %b: float32[1,2,4] = conv(%2, %3, %0) {border = "constant", padding = [[0, 0]],
    stride = [1], dilation = [1], groups = 1}
  %c: float32[1,2,4] = conv(%1, %5, %0) {border = "constant", padding = [[0, 0]],
    stride = [1], dilation = [1], groups = 1}
  %d: float32[1,2,4] = conv(%1, %3, %0) {border = "constant", padding = [[0, 0]],
    stride = [1], dilation = [1], groups = 1}
}
"""
OUTPUTS = """\
  %t: uint8[2,1,1] = constant() {shape = [2, 1, 1], value = tensor uint8[2,1,1] [7, 8]}
  %1: """


def _zero_reasons(zero: str, text: str = ZEROS) -> list[str]:
    recorder = PassRecorder()
    run_pipeline(parse_graph(text.replace("ZERO", zero)), hook=recorder)
    return [fact["reason"] for fact in recorder.float_facts()]


def test_zero_points_of_filters_have_reasons() -> None:
    """They may vary along outputs, but not along a sum, and have to be known."""
    input_zeros, computed = "zero points of the input differ", "the filter is computed"
    along_sum = "zero points of the filter vary along a sum"
    assert _zero_reasons("y") == [along_sum, input_zeros, computed]
    along_outputs = ZEROS.replace("  %1: ", OUTPUTS, 1)
    assert _zero_reasons("t", along_outputs) == [input_zeros, computed]
    assert _zero_reasons("z") == [input_zeros, computed]


WINDOWS = """\
graph g(%x: int16[X]) -> (y = %y) {
  %s: float32[] = constant() {shape = [], value = [0.5]}
  %z: int16[] = constant() {shape = [], value = [7]}
  %o: int8[] = constant() {shape = [], value = [0]}
  %0: float32[] = constant() {shape = [], value = [0.0]}
  %w: int8[W] = constant() {shape = [W], value = [3]}
  %a: float32[X] = dequantize(%x, %s, %z)
  %b: float32[W] = dequantize(%w, %s, %o)
  %y: float32[Y] = conv(%a, %b, %0) {border = "BORDER", padding = [[0, 2]], stride = [1],
    dilation = [1], groups = GROUPS}
}
"""


@pytest.mark.parametrize(
    ("x", "w", "y", "window", "reason"),
    [
        ("1,4,9", "6,4,3", "1,6,9", ("constant", "1"), None),
        ("1,4,9", "6,2,3", "1,6,9", ("replicate", "2"), None),
        ("1,30000,5", "6,30000,3", "1,6,5", ("constant", "1"), None),
        ("1,60000,5", "2,30000,3", "1,2,5", ("constant", "2"), "sums may exceed int32"),
    ],
)
def test_convolutions_of_codes_of_16_bits_have_reasons(
    x: str, w: str, y: str, window: tuple[str, str], reason: str | None
) -> None:
    """Sums of a group are not cut into parts; those of all channels are."""
    text = WINDOWS
    for old, new in zip(("[X]", "[W]", "[Y]", "BORDER", "GROUPS"), (x, w, y, *window), strict=True):
        text = text.replace(old, new if old.isalpha() else f"[{new}]")
    recorder = PassRecorder()
    run_pipeline(parse_graph(text), hook=recorder)
    reasons = [fact["reason"] for fact in recorder.float_facts()]
    assert len(reasons) == (reason is not None)
    assert all(str(each).endswith(reason or "") for each in reasons), reasons


REALS = """\
graph g(%x: uint8[1,2,4], %y: uint8[1,2,4]) -> (a = %a, b = %b, c = %c, d = %d, e = %e) {
  %s: float32[] = constant() {shape = [], value = [0.5]}
  %t: float32[] = constant() {shape = [], value = [0.25]}
  %z: uint8[] = constant() {shape = [], value = [7]}
  %1: float32[1,2,4] = dequantize(%x, %s, %z)
  %2: float32[1,2,4] = dequantize(%y, %t, %z)
  %a: float32[1,2,4] = max_pool(%1) {size = [1, 1, 3], border = "constant",
    padding = [[0, 0], [0, 0], [1, 1]], stride = [1, 1, 1], dilation = [1, 1, 1]}
  %b: float32[1,4,4] = concat(%1, %2) {axis = 1}
  %c: float32[1,2,4] = softmax(%1) {axes = [2]}
  %d: float32[1,2,4] = exp(%1)
  %3: float32[1,2,4] = add(%1, %2)
  %4: float32[1,2,4] = tanh(%3)
  %e: uint8[1,2,4] = quantize(%4, %s, %z) {rounding = "even"}
}
"""


def test_other_operations_on_reals_have_reasons() -> None:
    recorder = PassRecorder()
    run_pipeline(parse_graph(REALS), hook=recorder)
    assert {fact["operation"]: fact["reason"] for fact in recorder.float_facts()} == {
        "max_pool": "zeros of the border are not the lowest code",
        "concat": "scales or zero points of operands differ, and the result is not quantized",
        "softmax": "there is no kernel for codes",
        "exp": "the result is not quantized",
    }
