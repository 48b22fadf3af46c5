"""A small network with the matrices of a language model, and its formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.ir.graph import Variable
from nnefc.ops.tools.build import build

Array = np.ndarray[Any, Any]
WORDS = 50
IDS = np.random.default_rng(1).integers(0, WORDS, (2, 5))


def _items(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


TABLE, UP, DOWN = _items(2, WORDS, 96), _items(3, 1, 96, 128), _items(4, 96, 128)
HIDDEN, SHORT = _items(5, 96, 96).astype(np.float16), _items(6, 1, WORDS, 8)


def variable(graph: Graph, label: str, items: Array) -> Value:
    """A variable with these items."""
    dtype = DType(items.dtype.name)
    graph.variables[label] = Variable(label, TensorType(dtype, items.shape), items)
    attributes = {"shape": items.shape, "label": label}
    return build(graph, "variable", [], attributes, dtype=dtype).output


def language_model() -> Graph:
    """Tied embeddings, a matrix in each order, one of 16 bits, and one without whole blocks.

    Its input is `ids`, [2, 5]; its result `short`, [2, 5, 8].
    """
    graph = Graph("language_model")
    ids = graph.add_input(TensorType(DType.INT64, IDS.shape), "ids")
    table = variable(graph, "table", TABLE)
    x = build(graph, "gather", [table, ids], {"axis": 0}, names=["embedding"]).output
    x = _product(graph, x, variable(graph, "up", UP), "up")
    down = build(graph, "unsqueeze", [variable(graph, "down", DOWN)], {"axes": (0,)}).output
    x = _product(graph, x, down, "down", transposed=True)
    half = variable(graph, "hidden", HIDDEN)
    wide = build(graph, "cast", [half], dtype=DType.FLOAT32).output
    hidden = build(graph, "unsqueeze", [wide], {"axes": (0,)}).output
    x = _product(graph, x, hidden, "hidden")
    turned = build(graph, "transpose", [table], {"axes": (1, 0)}).output
    head = build(graph, "unsqueeze", [turned], {"axes": (0,)}).output
    x = _product(graph, x, head, "head")
    graph.add_output(_product(graph, x, variable(graph, "short", SHORT), "short"), "short")
    return graph


def _product(graph: Graph, x: Value, w: Value, name: str, *, transposed: bool = False) -> Value:
    options = {"transposeB": transposed}
    return build(graph, "matmul", [x, w], options, names=[name]).output


def logits(matrix: Callable[[Array], Array]) -> Array:
    """The result in float64; `matrix` returns the items of a matrix [rows, depth] as they are
    dequantized.
    """
    table = matrix(TABLE)
    x = table[IDS] @ matrix(UP[0].T).T @ matrix(DOWN).T
    x = x @ matrix(HIDDEN.astype(np.float32).T).T @ table.T
    return x @ SHORT[0].astype(np.float64)
