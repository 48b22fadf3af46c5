"""Models whose nodes are not sorted run, with a warning; cycles are errors."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, helper

import nnefc
from nnefc import NnefError
from nnefc.frontends.onnx.model import graphs_of
from nnefc.frontends.onnx.node_order import sort_nodes
from nnefc.onnx import InferenceSession
from tests.helpers.onnx.models import model, node, save, tensor, weight

X = np.array([1.0, -2.0, 3.0], np.float32)
CONDITION = tensor("c", [], 9)


def branching() -> ModelProto:
    """Nodes in order; the branches of the `If` take `a` and `b`, and define a `d` of their own."""
    then = helper.make_graph(
        [node("Mul", ["a", "b"], ["d"]), node("Neg", ["d"], ["t"])], "then", [], [tensor("t", [3])]
    )
    other = helper.make_graph([node("Identity", ["b"], ["e"])], "else", [], [tensor("e", [3])])
    nodes = [
        node("Abs", ["x"], ["a"], name="first"),
        node("Exp", ["a"], ["b"]),
        node("If", ["c"], ["r"], then_branch=then, else_branch=other),
        node("Add", ["r", "w"], ["d"]),
        node("Sub", ["d", "x"], ["y"], name="last"),
    ]
    return model(nodes, [tensor("x", [3]), CONDITION], [tensor("y", [3])], [weight("w", X)])


def shuffled(made: ModelProto, seed: int, *, within: bool = True) -> ModelProto:
    """The nodes of a model in another order; `within`: those of its branches as well."""
    mixed = ModelProto()
    mixed.CopyFrom(made)
    order = random.Random(seed)
    pending: list[Any] = [mixed.graph]
    while pending:
        graph = pending.pop()
        nodes = [*map(copied, graph.node)]
        order.shuffle(nodes)
        del graph.node[:]
        graph.node.extend(nodes)
        if within:
            pending += [body for each in graph.node for body in graphs_of(each)]
    return mixed


def copied(proto: NodeProto) -> NodeProto:
    return NodeProto.FromString(proto.SerializeToString())


@given(st.integers(0, 2**16))
def test_any_order_is_sorted(seed: int) -> None:
    mixed = shuffled(branching(), seed)
    sort_nodes(mixed)
    checked: Any = onnx.checker
    checked.check_model(mixed)
    assert sort_nodes(mixed) == []


def test_sorted_nodes_stay() -> None:
    made = branching()
    assert sort_nodes(made) == []
    assert made == branching()


@pytest.mark.filterwarnings("ignore::nnefc.NnefWarning")
@pytest.mark.parametrize("seed", [1, 2])
def test_results_are_those_of_onnxruntime(seed: int, tmp_path: Path) -> None:
    """onnxruntime sorts the nodes of the main graph only."""
    runtime: Any = pytest.importorskip("onnxruntime")
    path = save(shuffled(branching(), seed, within=False), tmp_path / "net.onnx")
    for condition in (True, False):
        feed = {"x": X, "c": np.array(condition)}
        (expected,) = runtime.InferenceSession(str(path)).run(None, feed)
        (y,) = InferenceSession(path).run(None, feed)
        np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_the_warning_names_node_and_input(tmp_path: Path) -> None:
    made = model(
        [node("Neg", ["a"], ["y"], name="late"), node("Abs", ["x"], ["a"])],
        [tensor("x", [3])],
        [tensor("y", [3])],
    )
    path = save(made, tmp_path / "net.onnx")
    text = r"Neg 'late': a later node computes its input 'a' \[onnx/order\]"
    with pytest.warns(nnefc.NnefWarning, match=text):
        nnefc.import_model(path)
    with pytest.raises(NnefError, match=text):
        nnefc.import_model(path, strict=True)


def test_bodies_of_functions_are_sorted(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 17)]
    body = [node("Neg", ["b"], ["a"]), node("Abs", ["x"], ["b"])]
    function = helper.make_function("own", "F", ["x"], ["a"], body, opsets)
    made = model(
        [node("F", ["x"], ["y"], domain="own")],
        [tensor("x", [3])],
        [tensor("y", [3])],
        functions=[function],
        domains=["own"],
    )
    with pytest.warns(nnefc.NnefWarning, match="Neg with result 'a'"):
        compiled = nnefc.compile(save(made, tmp_path / "net.onnx"), keep=False)
    np.testing.assert_array_equal(compiled(X), -np.abs(X))


def test_a_loop_before_what_it_needs_is_counted() -> None:
    """Such a loop is run by two models, which the parts of the first one make."""
    body = helper.make_graph(
        [
            node("Add", ["s", "s"], ["t"]),
            node("ReduceMax", ["t"], ["m"], keepdims=0),
            node("Less", ["m", "limit"], ["d"]),
            node("Identity", ["t"], ["u"]),
        ],
        "body",
        [tensor("i", [], 7), CONDITION, tensor("s", [3])],
        [tensor("d", [], 9), tensor("t", [3]), tensor("u", [3])],
    )
    nodes = [node("Loop", ["", "yes", "a"], ["f", "y"], body=body), node("Abs", ["x"], ["a"])]
    weights = [weight("yes", np.bool_(True)), weight("limit", np.float32(20))]
    made = model(nodes, [tensor("x", [3])], [tensor("y", None)], weights)
    with pytest.warns(nnefc.NnefWarning, match="onnx/order"):
        (y,) = InferenceSession(made.SerializeToString()).run(None, {"x": X})
    np.testing.assert_array_equal(y, [np.abs(X) * 2 ** (k + 1) for k in range(3)])


def test_a_cycle_is_an_error(tmp_path: Path) -> None:
    made = model(
        [node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), node("Neg", ["b"], ["y"])],
        [tensor("x", [3])],
        [tensor("y", [3])],
    )
    text = r"Add with result 'a' needs Neg with result 'b' needs Add with result 'a'"
    with pytest.raises(NnefError, match=text) as caught:
        nnefc.import_model(save(made, tmp_path / "net.onnx"))
    assert len(caught.value.errors) == 1
