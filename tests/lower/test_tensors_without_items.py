"""Constants and inputs with an extent of 0, in graphs that no front end made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.tools.build import build
from nnefc.support.errors import NnefError

Array = np.ndarray[Any, Any]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def empty(graph: Graph, *shape: int, dtype: DType = DType.FLOAT32) -> Value:
    attributes = {"shape": shape, "value": ()}
    return graph.insert(Op("constant", (), attributes, [TensorType(dtype, shape)])).output


def test_results_are_those_of_numpy() -> None:
    graph = Graph("g")
    x = graph.add_input(TensorType(DType.FLOAT32, (2, 3)), "x")
    none = graph.add_input(TensorType(DType.FLOAT32, (0, 3)), "none")
    indices = empty(graph, 0, dtype=DType.INT64)
    row = build(graph, "slice", [x], {"axes": (0,), "begin": (0,), "end": (1,)}).output
    rows, columns = empty(graph, 0, 3), empty(graph, 3, 0)
    given: list[tuple[str, list[Value], dict[str, Any], Array]] = [
        ("add", [rows, row], {}, np.zeros((0, 3))),
        ("relu", [none], {}, np.zeros((0, 3))),
        ("softmax", [columns], {"axes": (1,)}, np.zeros((3, 0))),
        ("matmul", [x, columns], {}, np.zeros((2, 0))),
        ("matmul", [columns, rows], {}, np.zeros((3, 3))),
        ("gather", [x, indices], {"axis": 0}, np.zeros((0, 3))),
        ("sum_reduce", [none], {"axes": (0,)}, np.zeros((1, 3))),
        ("concat", [rows, x, none], {"axis": 0}, X),
    ]
    for i, (name, operands, attributes, _) in enumerate(given):
        graph.add_output(build(graph, name, operands, attributes).output, f"y{i}")
    found: Any = nnefc.compile(graph, keep=False, threads=1)(X, np.zeros((0, 3), np.float32))
    for (name, *_, want), y in zip(given, found, strict=True):
        np.testing.assert_array_equal(y, want, err_msg=name)


@pytest.mark.parametrize("name", ["max_reduce", "argmin_reduce"])
def test_maxima_of_no_items_are_errors(name: str) -> None:
    graph = Graph("g")
    graph.add_input(TensorType(DType.FLOAT32, (2, 3)), "x")
    graph.add_output(build(graph, name, [empty(graph, 0, 3)], {"axes": (0,)}).output, "y")
    with pytest.raises(NnefError, match=f"no {name} of a tensor without items"):
        nnefc.compile(graph, keep=False)
