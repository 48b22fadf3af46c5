"""Flattened documents are the same graph in a canonical form (chapter 6)."""

from __future__ import annotations

import numpy as np
import pytest

from nnefc.frontends.nnef import import_text
from nnefc.frontends.nnef.flatten import flatten
from nnefc.ir import DType, Graph, Op, TensorType
from nnefc.ir.compare import difference, graphs_equal
from nnefc.ops.tools.build import build
from nnefc.support.errors import NnefError
from nnefc.syntax.parser import parse
from tests.helpers.nnef.text import document, load

FRAGMENTS = """fragment f( x: tensor<scalar>, k: integer[] ) -> ( y: tensor<scalar> )
{
    t = [for i in k yield max_reduce(x, axes = [i])];
    y = t[0] + 2.0 * t[1] if length_of(k) > 1 else t[0];
}
"""


def test_flattened_text_is_canonical() -> None:
    graph = load("y = f(x, k = [0,1]);\nz = copy(1.0 + x);", FRAGMENTS, results="y, z")
    assert (
        flatten(graph)
        == """version 1.0;

graph g( x ) -> ( y, z )
{
    x = external(shape = [2, 3]);
    max_reduce_1 = max_reduce(x, axes = [0]);
    max_reduce_2 = max_reduce(x, axes = [1]);
    mul_1 = mul(2.0, max_reduce_2);
    y = add(max_reduce_1, mul_1);
    add_1 = add(1.0, x);
    z = copy(add_1);
}
"""
    )


@pytest.mark.parametrize(
    "statement",
    [
        "y = external<integer>(shape = []);",
        "y = constant<logical>(shape = [2], value = [true,false]);",
        "y = constant<integer>(shape = [], value = [-3]);",
        "y = constant(shape = [3], value = [-0.0, 1e-30, 123456789.125]);",
        "y = variable<logical>(shape = [1], label = 'a\\\\b');",
        "y = cast<integer>(x);",
        "y = cast<scalar>(x > 0.0);",
        "y = select(x > 0.0, 1.0, 0.0);",
        "y = select(true, 1, 2);",
        "[y, z] = unstack(x, axis = 0);",
        "[y] = copy_n(x, times = 1);",
        "y, z = moments(x, axes = [0]);",
        "y = conv(x, x);",
        "y = conv(x, x, 0.0, groups = 1, border = 'constant');",
        "y = conv(x, x, 1.0, stride = []);",
        "y = add_n([x, x]);",
        "y = concat([x, x], axis = 1);",
        "y = stack([x, 1.0 * x], axis = 0);",
        "y = pad(x, padding = [(0,0),(1,1)], border = 'constant', value = -1.0);",
        "y = x;",
        "y = 1.0 + 2.0 * x;",
        "version_ = x; y = copy(version_);",
    ],
)  # fmt: skip
def test_flattened_documents_give_the_same_graph(statement: str) -> None:
    text = document(statement)
    if "external" in statement:
        text = document(statement, parameters="y")
    graph = import_text(text)
    flat = flatten(graph)
    again = import_text(flat)
    assert difference(graph, again) is None
    assert flatten(again) == flat


def test_defaults_and_types_are_left_out() -> None:
    graph = load("y = conv(x, x, 0.0, groups = 1, border = 'constant', stride = []);")
    assert "y = conv(x, x);" in flatten(graph)
    graph = load("y = copy<scalar>(x);")
    assert "y = copy(x);" in flatten(graph)


def test_a_document_is_flattened_without_data() -> None:
    text = document("y = f(x, k = [0]);", FRAGMENTS)
    assert flatten(parse(text)) == flatten(import_text(text))
    with pytest.raises(NnefError):
        flatten(parse(document("y = nope(x);")))


def test_graphs_from_elsewhere() -> None:
    graph = Graph("my graph")
    x = graph.add_input(TensorType(DType.FLOAT32, (2,)), "in")
    weights = np.array([0.1, 3.0], np.float32)
    constant = build(graph, "constant", [], {"shape": (2,), "value": weights}).output
    first = build(graph, "add", [x, constant], names=["graph"]).output
    second = build(graph, "add", [x, constant], names=["graph"]).output
    graph.add_output(first, "y")
    graph.add_output(second, "in")
    graph.add_output(first, "again")
    graph.add_output(x, "x")
    text = flatten(graph)
    assert "[0.1, 3.0]" in text
    again = import_text(text)
    assert [op.name for op in again.ops] == ["constant", "add", "add", "copy", "copy"]
    assert len(again.outputs) == 4
    assert again.outputs[0] is not again.outputs[2]


def test_graphs_that_nnef_cannot_express() -> None:
    graph = Graph()
    x = graph.add_input(TensorType(DType.FLOAT32, (2,)), "x")
    graph.insert(Op("fused", [x], {}, [x.type], ["y"]))
    with pytest.raises(NnefError, match="flatten/operation"):
        flatten(graph)
    graph = Graph()
    build(graph, "constant", [], {"shape": (1,), "value": (float("inf"),)}, names=["y"])
    message = "'constant' cannot be written in NNEF: inf has no literal .flatten/literal"
    with pytest.raises(NnefError, match=message):
        flatten(graph)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("y = x + 1.0;", "y = x + 2.0;"),
        ("y = x + 1.0;", "y = 1.0 + x;"),
        ("y = x + 1.0;", "y = x - 1.0;"),
        ("y = softmax(x, axes = [0]);", "y = softmax(x, axes = [1]);"),
        ("y = relu(x);", "z = relu(x); y = relu(x);"),
        ("z = relu(x); y = relu(z);", "z = relu(x); y = relu(x);"),
        ("y = variable(shape = [1], label = 'a');", "y = variable(shape = [1], label = 'b');"),
        ("y = constant(shape=[], value=[1.0]);", "y = constant<integer>(shape=[], value=[1]);"),
        ("x = external(shape = [1]); y = x;", "x = external(shape = [2]); y = x;"),
    ],
)
def test_differences_are_found(one: str, other: str) -> None:
    assert graphs_equal(load(one), load(one))
    assert not graphs_equal(load(one), load(other))


def test_names_can_be_left_out_of_the_comparison() -> None:
    a, b = load("t = relu(x); y = relu(t);"), load("s = relu(x); y = relu(s);")
    assert not graphs_equal(a, b)
    assert graphs_equal(a, b, names=False)
