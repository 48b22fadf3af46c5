"""Errors of models with symbols that no extents avoid are reported when a model is opened.

onnxruntime refuses the wrong models as well, or fails in every call, and runs the possible ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import nnefc
from nnefc import NnefError
from tests.helpers.command_line import Cli
from tests.helpers.onnx.models import model, node, save, tensor, weight
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def branch(name: str, *nodes: Any) -> Any:
    """A subgraph without inputs, whose result is that of the last node."""
    return helper.make_graph(list(nodes), name, [], [tensor(nodes[-1].output[0], None)])


def with_nodes(*nodes: Any, shape: Any = ("N", 3), **more: Any) -> Any:
    """A model of nodes that compute `y` from `x`."""
    outputs = more.pop("outputs", None) or [tensor("y", None)]
    return model(nodes, [tensor("x", shape)], outputs, **more)


TWICE = helper.make_function(
    "local",
    "Twice",
    ["a"],
    ["b"],
    [node("Add", ["a", "a"], ["c"]), node("Transpose", ["c"], ["b"], perm=[0, 2])],
    [helper.make_opsetid("", 17)],
)

WRONG: dict[str, tuple[Any, list[str]]] = {
    "cycle": (
        with_nodes(node("Add", ["x", "c"], ["b"], name="one"), node("Relu", ["b"], ["c"]),
                   node("Neg", ["c"], ["y"])),
        ["Add 'one': it needs its own result: Add 'one' needs Relu with result 'c' needs Add"],
    ),
    "claimed size": (
        with_nodes(
            node("MatMul", ["x", "w"], ["y"]),
            weights=[TensorProto(name="w", data_type=FLOAT, dims=[2**62, 2**62], raw_data=b"abcd")],
        ),
        ["initializer 'w': a tensor of shape [4611686018427387904, 4611686018427387904] has "],
    ),
    "undefined": (
        with_nodes(node("Add", ["x", "nowhere"], ["y"])),
        ["Add with result 'y': nothing before this node computes its input 'nowhere'"],
    ),
    "twice": (
        with_nodes(node("Neg", ["x"], ["y"]), node("Relu", ["x"], ["y"], name="again")),
        ["Relu 'again': 'y' is computed twice"],
    ),
    "no output": (with_nodes(node("Neg", ["x"], ["z"])), ["nothing computes the output 'y'"]),
    "declared": (
        with_nodes(node("Neg", ["x"], ["y"]), outputs=[tensor("y", ["N", 3], INT64)]),
        ["output 'y' of Neg is declared as int64[?,3], but is float32[?,?]"],
    ),
    "attribute": (
        with_nodes(node("Relu", ["x"], ["h"], slope=1.0), node("Softmax", ["h"], ["y"], axis=5)),
        ["Relu with result 'h': version 17 has no attribute 'slope'"],
    ),
    "axis and perm": (
        with_nodes(node("Softmax", ["x"], ["h"], axis=5),
                   node("Transpose", ["x"], ["p"], perm=[1, 1]), node("Neg", ["h"], ["y"])),
        ["Softmax with result 'h': ", "Transpose with result 'p': "],
    ),
    "types": (
        with_nodes(node("Cast", ["x"], ["i"], to=INT64), node("Add", ["x", "i"], ["y"])),
        ["Add with result 'y': the operands have different item types: A float32, B int64"],
    ),
    "behind comparisons": (
        with_nodes(node("Add", ["x", "w"], ["a"]), node("Mul", ["a", "x"], ["b"]),
                   node("Concat", ["b"], ["y"], axis=7),
                   weights=[weight("w", np.ones((1, 3), np.float32))]),
        ["Concat with result 'y': "],
    ),
    "known extents": (
        with_nodes(node("MatMul", ["x", "w"], ["y"], name="product"),
                   weights=[weight("w", np.ones((4, 5), np.float32))]),
        ["MatMul 'product': "],
    ),
    "function": (
        with_nodes(node("Twice", ["x"], ["y"], domain="local"), functions=[TWICE],
                   domains=["local"]),
        ["Transpose with result 'b': "],
    ),
    "branch": (
        with_nodes(
            node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]),
            node("Equal", ["n", "five"], ["c"]),
            node("If", ["c"], ["y"],
                 then_branch=branch("then", node("Neg", ["lost"], ["p"])),
                 else_branch=branch("else", node("Neg", ["lost"], ["q"]))),
            weights=[weight("zero", np.array(0)), weight("five", np.array(5))],
        ),
        [": nothing before this node computes its input 'lost'"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_reported_when_a_model_is_opened(case: str, cli: Cli, tmp_path: Path) -> None:
    made, expected = WRONG[case]
    path = save(made, tmp_path / "net.onnx")
    with pytest.raises(NnefError) as caught:
        nnefc.compile(path)
    messages = [each.message for each in caught.value.errors]
    assert len(messages) == len(expected), messages
    for message, part in zip(messages, expected, strict=True):
        assert part in message
    (checked,) = json.loads(cli("check", path, "--json").out)
    assert [each["message"] for each in checked["errors"]] == messages
    with pytest.raises(Exception, match=r".+"):
        onnxruntime_results(made, [np.ones((2, 3), np.float32)])


def test_symbols_are_named(tmp_path: Path) -> None:
    made = with_nodes(node("Conv", ["x", "x"], ["y"]), shape=["N", 3])
    with pytest.raises(NnefError, match=r"\[N, ?3\]"):
        nnefc.compile(save(made, tmp_path / "net.onnx"))


FORTY = weight("w", np.ones((40, 40), np.float32))


def possible_if() -> Any:
    """A branch that is only possible for 5 rows, as are the other one for all but 5."""
    return with_nodes(
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]),
        node("Equal", ["n", "five"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branch("then", node("Neg", ["x"], ["p"])),
             else_branch=branch("else", node("Concat", ["x"], ["q"], axis=4))),
        weights=[weight("zero", np.array(0)), weight("five", np.array(5))],
    )  # fmt: skip


POSSIBLE: dict[str, tuple[Any, tuple[int, ...]]] = {
    "product": (with_nodes(node("MatMul", ["x", "w"], ["y"]), shape=["N", "K"], weights=[FORTY]),
                (2, 40)),
    "sum": (with_nodes(node("Add", ["x", "w"], ["y"]), shape=["N", "K"], weights=[FORTY]),
            (40, 40)),
    "reshape": (with_nodes(node("Reshape", ["x", "s"], ["y"]),
                           weights=[weight("s", np.array([7, 3]))]), (7, 3)),
    "split": (with_nodes(node("Split", ["x", "s"], ["y", "z"], axis=0),
                         weights=[weight("s", np.array([5, 6]))]), (11, 3)),
    "window": (with_nodes(node("MaxPool", ["x"], ["h"], kernel_shape=[50, 50]),
                          node("MaxPool", ["h"], ["y"], kernel_shape=[2000, 1]),
                          shape=[1, 1, "H", "W"]), (1, 1, 2049, 50)),
    "squeeze": (with_nodes(node("Squeeze", ["x", "a"], ["y"]), weights=[weight("a", np.array([0]))],
                           shape=["N", 3]), (1, 3)),
    "branch": (possible_if(), (5, 3)),
}  # fmt: skip


@pytest.mark.parametrize("case", POSSIBLE)
def test_models_that_some_extents_make_possible_are_opened(case: str, tmp_path: Path) -> None:
    made, shape = POSSIBLE[case]
    x = np.random.default_rng(0).random(shape, np.float32)
    (y, *_) = (
        onnxruntime_results(made, [x]) if case != "branch" else [-x]
    )  # onnxruntime checks both branches
    compiled: Any = nnefc.compile(save(made, tmp_path / "net.onnx"), keep=False)
    source = compiled._planner.document
    (name,) = source.inputs
    graph = source.graph({name: shape})
    assert graph.outputs[0].type.dims == y.shape


def test_values_that_decide_shapes(tmp_path: Path) -> None:
    """Errors beside an input whose values decide shapes, and none where values are impossible."""
    k = tensor("k", [1], INT64)
    good = node("TopK", ["x", "k"], ["v", "i"], axis=1)
    outputs = [tensor("v", None), tensor("y", None)]
    made = model([good, node("Softmax", ["x"], ["y"], axis=-4)], [tensor("x", [2, 9]), k], outputs)
    with pytest.raises(NnefError, match="Softmax with result 'y'"):
        nnefc.compile(save(made, tmp_path / "net.onnx"))
    sizes = tensor("k", [2], INT64)
    split = node("Split", ["x", "k"], ["v", "y"], axis=1)
    made = model([split], [tensor("x", [2, 90]), sizes], outputs)
    x = np.ones((2, 90), np.float32)
    net: Any = nnefc.compile(save(made, tmp_path / "net.onnx"), keep=False)
    assert [each.shape for each in net(x, np.array([80, 10]))] == [(2, 80), (2, 10)]
