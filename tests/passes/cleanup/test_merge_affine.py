"""Merging and folding constants keeps roundings that a model is made for.

The oracle is arithmetic in float32, one operation after the other.
"""

from __future__ import annotations

import numpy as np
import pytest

from nnefc.ir import parse_graph
from nnefc.passes.cleanup.merge_affine import MergeAffine
from nnefc.passes.fold.fold_affine import FoldAffine

X = np.array([0.3, 1.7, -2.6, 1e-10, 1e5], np.float32)
ROUNDING = 12582912.0
"""3 * 2^22: a sum with it has no bits behind the point."""


def _chain(*terms: float) -> str:
    """A graph that adds terms to x, and multiplies the sum by 2."""
    lines = ["graph g(%x: float32[5]) -> (y = %y) {"]
    names = ["x", *(f"s{i}" for i in range(len(terms)))]
    for i, term in enumerate(terms):
        lines.append(f"%c{i}: float32[] = constant() {{shape = [], value = [{term}]}}")
        lines.append(f"%{names[i + 1]}: float32[5] = add(%{names[i]}, %c{i})")
    lines.append("%two: float32[] = constant() {shape = [], value = [2.0]}")
    return "\n".join([*lines, f"%y: float32[5] = mul(%{names[-1]}, %two)", "}"])


def _terms_left(terms: tuple[float, ...]) -> list[float]:
    graph = parse_graph(_chain(*terms))
    MergeAffine().run(graph)
    left: list[float] = []
    for op in graph.ops:
        if op.name == "add":
            (constant,) = [v.op for v in op.inputs if v.op and v.op.name == "constant"]
            left.append(float(np.ravel(constant.attributes["value"])[0]))
    return left


def _computed(terms: tuple[float, ...] | list[float]) -> np.ndarray:
    y = X
    for term in terms:
        y = y + np.float32(term)
    return y


@pytest.mark.parametrize(
    "terms",
    [
        (ROUNDING, -ROUNDING),
        (ROUNDING, -ROUNDING, 3.0),
        (0.3, ROUNDING, -ROUNDING),
        (1e9, -1e9 + 64),
        (-1e6, 0.3),
        (0.5, -0.5),
    ],
)
def test_terms_that_cancel_keep_their_rounding(terms: tuple[float, ...]) -> None:
    np.testing.assert_array_equal(_computed(_terms_left(terms)), _computed(terms))


@pytest.mark.parametrize("terms", [(1.0, 2.0), (5.0, -3.0), (-104.0, -116.0), (7.0, 0.125)])
def test_other_terms_are_merged(terms: tuple[float, ...]) -> None:
    assert _terms_left(terms) == [sum(terms)]


CONVOLUTION = """
graph g(%x: float32[1,2,5,5]) -> (y = %y) {{
  %w: float32[2,2,1,1] = variable() {{label = "w", shape = [2, 2, 1, 1]}}
  %b: float32[1,2] = variable() {{label = "b", shape = [1, 2]}}
  %m: float32[1,2] = variable() {{label = "m", shape = [1, 2]}}
  %0: float32[1,2,5,5] = conv(%x, %w, %b) {{border = "constant", padding = [], stride = [],
    dilation = [], groups = 1}}
  %1: float32[1,2,5,5] = add(%0, %b)
  %y: float32[1,2,5,5] = sub(%1, %m)
}}"""


@pytest.mark.parametrize(
    ("bias", "mean", "left"),
    [
        ([3.0, -1.0], [6.0, 1.5], 0),  # one channel cancels: a batch normalisation
        ([ROUNDING, ROUNDING], [2 * ROUNDING] * 2, 1),
        ([0.25, ROUNDING], [0.5, 2 * ROUNDING], 1),
        ([0.0, 0.0], [ROUNDING, ROUNDING], 0),
    ],
)
def test_biases_that_cancel_are_not_folded(bias: list[float], mean: list[float], left: int) -> None:
    graph = parse_graph(CONVOLUTION.format())
    values = {"w": np.ones((2, 2, 1, 1)), "b": [bias], "m": [mean]}
    for variable in graph.variables.values():
        variable.data = np.array(values[variable.label], np.float32)
    FoldAffine().run(graph)
    assert sum(op.name in ("add", "sub") for op in graph.ops) == left
