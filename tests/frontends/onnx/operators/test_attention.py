"""Attention and rotary embedding of onnxruntime, compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.support.errors import NnefError
from tests.helpers.onnx.backend_cases import backend_cases
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.onnxruntime_oracle import compare, node_model, reals

MICROSOFT = "com.microsoft"
BATCH, ROWS, HEADS, WIDTH = 2, 5, 3, 8
HIDDEN = HEADS * WIDTH


def masks() -> dict[str, Any]:
    random = np.random.default_rng(0)
    rows = random.integers(0, 2, (BATCH, ROWS, ROWS)).astype(np.int32)
    rows[:, :, 0] = 1  # rows without a key are rounded to multiples of 0.001 by onnxruntime
    return {
        "none": None,
        "lengths": np.array([3, 5], np.int32),
        "ranges": np.array([4, 5, 1, 0], np.int32),
        "keys": np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], np.int32),
        "rows": rows,
    }


@pytest.mark.parametrize("mask", ["none", "lengths", "ranges", "keys", "rows"])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention(mask: str, causal: int) -> None:
    inputs = [reals(BATCH, ROWS, 7), reals(7, 3 * HIDDEN, seed=1), reals(3 * HIDDEN, seed=2)]
    settings: Any = {"num_heads": HEADS, "unidirectional": causal, "domain": MICROSOFT}
    compare("Attention", [*inputs, masks()[mask]], **settings)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_past(causal: int) -> None:
    past = reals(2, BATCH, HEADS, 4, WIDTH, seed=3)
    inputs = [reals(BATCH, ROWS, 7), reals(7, 3 * HIDDEN, seed=1), reals(3 * HIDDEN, seed=2)]
    settings: Any = {"num_heads": HEADS, "unidirectional": causal, "domain": MICROSOFT}
    compare("Attention", [*inputs, None, past], outputs=(True, True), scale=0.3, **settings)


def test_attention_with_other_width_of_values() -> None:
    sizes = [HIDDEN, HIDDEN, 2 * HEADS]
    inputs = [reals(BATCH, ROWS, 7), reals(7, sum(sizes), seed=1), reals(sum(sizes), seed=2)]
    settings: Any = {"num_heads": HEADS, "qkv_hidden_sizes": sizes, "domain": MICROSOFT}
    compare("Attention", inputs, **settings)


@pytest.mark.parametrize("per_column", [False, True])
def test_quantized_attention(per_column: bool) -> None:
    random = np.random.default_rng(0)
    columns = 3 * HIDDEN if per_column else 1
    shape = (-1,) if per_column else ()
    inputs = [
        random.integers(0, 255, (BATCH, ROWS, 7)).astype(np.uint8),
        random.integers(-90, 90, (7, 3 * HIDDEN)).astype(np.int8),
        reals(3 * HIDDEN, seed=2),
        np.array(0.02, np.float32),
        (np.abs(reals(columns, seed=3)) * 0.01)
        .astype(np.float32)
        .reshape((-1,) if per_column else ()),
        None,
        np.array(120, np.uint8),
        np.zeros(columns, np.int8).reshape(shape),
    ]
    settings: Any = {"num_heads": HEADS, "domain": MICROSOFT, "types": (1,)}
    compare("QAttention", inputs, known=(1, 3, 4, 6, 7), rtol=1e-3, atol=1e-4, **settings)


@pytest.mark.parametrize("mask", ["none", "lengths", "keys", "rows"])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention(mask: str, causal: int, bias: bool) -> None:
    inputs = [reals(BATCH, ROWS, HIDDEN, seed=i) for i in range(3)]
    inputs += [reals(3 * HIDDEN, seed=3) if bias else None, masks()[mask]]
    settings: Any = {"num_heads": HEADS, "unidirectional": causal, "domain": MICROSOFT}
    compare("MultiHeadAttention", inputs, **settings)


def test_multi_head_attention_with_past() -> None:
    inputs: list[Any] = [reals(BATCH, ROWS, HIDDEN, seed=i) for i in range(3)]
    past = [reals(BATCH, HEADS, 4, WIDTH, seed=i) for i in (4, 5)]
    added = reals(BATCH, 1, ROWS, ROWS + 4, seed=6)
    settings: Any = {"num_heads": HEADS, "scale": 0.2, "domain": MICROSOFT}
    inputs += [None, None, added, *past]
    compare("MultiHeadAttention", inputs, outputs=(True, True, True), **settings)


def test_packed_multi_head_attention() -> None:
    settings: Any = {"num_heads": HEADS, "domain": MICROSOFT}
    q, k, v = (reals(BATCH, ROWS, HIDDEN, seed=i) for i in range(3))
    separate = compare("MultiHeadAttention", [q, k, v], **settings)
    parts = [x.reshape(BATCH, ROWS, HEADS, 1, WIDTH) for x in (q, k, v)]
    whole = [np.concatenate(parts, 3)]
    compare("MultiHeadAttention", whole, expected=separate, **settings)
    pair = [q, np.concatenate(parts[1:], 3)]
    compare("MultiHeadAttention", pair, expected=separate, **settings)


def test_keys_of_another_model() -> None:
    """Keys and values of an encoder have heads already."""
    q = reals(BATCH, ROWS, HIDDEN)
    inputs = [q, *(reals(BATCH, HEADS, 7, WIDTH, seed=i) for i in (1, 2))]
    compare("MultiHeadAttention", inputs, num_heads=HEADS, domain=MICROSOFT)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rotary", [0, 4])
@pytest.mark.parametrize("split", [False, True])
def test_rotary_embedding(interleaved: int, rotary: int, split: bool) -> None:
    x = reals(BATCH, HEADS, ROWS, WIDTH) if split else reals(BATCH, ROWS, HIDDEN)
    half = (rotary or WIDTH) // 2
    caches = [reals(16, half, seed=1), reals(16, half, seed=2)]
    settings: Any = {"interleaved": interleaved, "domain": MICROSOFT}
    if rotary:
        settings |= {"rotary_embedding_dim": rotary, "num_heads": HEADS}
    ids = np.arange(BATCH * ROWS).reshape(BATCH, ROWS)
    compare("RotaryEmbedding", [x, ids, *caches], **settings)
    compare("RotaryEmbedding", [x, np.array([3]), *caches], **settings)


@pytest.mark.parametrize(
    ("op_type", "shapes", "wrong"),
    [
        ("MultiHeadAttention", [(2, 4)] * 3, "query"),
        ("MultiHeadAttention", [(1, 2, 4), (2, 4), (1, 2, 4)], "key"),
        ("MultiHeadAttention", [(1, 2, 4), (1, 2, 4), ()], "value"),
        ("MultiHeadAttention", [(2, 4), (1, 2, 2, 2, 2)], "query"),
        ("Attention", [(2, 4), (4, 12)], "input"),
        ("Attention", [(1, 2, 4), (12,)], "weights"),
    ],
)
def test_wrong_ranks(op_type: str, shapes: Any, wrong: str) -> None:
    inputs = [reals(*shape) for shape in shapes]
    model = node_model(op_type, inputs, domain=MICROSOFT, num_heads=2)
    with pytest.raises(NnefError, match=rf"{wrong} has shape .*; a tensor of rank"):
        graph_for(model, inputs)


@pytest.mark.parametrize("wrong", [1, 2])
def test_keys_and_values_have_the_rank_of_queries(wrong: int) -> None:
    inputs = [reals(1, 2, 3, 8)] * 3
    inputs[wrong] = reals(3, 8)
    name = "QKV"[wrong]
    with pytest.raises(NnefError, match=rf"{name} has shape \[3, 8\]; a tensor of rank 4"):
        graph_for(node_model("Attention", inputs, opset=24), inputs)


def test_integer_masks_hide_the_keys_that_they_lack() -> None:
    """Integers are added to the scores, as reals are; further keys are hidden."""
    q, k, v = reals(1, 1, 2, 4), reals(1, 1, 5, 4, seed=1), reals(1, 1, 5, 4, seed=2)
    mask = np.array([[0, 2, -1], [1, 0, 3]], np.int64)
    scores = q[0, 0].astype(np.float64) @ k[0, 0, :3].T / 2 + mask
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    expected = (weights @ v[0, 0, :3])[None, None].astype(np.float32)
    compare("Attention", [q, k, v, mask], opset=24, types=[1], expected=[expected])


@pytest.mark.parametrize("name", ["/score.0/shape-1", "", "shape"])
def test_initializers_in_graphs_of_functions_may_have_any_name(name: str) -> None:
    case = backend_cases().get("test_flexattention_relative_positional")
    if case is None:
        pytest.skip("the package has no such case")
    model = type(case.proto)()
    model.CopyFrom(case.proto)
    node = model.graph.node[0]
    node.name = name
    (graph,) = [each.g for each in node.attribute if each.name == "score_mod"]
    for each in graph.initializer:
        old, each.name = each.name, f"{name}{each.name}"
        for inner in graph.node:
            inner.input[:] = [each.name if x == old else x for x in inner.input]
    for inputs, (expected,) in case.data_sets:
        (y,) = reference_results(graph_for(model, inputs), inputs)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
