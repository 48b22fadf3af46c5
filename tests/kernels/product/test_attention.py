"""Attention against NumPy in float64, through the pass that fuses it, between guard pages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.kernels.executor.team_state import MAX_TILES
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower import lower
from nnefc.ops.tools.build import build, constant
from nnefc.passes.fuse.fuse_attention import FuseAttention
from nnefc.passes.pipeline import run_pipeline, verify_hook
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import guarded, normal

Array = np.ndarray[Any, Any]

DEPTHS = st.sampled_from([1, 5, 16, 37])
"""Few, because the factor of the scores is a constant of the kernel."""


def attend(q: Array, k: Array, v: Array, mask: Array | float = 0.0) -> Array:
    """The formula for q [..., rows, depth], k [..., keys, depth], v [..., keys, width]."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def emit(graph: Graph, name: str, *inputs: Value, **attributes: Any) -> Value:
    return build(graph, name, inputs, attributes).output


def scores_graph(graph: Graph, q: Value, k: Value, mask: Value | None, *, turned: bool) -> Value:
    """The weights of keys for rows; keys are [..., keys, depth] or transposed."""
    depth = q.type.dims[-1]
    product = emit(graph, "matmul", q, k, transposeB=not turned)
    factor = constant(graph, 1 / math.sqrt(depth), q.type.dtype)
    scores = emit(graph, "mul", product, factor)
    scores = scores if mask is None else emit(graph, "add", scores, mask)
    return emit(graph, "softmax", scores, axes=(scores.type.rank - 1,))


def run(graph: Graph, *arrays: Array, threads: int = 1, count: int = 1) -> Array:
    """Compile and run a graph with one output, which must contain attention."""
    run_pipeline(graph, hook=verify_hook)
    names = [op.name for op in graph.ops]
    assert names.count("attention") == count
    assert "softmax" not in names or not count
    model = CompiledModel.of(lower(graph), graph, threads=threads)
    inputs = [guarded(x.shape, x.dtype) for x in arrays]
    for given_array, x in zip(inputs, arrays, strict=True):
        given_array[...] = x
    (spec,) = model.outputs
    out = guarded(spec.shape, spec.dtype)
    out.reshape(-1).view(np.uint8)[...] = 0xAA
    model(*inputs, out=out)
    return out.copy()


def close(got: Array, want: Array, tolerance: float = 5e-6) -> None:
    tolerance = tolerance if got.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(got, want, atol=tolerance, rtol=tolerance)


def known(graph: Graph, items: Array) -> Value:
    """A constant of the graph."""
    type_ = TensorType(DType(items.dtype.name), items.shape)
    attributes = {"shape": items.shape, "value": items}
    return graph.insert(Op("constant", (), attributes, [type_])).output


def inputs_of(graph: Graph, *arrays: Array) -> list[Value]:
    return [
        graph.add_input(TensorType(DType(x.dtype.name), x.shape), f"x{i}")
        for i, x in enumerate(arrays)
    ]


@examples(0.4)
@given(st.data())
def test_attention_matches_the_formula(data: st.DataObject) -> None:
    size = st.one_of(st.integers(1, 5), st.integers(1, 90))
    rows, keys, width = (data.draw(size) for _ in range(3))
    depth = data.draw(DEPTHS)
    batch = data.draw(st.lists(st.integers(1, 3), max_size=3))
    turned = data.draw(st.booleans())
    dtype = data.draw(st.sampled_from(["float32", "float32", "float64"]))
    q = normal(1, *batch, rows, depth, dtype=dtype)
    k = normal(2, *batch, keys, depth, dtype=dtype)
    v = normal(3, *batch, keys, width, dtype=dtype)
    mask_shape = [data.draw(st.sampled_from([1, extent])) for extent in (*batch, rows, keys)]
    mask = np.where(normal(4, *mask_shape, dtype=dtype) > 1, -30, 0).astype(dtype)
    graph = Graph("g")
    stored = k.swapaxes(-1, -2).copy() if turned else k
    a, b, c, m = inputs_of(graph, q, stored, v, mask)
    masked = data.draw(st.booleans())
    weights = scores_graph(graph, a, b, m if masked else None, turned=turned)
    graph.add_output(emit(graph, "matmul", weights, c), "y")
    close(run(graph, q, stored, v, mask), attend(q, k, v, mask if masked else 0.0))


