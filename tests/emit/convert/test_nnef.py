"""ONNX models as NNEF documents: names, constants, what 1.0.2 lacks, and what no document says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto

import nnefc
from nnefc.emit.convert.nnef_model import NnefModel, nnef_model
from nnefc.frontends.read_model import read_onnx_bytes
from nnefc.ir import Graph
from nnefc.options.import_config import DEFAULT
from nnefc.support.errors import NnefError
from tests.helpers.onnx.models import model, node, tensor, weight

nnef: Any = pytest.importorskip("nnef")
Array = np.ndarray[Any, Any]


def graph_of(made: ModelProto) -> Graph:
    content = made.SerializeToString()
    graph = read_onnx_bytes(content, DEFAULT, DEFAULT.diagnostics(), dynamic=False)
    assert isinstance(graph, Graph)
    return graph


def converted(made: ModelProto, path: Path) -> tuple[Graph, NnefModel]:
    """The graph of a model, and its document, which is written to `path`."""
    graph = graph_of(made)
    result = nnef_model(graph)
    result.write(path)
    return graph, result


def many_operations() -> ModelProto:
    """Convolution, pooling, constants of all kinds, and operations of later versions."""
    rng = np.random.default_rng(1)
    mask = np.where(rng.random((4, 4)) < 0.5, -np.inf, 0).astype(np.float32)
    nodes = [
        node("Conv", ["x", "w", "b"], ["conv/out"], pads=[1, 1, 1, 1]),
        node("MaxPool", ["conv/out"], ["p:0"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Swish", ["p:0"], ["swish"], alpha=1.0),
        node("HardSigmoid", ["swish"], ["hard"]),
        node("Add", ["hard", "mask"], ["masked"]),
        node("Softmax", ["masked"], ["soft"], axis=-1),
        node("Flatten", ["soft"], ["flat"]),
        node("Gemm", ["flat", "g", "c"], ["größe"], transB=1),
        node("Relu", ["größe"], ["1"]),
    ]
    return model(
        nodes,
        [tensor("x", [1, 2, 8, 8])],
        [tensor("1", [1, 3]), tensor("größe", [1, 3])],
        [
            weight("w", rng.standard_normal((4, 2, 3, 3), np.float32)),
            weight("b", rng.standard_normal(4, np.float32)),
            weight("mask", mask),
            weight("g", rng.standard_normal((3, 64), np.float32)),
            weight("c", rng.standard_normal(3, np.float32)),
        ],
        opset=24,
    )


def test_a_converted_model_computes_the_same_bits(tmp_path: Path) -> None:
    graph, result = converted(many_operations(), tmp_path / "net.nnef.tgz")
    assert result.converted.dialect == "NNEF 1.0.2"
    assert result.converted.renamed == {"1": "t_1", "größe": "t_gr__e"}
    nnefc.import_model(tmp_path / "net.nnef.tgz", strict=True)
    x = np.random.default_rng(2).standard_normal((1, 2, 8, 8), np.float32)
    expected = nnefc.compile(graph)(x)
    found = nnefc.compile(tmp_path / "net.nnef.tgz")(x)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_the_parser_of_khronos_reads_the_folder(tmp_path: Path) -> None:
    converted(many_operations(), tmp_path / "net")
    graph: Any = nnef.load_graph(str(tmp_path / "net"))
    nnef.infer_shapes(graph)
    assert list(graph.outputs) == ["t_1", "t_gr__e"]
    assert graph.tensors["t_1"].shape == [1, 3]


_NAMES = st.lists(st.text(min_size=1, max_size=6), min_size=2, max_size=5, unique=True)


@given(_NAMES)
def test_any_names_become_different_identifiers(names: list[str]) -> None:
    first, *others = (
        each.encode(errors="replace").decode() + str(i) for i, each in enumerate(names)
    )
    nodes = [node("Exp", [first], [other], name=first) for other in others]
    made = model(nodes, [tensor(first, [2])], [tensor(other, [2]) for other in others])
    result = nnef_model(graph_of(made))
    written = [end.written for end in (*result.converted.inputs, *result.converted.results)]
    assert [end.name for end in result.converted.results] == others
    assert len({*written}) == len(names)
    graph = nnef.parse_string(result.text)
    assert [*graph.inputs, *graph.outputs] == written


def test_everything_without_notation_is_refused_at_once() -> None:
    nodes = [
        *(node("Erf", [x], [y]) for x, y in [("x", "a"), ("a", "b"), ("b", "y")]),
        node("NonZero", ["y"], ["n"]),
        node("Add", ["i", "i"], ["j"]),
    ]
    inputs = [tensor("x", [3]), tensor("i", [3], 7)]
    outputs = [tensor("y", [3]), tensor("n", [1, "n"], 7), tensor("j", [3], 7)]
    with pytest.raises(NnefError) as refused:
        nnef_model(graph_of(model(nodes, inputs, outputs)))
    assert "axis 1 of result 'n'" in str(refused.value)
    with pytest.raises(NnefError) as refused:
        nnef_model(graph_of(model(nodes, inputs, [outputs[0], outputs[2]])))
    messages = [error.message for error in refused.value.errors]
    assert messages == [
        "'a': 'erf' cannot be written in NNEF (3 times)",
        "'j': 'add' has integer operands, in NNEF only scalars",
    ]


def test_two_widths_of_scalars_and_wide_integers_are_refused() -> None:
    nodes = [
        node("Cast", ["x"], ["y"], to=11),
        node("Identity", ["wide"], ["z"]),
    ]
    outputs = [tensor("y", [2], 11), tensor("z", [2], 7)]
    made = model(nodes, [tensor("x", [2])], outputs, [weight("wide", np.array([1, 1 << 40]))])
    with pytest.raises(NnefError) as refused:
        nnef_model(graph_of(made))
    first, second = (error.message for error in refused.value.errors)
    assert "in float32 and in float64" in first
    assert f"the value {1 << 40}" in second
