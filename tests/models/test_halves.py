"""Graphs of float16 and bfloat16 compute in float32, and store and move 16-bit items."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ir.graph import Variable
from nnefc.ir.verify import check
from nnefc.lower import lower
from nnefc.ops.core.traits import ItemTypes
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.table import traits_of
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.canonicalise.widen_halves import WidenHalves
from nnefc.passes.pipeline import DEFAULT, run_pipeline
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.examples import examples
from tests.helpers.graphs.random_graphs import random_graph, sample_inputs
from tests.helpers.kernels.compiled_op import Array
from tests.helpers.kernels.one_op import run_graph

torch: Any = pytest.importorskip("torch")

HALVES = [DType.FLOAT16, DType.BFLOAT16]
EPSILON = {DType.FLOAT16: 2.0**-11, DType.BFLOAT16: 2.0**-8}
"""Relative error of one rounding."""
each_half = pytest.mark.parametrize("half", HALVES, ids=str)


def weights(graph: Graph, label: str, data: Array) -> Value:
    dtype = DType(data.dtype.name)
    graph.variables[label] = Variable(label, TensorType(dtype, data.shape), data)
    return build(graph, "variable", [], {"shape": data.shape, "label": label}, dtype=dtype).output


def normal(seed: int, half: DType, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(half.numpy)


def close(got: Array, want: Array, half: DType) -> None:
    """Compare up to one rounding of the result."""
    assert got.dtype == half.numpy
    np.testing.assert_allclose(
        got.astype(np.float64),
        want,
        rtol=1.01 * EPSILON[half],
        atol=1e-4 * float(np.abs(want).max()),
    )


def compiled(graph: Graph, *inputs: Array) -> tuple[Array, ...]:
    run_pipeline(graph)
    check(graph, rule_problems)
    return run_graph(graph, *inputs)


@each_half
def test_a_perceptron_matches_pytorch(half: DType) -> None:
    x, w = normal(0, half, 5, 64), normal(1, half, 96, 64)
    b, v = normal(2, half, 1, 96), normal(3, half, 32, 96)
    graph = Graph("perceptron")
    given = graph.add_input(TensorType(half, x.shape), "x")
    hidden = build(graph, "linear", [given, weights(graph, "w", w), weights(graph, "b", b)])
    active = build(graph, "relu", [hidden.output]).output
    result = build(graph, "linear", [active, weights(graph, "v", v)]).output
    graph.add_output(result, "y")
    (got,) = compiled(graph, x)
    wide = [torch.from_numpy(a.astype(np.float64)) for a in (x, w, b, v)]
    hidden_ = torch.relu(wide[0] @ wide[1].T + wide[2])
    close(got, (hidden_ @ wide[3].T).numpy(), half)


@each_half
@pytest.mark.parametrize(("groups", "kernel"), [(1, 3), (1, 1), (16, 3), (2, 5)])
def test_convolutions_with_16_bit_filters_match_pytorch(
    half: DType, groups: int, kernel: int
) -> None:
    """A batch normalisation is folded into the filter."""
    x, w = normal(0, half, 2, 16, 12, 14), normal(1, half, 32, 16 // groups, kernel, kernel)
    mean, scale = normal(2, half, 1, 32), normal(3, half, 1, 32)
    variance = np.abs(normal(4, half, 1, 32))
    graph = Graph("convolution")
    given = graph.add_input(TensorType(half, x.shape), "x")
    y = build(graph, "conv", [given, weights(graph, "w", w)], {"groups": groups}).output
    parameters = [
        weights(graph, label, data)
        for label, data in (("m", mean), ("v", variance), ("o", mean), ("s", scale))
    ]
    y = build(graph, "batch_normalization", [y, *parameters], {"epsilon": 1e-3}).output
    graph.add_output(y, "y")
    (got,) = compiled(graph, x)
    wide = [torch.from_numpy(a.astype(np.float64)) for a in (x, w, mean, variance, scale)]
    image, filter_, mean_, variance_, scale_ = wide
    y_ = torch.nn.functional.conv2d(image, filter_, padding=kernel // 2, groups=groups)
    y_ = (y_ - mean_[..., None, None]) / torch.sqrt(variance_[..., None, None] + 1e-3)
    want = y_ * scale_[..., None, None] + mean_[..., None, None]
    close(got, want.numpy(), half)


@examples(0.4)
@given(st.integers(0, 2**32 - 1), st.sampled_from(HALVES))
def test_widened_graphs_match_float64(seed: int, half: DType) -> None:
    """Results of widened random graphs differ from float64 only by the final rounding."""
    wide = random_graph(seed, 12, scalar=DType.FLOAT64, smooth=True)
    graph = random_graph(seed, 12, scalar=half, smooth=True)
    assert [op.name for op in wide.ops] == [op.name for op in graph.ops]
    inputs = sample_inputs(graph)
    exact = evaluate(
        wide, {k: v.astype(w.type.dtype.numpy) for (k, v), w in zip(inputs.items(), wide.inputs)}
    )
    WidenHalves().run(graph)
    check(graph, rule_problems)
    for op in graph.ops:
        stored = op.name in ("cast", "constant", "variable", "update")
        if not stored and traits_of(op).item_types is not ItemTypes.MOVED:
            assert not any(v.type.dtype.is_half for v in (*op.inputs, *op.outputs)), op.name
    got = evaluate(graph, inputs)
    for name, want in exact.outputs.items():
        scale = float(np.abs(want).max(initial=1))
        np.testing.assert_allclose(
            got.outputs[name], want, 4 * EPSILON[half], EPSILON[half] * scale
        )
    assert not WidenHalves().run(random_graph(seed, 5, scalar=DType.FLOAT32))


@each_half
def test_moved_items_keep_their_bits(half: DType) -> None:
    """All bit patterns, including those of NaN."""
    x = np.arange(1 << 16, dtype=np.uint16).view(half.numpy).reshape(64, 1024)
    graph = Graph("moves")
    given = graph.add_input(TensorType(half, x.shape), "x")
    moved = build(graph, "transpose", [given], {"axes": (1, 0)}).output
    moved = build(graph, "pad", [moved], {"padding": ((1, 0), (0, 3))}).output
    moved = build(graph, "slice", [moved], {"axes": (1,), "begin": (1,), "end": (60,)}).output
    moved = build(graph, "tile", [moved], {"repeats": (1, 2)}).output
    graph.add_output(moved, "y")
    (got,) = compiled(graph, x)
    want = np.pad(x.view(np.uint16).T, ((1, 0), (0, 3)))[:, 1:60]
    np.testing.assert_array_equal(got.view(np.uint16), np.tile(want, (1, 2)))


@each_half
def test_states_are_rounded_to_16_bits_after_every_run(half: DType) -> None:
    """Inputs and results have 16 bits too."""
    graph = Graph("state")
    x = graph.add_input(TensorType(half, (3,)), "x")
    v = weights(graph, "v", np.zeros(3, half.numpy))
    total = build(graph, "add", [v, x]).output
    graph.add_output(build(graph, "update", [v, total]).output, "y")
    run_pipeline(graph)
    model = CompiledModel.of(lower(graph), graph)
    step, sum_ = np.array([1, 0.1, 1000], half.numpy), np.zeros(3, half.numpy)
    for _ in range(5):
        sum_ = (sum_.astype(np.float32) + step.astype(np.float32)).astype(half.numpy)
        got = model(step)
        assert got.dtype == half.numpy
        np.testing.assert_array_equal(got.view(np.uint16), sum_.view(np.uint16))


@each_half
def test_large_weights_are_stored_in_16_bits(half: DType) -> None:
    """The program has only the copy that kernels read; the graph has no float32 copy."""
    graph = Graph("large")
    x = graph.add_input(TensorType(half, (4, 256)), "x")
    w = weights(graph, "w", normal(0, half, 256, 128))
    graph.add_output(build(graph, "matmul", [x, w]).output, "y")
    run_pipeline(graph, DEFAULT)
    assert not any(op.name == "constant" for op in graph.ops)
    program = lower(graph)
    sizes = [constant.nbytes for constant in program.constants if constant.nbytes > 1024]
    assert sizes == [2 * 256 * 128]


@each_half
def test_bodies_of_loops_are_widened(half: DType) -> None:
    from nnefc.ops.internal.scan import build_scan

    body = Graph("body")
    s = body.add_input(TensorType(half, (1, 4)), "s")
    x = body.add_input(TensorType(half, (1, 4)), "x")
    new = build(body, "add", [build(body, "tanh", [s]).output, x]).output
    body.add_output(new, "new")
    body.add_output(new, "each")
    graph = Graph("loop")
    first = graph.add_input(TensorType(half, (1, 4)), "first")
    items = graph.add_input(TensorType(half, (6, 4)), "items")
    op: Op = build_scan(graph, body, [first], [items], turns=6)
    for value, name in zip(op.outputs, ("last", "all"), strict=True):
        graph.add_output(value, name)
    start, given_ = normal(0, half, 1, 4), normal(1, half, 6, 4)
    last, every = compiled(graph, start, given_)
    state = start.astype(np.float64)
    for turn in range(6):
        state = np.tanh(state) + given_[turn].astype(np.float64)
        np.testing.assert_allclose(
            every[turn : turn + 1].astype(np.float64), state, rtol=0, atol=8 * EPSILON[half]
        )
    assert last.dtype == half.numpy
    np.testing.assert_array_equal(last, every[5:])