@pytest.mark.parametrize("keys", [700, 2000])
def test_many_keys(keys: int) -> None:
    """Scores exceed a block, so sums are rescaled when the maximum grows."""
    q, k, v = normal(1, 2, 130, 16), normal(2, 2, keys, 16), normal(3, 2, keys, 24)
    k *= np.linspace(0.1, 8, keys, dtype=np.float32)[:, None]
    mask = np.zeros((1, 1, keys), np.float32)
    mask[..., : keys // 2 + 100] = -np.inf
    graph = Graph("g")
    a, b, c, m = inputs_of(graph, q, k, v, mask)
    weights = scores_graph(graph, a, b, m, turned=False)
    graph.add_output(emit(graph, "matmul", weights, c), "y")
    # scores of up to 100 have rounding errors of their own
    close(run(graph, q, k, v, mask, threads=2), attend(q, k, v, mask), 4e-5)


@pytest.mark.parametrize(("rows", "keys", "width"), [(1, 129, 64), (1, 9001, 64), (8, 5000, 20)])
def test_few_rows_read_keys_in_place(rows: int, keys: int, width: int) -> None:
    """Decoding: one row, or the rows of heads that share keys, over several blocks of keys."""
    q, k = normal(1, 2, 3, rows, 64), normal(2, 2, 3, keys, 64)
    v, mask = normal(3, 2, 3, keys, width), normal(4, 2, 1, 1, keys)
    k *= np.linspace(0.1, 2, keys, dtype=np.float32)[:, None]
    graph = Graph("g")
    a, b, c, m = inputs_of(graph, q, k, v, mask)
    weights = scores_graph(graph, a, b, m, turned=False)
    graph.add_output(emit(graph, "matmul", weights, c), "y")
    close(run(graph, q, k, v, mask, threads=2), attend(q, k, v, mask), 1e-5)
    packed = [x.kernel for x in lower(graph).launches if x.kernel.family == "tile.panels.panels"]
    assert len(packed) == (width % lanes_of("float32") != 0)


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("masked", ["", "heads", "causal"])
@pytest.mark.parametrize("written", ["repeated", "grouped"])
def test_heads_that_share_keys(rows: int, masked: str, written: str) -> None:
    """Keys repeated by a `tile` operation or by broadcasting are not copied."""
    groups, past = 3, 50
    keys = past + rows
    q, x = normal(1, 2, 2 * groups, rows, 16), normal(2, 2, keys, 2, 16)
    cache = normal(3, 2, 2, past, 16)
    mask = np.zeros((1, 1, rows, keys), np.float32)
    if masked == "causal":
        mask[0, 0] = np.where(np.tri(rows, keys, past), 0, -np.inf)
    elif masked:
        mask = normal(4, 1, 2 * groups, 1, keys)
    graph = Graph("g")
    a, b, c, m = inputs_of(graph, q, x, cache, mask)
    k = emit(
        graph,
        "transpose",
        emit(graph, "slice", b, axes=(1,), begin=(past,), end=(keys,)),
        axes=(0, 2, 1),
    )
    k = emit(graph, "concat", c, k, axis=2)
    v = emit(graph, "transpose", b, axes=(0, 2, 1))
    m = known(graph, mask) if masked == "causal" else m
    if written == "repeated":
        repeated: list[Value] = []
        for one in (k, v):
            one = emit(graph, "reshape", one, shape=(2, 2, 1, keys, 16))
            one = emit(graph, "tile", one, repeats=(1, 1, groups, 1, 1))
            repeated.append(emit(graph, "reshape", one, shape=(2, 2 * groups, keys, 16)))
        k, v = repeated
    else:
        a = emit(graph, "reshape", a, shape=(2, 2, groups, rows, 16))
        k, v = (emit(graph, "reshape", one, shape=(2, 2, 1, keys, 16)) for one in (k, v))
        cut = (2, groups) if masked == "heads" else (1, 1)
        m = emit(graph, "reshape", m, shape=(1, *cut, *m.type.dims[2:]))
    weights = scores_graph(graph, a, k, m if masked else None, turned=False)
    y = emit(graph, "matmul", weights, v)
    if written == "grouped":
        y = emit(graph, "reshape", y, shape=(2, 2 * groups, rows, 16))
    y = emit(graph, "transpose", y, axes=(0, 2, 1, 3))
    graph.add_output(emit(graph, "reshape", y, shape=(2, rows, 32 * groups)), "y")
    got = run(graph, q, x, cache, mask, threads=2)
    joined = np.concatenate([cache, x[:, past:].transpose(0, 2, 1, 3)], 2)
    k_all, v_all = (np.repeat(one, groups, 1) for one in (joined, x.transpose(0, 2, 1, 3)))
    want = attend(q, k_all, v_all, mask if masked else 0.0)
    close(got, want.transpose(0, 2, 1, 3).reshape(got.shape), 1e-5)
    families = [launch.kernel.family for launch in lower(graph).launches]
    assert set(families) <= {"product.attention.rows", "tile.panels.panels"}
    assert len(families) == (1 if rows <= 8 else 5)


@examples(0.4)
@given(st.data())
def test_causal_attention_over_parts_of_keys(data: st.DataObject) -> None:
    """Concatenated keys and values are read in place; masked scores are not computed."""
    rows = data.draw(st.one_of(st.integers(1, 5), st.integers(1, 150)))
    extents = data.draw(st.lists(st.integers(1, 150), min_size=1, max_size=4))
    keys, batch = sum(extents), (2, 3)
    depth, width = data.draw(DEPTHS), data.draw(st.sampled_from([1, 5, 16, 32]))
    diagonal = data.draw(st.one_of(st.none(), st.integers(0, keys - 1)))
    added, low = data.draw(st.booleans()), data.draw(st.sampled_from([-np.inf, -3e38]))
    turned, apart = data.draw(st.booleans()), data.draw(st.booleans())
    q = normal(1, *batch, rows, depth)
    ks = [normal(2 + i, *batch, n, depth) for i, n in enumerate(extents)]
    vs = [normal(12 + i, *batch, n, width) for i, n in enumerate(extents)]
    graph = Graph("g")
    stored = [k.swapaxes(1, 2).copy() if apart else k for k in ks]
    stored = [k.swapaxes(-1, -2).copy() if turned and not apart else k for k in stored]
    joined_v = [np.concatenate(vs, 2)] if apart else vs
    a, *others = inputs_of(graph, q, *stored, *joined_v)
    axis = 1 if apart else 3 if turned else 2
    k = emit(graph, "concat", *others[: len(ks)], axis=axis)
    if apart:
        k = emit(graph, "transpose", k, axes=(0, 2, 1))
    v = emit(graph, "concat", *others[len(ks) :], axis=2)
    scores = emit(graph, "matmul", a, k, transposeB=apart or not turned)
    scores = emit(graph, "mul", scores, constant(graph, 1 / math.sqrt(depth), DType.FLOAT32))
    mask = np.zeros((1, 1, rows, keys), np.float32)
    if diagonal is not None:
        mask[0, 0] = np.where(np.tri(rows, keys, diagonal), 0, low)
        value = known(graph, mask if added else mask == 0)
        if added:
            scores = emit(graph, "add", scores, value)
        else:
            hidden = constant(graph, float(low), DType.FLOAT32)
            scores = emit(graph, "select", value, scores, hidden)
    weights = emit(graph, "softmax", scores, axes=(3,))
    graph.add_output(emit(graph, "matmul", weights, v), "y")
    threads = data.draw(st.integers(1, 2))
    got = run(graph, q, *stored, *joined_v, threads=threads)
    close(got, attend(q, np.concatenate(ks, 2), np.concatenate(vs, 2), mask), 1e-5)
    (op,) = (op for op in graph.ops if op.name == "attention")
    assert op.attributes["keys"] == tuple(extents)
    assert op.attributes["diagonal"] == (keys - 1 if diagonal is None else diagonal)
    assert not {"concat", "constant"} & {op.name for op in graph.ops}


@pytest.mark.parametrize("low", [-np.inf, -3e38])
@pytest.mark.parametrize("added", [True, False])
def test_causal_rows_without_visible_keys(low: float, added: bool) -> None:
    """The first rows of a left-padded text, with a mask that is known at run time."""
    q, k, v = normal(1, 3, 5, 4), normal(2, 3, 5, 4), normal(3, 3, 5, 4)
    filled = np.zeros((3, 1, 5), np.float32)
    filled[1, :, :2] = -np.inf
    shown = np.tri(5, dtype=bool)[None]
    causal = np.where(shown, 0, low).astype(np.float32)
    graph = Graph("g")
    a, b, c, m = inputs_of(graph, q, k, v, filled)
    scores = emit(graph, "matmul", a, b, transposeB=True)
    scores = emit(graph, "mul", scores, constant(graph, 0.5, DType.FLOAT32))
    scores = emit(graph, "add", scores, m)
    if added:
        scores = emit(graph, "add", scores, known(graph, causal))
    else:
        hidden = constant(graph, float(low), DType.FLOAT32)
        scores = emit(graph, "select", known(graph, shown), scores, hidden)
    weights = emit(graph, "softmax", scores, axes=(2,))
    graph.add_output(emit(graph, "matmul", weights, c), "y")
    with np.errstate(invalid="ignore"):
        wanted = attend(q, k, v, np.where(shown, filled, low) if not added else filled + causal)
    close(run(graph, q, k, v, filled), wanted)


def test_rows_without_keys_are_nan() -> None:
    q, k, v = normal(1, 3, 4), normal(2, 5, 4), normal(3, 5, 4)
    mask = np.zeros((3, 5), np.float32)
    mask[1] = -np.inf
    graph = Graph("g")
    a, b, c, m = inputs_of(graph, q, k, v, mask)
    weights = scores_graph(graph, a, b, m, turned=False)
    graph.add_output(emit(graph, "matmul", weights, c), "y")
    got = run(graph, q, k, v, mask)
    assert np.isnan(got[1]).all()
    close(got[::2], attend(q, k, v)[::2])


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_without_keys_may_be_zero(rows: int, dtype: str) -> None:
    q, k, v, mask = (
        x.astype(dtype)
        for x in (normal(1, rows, 4), normal(2, 900, 4), normal(3, 900, 4), normal(4, rows, 900))
    )
    mask[::2] = -np.inf
    mask[1:, 70:] = -np.inf
    graph = Graph("g")
    a, b, c, m = inputs_of(graph, q, k, v, mask)
    weights = scores_graph(graph, a, b, m, turned=False)
    assert weights.op is not None
    most = emit(graph, "max_reduce", weights.op.inputs[0], axes=(1,))
    shown = emit(graph, "gt", most, constant(graph, -math.inf, weights.type.dtype))
    weights = emit(graph, "select", shown, weights, constant(graph, 0.0, weights.type.dtype))
    graph.add_output(emit(graph, "matmul", weights, c), "y")
    got = run(graph, q, k, v, mask)
    assert [op.name for op in graph.ops] == ["attention"]
    assert not got[::2].any()
    close(got[1::2], attend(q[1::2], k, v, mask[1::2]))


@pytest.mark.parametrize(("heads", "tokens", "depth"), [(3, 50, 8), (2, 7, 5), (1, 33, 16)])
def test_heads_of_one_projection(heads: int, tokens: int, depth: int) -> None:
    """[batch, tokens, 3 * heads * depth] split into q, k and v, as in vision transformers."""
    width = heads * depth
    x = normal(1, 2, tokens, 3 * width)
    graph = Graph("g")
    (value,) = inputs_of(graph, x)
    value = emit(graph, "reshape", value, shape=(2, tokens, 3, heads, depth))
    value = emit(graph, "transpose", value, axes=(2, 0, 3, 1, 4))
    parts = build(graph, "split", [value], {"axis": 0, "ratios": (1, 1, 1)}).outputs
    q, k, v = (emit(graph, "squeeze", part, axes=(0,)) for part in parts)
    y = emit(graph, "matmul", scores_graph(graph, q, k, None, turned=False), v)
    y = emit(graph, "transpose", y, axes=(0, 2, 1, 3))
    graph.add_output(emit(graph, "reshape", y, shape=(2, tokens, width)), "y")
    got = run(graph, x)
    assert [op.name for op in graph.ops if op.name in ("transpose", "split")] == []
    parts = x.reshape(2, tokens, 3, heads, depth).transpose(2, 0, 3, 1, 4)
    close(got, attend(*parts).transpose(0, 2, 1, 3).reshape(2, tokens, width))


def test_threads_change_nothing() -> None:
    q, k, v = normal(1, 4, 100, 32), normal(2, 4, 100, 32), normal(3, 4, 100, 32)
    results: list[Array] = []
    for threads in (1, 2):
        graph = Graph("g")
        a, b, c = inputs_of(graph, q, k, v)
        weights = scores_graph(graph, a, b, None, turned=False)
        graph.add_output(emit(graph, "matmul", weights, c), "y")
        results.append(run(graph, q, k, v, threads=threads))
    assert np.array_equal(results[0], results[1])


def test_patterns_that_are_not_attention() -> None:
    """A softmax over another axis, scores that are an output, weights that are used twice."""
    for case in ("axis", "output", "twice"):
        graph = Graph("g")
        a, b, c = inputs_of(graph, normal(1, 3, 4), normal(2, 5, 4), normal(3, 5, 4))
        scores = emit(graph, "matmul", a, b, transposeB=True)
        weights = emit(graph, "softmax", scores, axes=(0 if case == "axis" else 1,))
        graph.add_output(emit(graph, "matmul", weights, c), "y")
        if case != "axis":
            graph.add_output(scores if case == "output" else weights, "z")
        assert not FuseAttention().run(graph)


def test_many_heads_have_as_many_tiles_as_a_launch_may_have() -> None:
    graph = Graph("g")
    q, k, v = (graph.add_input(TensorType(DType.FLOAT32, (2000, 512, 64)), name) for name in "qkv")
    graph.add_output(emit(graph, "matmul", scores_graph(graph, q, k, None, turned=False), v), "y")
    run_pipeline(graph)
    assert 200 < max(launch.tiles for launch in lower(graph).launches) <= MAX_TILES
