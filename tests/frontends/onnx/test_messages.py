"""The wording of errors of ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest

import nnefc
from nnefc import NnefError
from tests.helpers.command_line import Cli
from tests.helpers.onnx.models import save
from tests.helpers.onnx.text_models import parsed


def message_of(folder: Path, text: str) -> str:
    """The errors of a model in the text syntax, when it is compiled."""
    path = save(parsed(text), folder / "net.onnx")
    with pytest.raises(NnefError) as caught:
        nnefc.compile(path)
    return str(caught.value)


def test_numbers_of_limits_have_separators(tmp_path: Path) -> None:
    text = (
        "(float[2] x) => (int64[N] y) { a = Constant<value = int64 {0}>() "
        "b = Constant<value = int64 {1099511627776}>() c = Constant<value = int64 {1}>() "
        "y = Range(a, b, c) }"
    )
    assert "more than 10,000,000 array items" in message_of(tmp_path, text)


def test_missing_operators_hide_no_other_errors(tmp_path: Path) -> None:
    text = (
        "(float[N,4] x) => (float[N,4] y) { a = Foo(x) b = Foo(a) "
        'c = ai.onnx.ml.Normalizer<norm="L2">(b) '
        "d = Reluu(c) e = MatMul(d) p = Softmax<axiss=1>(e) y = Concat(p, p) }"
    )
    expected = [
        "ai.onnx.Foo of version 17, used 2 times, is not supported",
        "ai.onnx.ml.Normalizer of version 1",
        "ai.onnx.Reluu of version 17",
        "MatMul with result 'e': 'B' is missing",
        "Softmax with result 'p': version 17 has no attribute 'axiss'",
        "Concat with result 'y': 'axis' is missing",
    ]
    lines = [line for line in message_of(tmp_path, text).splitlines() if ": error: " in line]
    assert len(lines) == len(expected), lines
    for line, part in zip(lines, expected, strict=True):
        assert part in line


@pytest.mark.parametrize("rows", ["2", "N"])
def test_errors_behind_an_error(tmp_path: Path, rows: str) -> None:
    """Arguments do not depend on the result that is missing."""
    text = (
        f'(float[{rows},4] x) => (float[N] y) {{ h = MatMul(x, x, x) s = Softmax<axis="a">(h) '
        "r = Relu(s, s) y = Concat<axes=1>(r, lost) }"
    )
    text = message_of(tmp_path, text)
    assert "MatMul with result 'h': takes at most 2 inputs, not 3" in text
    assert "Softmax with result 's': 'axis' is the string 'a', but must be an integer" in text
    assert "Relu with result 'r': takes at most 1 inputs, not 2" in text
    assert "nothing before this node computes its input 'lost'" in text


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ('Softmax<axis="a">(x)', "'axis' is the string 'a', but must be an integer"),
        ("Softmax<axis=1.0>(x)", "'axis' is the real number 1.0, but must be an integer"),
        ("Transpose<perm=[1.0, 0.0]>(x)", "'perm' is the real number 1.0, but must be an integer"),
        ("LeakyRelu<alpha=1>(x)", "'alpha' is the integer 1, but must be a real number"),
        ("Gelu<approximate=1>(x)", "'approximate' is the integer 1, but must be a string"),
    ],
)
def test_types_of_attributes(tmp_path: Path, node: str, says: str) -> None:
    """The checker of the package onnx refuses these, too."""
    made = parsed(f"(float[2,3] x) => (float[2,3] y) {{ y = {node} }}", 20)
    with pytest.raises(onnx.checker.ValidationError):
        cast("Any", onnx.checker).check_model(made, full_check=True)
    with pytest.raises(NnefError) as caught:
        nnefc.compile(save(made, tmp_path / "net.onnx"))
    assert says in str(caught.value)


CALLS = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
g (float[2] x) => (float[2] y) { y = my.one(x) }
<domain: "my", opset_import: ["": 17, "my": 1]> one (q) => (r) { r = my.two(q) }
<domain: "my", opset_import: ["": 17, "my": 1]> two (q) => (r) { p = Relu(q) r = my.THREE(p) }
"""


@pytest.mark.parametrize(
    ("three", "says"),
    [("two", "function 'my.two' calls itself ["), ("one", "calls itself, by way of 'my.two' [")],
)
def test_recursive_functions(tmp_path: Path, three: str, says: str) -> None:
    made = onnx.parser.parse_model(CALLS.replace("THREE", three))
    with pytest.raises(NnefError) as caught:
        nnefc.compile(save(made, tmp_path / "net.onnx"))
    (error,) = caught.value.errors
    assert error.rule == "onnx/function"
    assert says in str(error)


def test_cycles_are_named(tmp_path: Path) -> None:
    text = "(float[2] x) => (float[2] y) { a = Add(x, b) b = Relu(a) y = Neg(b) }"
    shown = message_of(tmp_path, text)
    assert (
        "it needs its own result: Add with result 'a' needs Relu with result 'b' needs Add" in shown
    )
    assert "cycle" in shown


def test_the_file_stands_before_the_severity(tmp_path: Path) -> None:
    """Whether an error belongs to a node or to an operation that a node became."""
    shown = message_of(tmp_path, "(float[2] x) => (float[1] y) { y = Gather(x) }")
    assert "net.onnx: error: Gather with result 'y': 'indices' is missing" in shown
    text = "(float[2] x, int64[1] i) => (float[1] y) { y = Gather(x, i) }"
    compiled: Any = nnefc.compile(save(parsed(text), tmp_path / "net.onnx"))
    with pytest.raises(NnefError) as caught:
        compiled(np.ones(2, np.float32), np.array([2]))
    assert "net.onnx: error: Gather with result 'y': gather %y: index 2" in str(caught.value)


@pytest.mark.parametrize("rows", ["2", "N"])
@pytest.mark.parametrize("behind", [0, 1, 2])
def test_nodes_behind_errors_are_counted(cli: Cli, tmp_path: Path, rows: str, behind: int) -> None:
    nodes = "h = MatMul(x, x) " + ["y = Relu(x)", "y = Relu(h)", "p = Neg(h) y = Add(p, x)"][behind]
    path = save(
        parsed(f"(float[{rows},4,7] x) => (float[n,m,k] y) {{ {nodes} }}"), tmp_path / "net.onnx"
    )
    shown = cli("check", path)
    assert "error: MatMul with result 'h'" in shown.err
    said = ["", "1 node needs results", "2 nodes need results"][behind]
    assert said in shown.err
    assert ("onnx/unchecked" in shown.err) == (behind > 0)
