"""Elimination of common subexpressions merges equal constants, and reads few of their items."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from nnefc.ir import DType, Graph, Op, TensorType
from nnefc.ir.graph import Attribute
from nnefc.ops.tools.build import build
from nnefc.passes.cleanup import eliminate_common_subexpressions as subject
from nnefc.passes.cleanup.eliminate_common_subexpressions import EliminateCommonSubexpressions

Array = np.ndarray[Any, Any]


def constants(*arrays: Array) -> Graph:
    """A graph whose outputs are constants."""
    graph = Graph("constants")
    for i, array in enumerate(arrays):
        attributes: dict[str, Attribute] = {"shape": array.shape, "value": array}
        type_ = TensorType(DType.FLOAT32, array.shape)
        op = graph.insert(Op("constant", (), attributes, [type_]))
        graph.add_output(build(graph, "copy", [op.output]).output, f"y{i}")
    return graph


def constants_left(graph: Graph) -> int:
    EliminateCommonSubexpressions().run(graph)
    return sum(op.name == "constant" for op in graph.ops)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Array]:
    """The arrays whose items the pass has read, in order."""
    seen: list[Array] = []
    real = subject.print_attribute

    def print_attribute(value: Any, *more: Any) -> str:
        if isinstance(value, np.ndarray):
            seen.append(cast(Array, value))
        return real(value, *more)

    monkeypatch.setattr(subject, "print_attribute", print_attribute)
    return seen


LARGE = np.arange(100, dtype=np.float32)


def changed(at: int) -> Array:
    other = LARGE.copy()
    other[at] = -1
    return other


@pytest.mark.parametrize(
    ("others", "count", "reads"),
    [
        ([LARGE.copy()], 1, 2),
        ([LARGE], 1, 0),
        ([LARGE, LARGE.copy()], 1, 3),
        ([changed(0)], 2, 0),
        ([changed(99)], 2, 2),
        ([changed(99), LARGE.copy(), changed(0), changed(99)], 3, 4),
        ([LARGE[:50]], 2, 0),
        ([LARGE.reshape(10, 10)], 2, 0),
        ([LARGE.reshape(10, 10), np.ascontiguousarray(LARGE.reshape(10, 10).T).T], 2, 2),
    ],
)
def test_equal_constants_are_merged_after_few_reads(
    read: list[Array], others: list[Array], count: int, reads: int
) -> None:
    assert constants_left(constants(LARGE, *others)) == count
    assert len(read) == reads


def test_arrays_are_compared_by_bits() -> None:
    zero, negative = np.zeros(40, np.float32), np.zeros(40, np.float32)
    negative[30] = -0.0
    assert constants_left(constants(zero, negative)) == 2
    nan = np.full(40, np.nan, np.float32)
    assert constants_left(constants(nan, nan.copy())) == 1
