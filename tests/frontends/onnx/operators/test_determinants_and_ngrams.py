"""Determinants against NumPy in float64, and n-grams against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.driver.compile import compile_graph
from nnefc.options.compile_config import CompileConfig
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import Array, compare, node_model, reals

PIVOTS = np.array([[0, 2, 0], [0, 0, 3], [5, 0, 0]], np.float32)
SINGULAR = np.array([[1, 2, 3], [2, 4, 6], [1, 0, 1]], np.float32)


@pytest.mark.parametrize(
    "x",
    [reals(1, 1), reals(2, 3, 5, 5), reals(3, 8, 8), np.stack([PIVOTS, SINGULAR, -PIVOTS.T])],
    ids=str,
)
def test_determinants(x: Array) -> None:
    for dtype in (np.float32, np.float64):
        matrices = x.astype(dtype)
        expected = np.linalg.det(x.astype(np.float64)).astype(dtype)
        compare("Det", [matrices], opset=22, expected=[expected])
        graph = graph_for(node_model("Det", [matrices], opset=22), [matrices])
        y = compile_graph(graph, CompileConfig(1))(matrices)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0)])
def test_determinants_without_items(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    compare("Det", [x], opset=22, expected=[np.linalg.det(x)])


def test_matrices_are_square() -> None:
    x = reals(2, 3, 4)
    with pytest.raises(NnefError, match=r"\[2, 3, 4\]; the matrices must be square"):
        graph_for(node_model("Det", [x], opset=22), [x])


POOL: dict[str, Any] = {
    "ngram_counts": [0, 4],
    "ngram_indexes": [3, 0, 1, 9, 5, 4, 2],
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 3,
    "opset": 9,
}
WEIGHTS = [1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(
    "more",
    [{}, {"weights": WEIGHTS}, {"min_gram_length": 2, "weights": WEIGHTS}, {"max_gram_length": 1}],
)
def test_ngrams(mode: str, more: dict[str, Any]) -> None:
    x = np.random.default_rng(0).integers(2, 9, (3, 20))
    for tokens in (x.astype(np.int32), x[0]):
        compare("TfIdfVectorizer", [tokens], mode=mode, types=[1], **{**POOL, **more})


@pytest.mark.parametrize(
    "more",
    [
        {"mode": "TI"},
        {"ngram_counts": [0, 3]},
        {"ngram_indexes": [0, 1]},
        {"ngram_indexes": [3, 0, 1, 9, 5, 4, -2]},
        {"pool_int64s": [2, 3, 5, 2, 5, 6, 7, 8, 6, 7]},
        {"weights": [1.0]},
        {"max_gram_length": 0},
    ],
)
def test_attributes_that_do_not_fit(more: dict[str, Any]) -> None:
    x = np.array([2, 3, 4])
    settings: dict[str, Any] = {**POOL, "mode": "TF", **more}
    with pytest.raises(NnefError) as error:
        graph_for(node_model("TfIdfVectorizer", [x], **settings), [x])
    assert [each.rule for each in error.value.errors] == ["argument/tfidf"]
