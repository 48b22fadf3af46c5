"""Attention of bfloat16: products of rounded operands, against NumPy's float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.driver.compile import compile_graph
from nnefc.driver.precision import half_kernels
from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.tools.build import build
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.pipeline import PassRun
from tests.helpers.kernels.blocked_op import constant
from tests.helpers.kernels.one_op import normal

Array = np.ndarray[Any, Any]

HALVES = CompileConfig(1, precision="bfloat16")
KERNELS = half_kernels(HALVES)
DEPTHS = [32, 64, 96] if KERNELS is None or KERNELS.step > 2 else [18, 48, 64]

pytestmark = pytest.mark.skipif(
    KERNELS is None or not KERNELS.attend, reason="no attention of bfloat16 for this processor"
)


def rounded(x: Array) -> Array:
    return x.astype(DType.BFLOAT16.numpy).astype(np.float64)


def network(
    q: Array, k: Array, v: Array, *, mask: bool = False, factor: float | None = 0.125
) -> Graph:
    """Attention with inputs q, k, v and perhaps a mask, which is added to the scores."""
    graph = Graph("attention")
    given = {"q": q, "k": k, "v": v}
    inputs = [graph.add_input(TensorType(DType.FLOAT32, x.shape), n) for n, x in given.items()]
    scores = build(graph, "matmul", inputs[:2], {"transposeB": True}).output
    if factor is not None:
        scale = constant(graph, np.array([factor], np.float32))
        scores = build(graph, "mul", [scores, scale]).output
    if mask:
        given = graph.add_input(TensorType(DType.FLOAT32, (1, 1, *scores.type.dims[-2:])), "mask")
        scores = build(graph, "add", [scores, given]).output
    weights = build(graph, "softmax", [scores], {"axes": (q.ndim - 1,)}).output
    graph.add_output(build(graph, "matmul", [weights, inputs[2]]).output, "y")
    return graph


def run(graph: Graph, *inputs: Array, threads: int = 1, halves: bool = True) -> Array:
    """The result; `halves`: whether the kernel must multiply bfloat16."""
    found: list[bool] = []

    def look(graph: Graph, ran: PassRun) -> None:
        if ran.name == "lower_precision":
            found.extend("rounded" in op.attributes for op in graph.ops if op.name == "attention")

    result: Any = compile_graph(graph, HALVES._replace(threads=threads), hook=look)(*inputs)
    assert found == [halves]
    return result


def check(got: Array, q: Array, k: Array, v: Array, mask: Any = 0.0, factor: float = 0.125) -> None:
    """Compare with float64; exponentials are rounded to bfloat16, too."""
    q, k, v = map(rounded, (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * factor + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights = powers / powers.sum(-1, keepdims=True)
    terms = weights @ np.abs(v)
    assert np.all(np.abs(got - weights @ v) <= 2**-8 * terms + 1e-6)
    assert np.mean(np.abs(got - weights @ v)) <= 2**-10 * np.mean(terms)


@given(
    rows=st.integers(16, 70),
    keys=st.integers(16, 150),
    depth=st.sampled_from(DEPTHS),
    width=st.sampled_from([16, 48, 64, 80]),
    mask=st.booleans(),
)
def test_results_of_rounded_operands(
    rows: int, keys: int, depth: int, width: int, mask: bool
) -> None:
    shapes = (rows, depth), (keys, depth), (keys, width)
    q, k, v = (normal(i, 2, 3, *shape) for i, shape in enumerate(shapes))
    hidden = np.where(normal(4, 1, 1, rows, keys) > 1, -np.inf, 0.5).astype(np.float32)
    hidden[..., 0] = 0
    graph = network(q, k, v, mask=mask)
    got = run(graph, q, k, v, *([hidden] if mask else []))
    check(got, q, k, v, hidden if mask else 0.0)


def test_results_do_not_depend_on_threads() -> None:
    q, k, v = (normal(i, 1, 5, 197, 64) for i in range(3))
    graph = network(q, k, v)
    one, two = (run(graph, q, k, v, threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    check(one, q, k, v)


def test_nan_and_infinities_stay_in_their_rows() -> None:
    q, k, v = (normal(i, 1, 2, 40, 32) for i in range(3))
    q[0, 0, 5, 3], v[0, 1, 7, 9] = np.nan, np.inf
    got = run(network(q, k, v), q, k, v)
    assert np.isnan(got[0, 0, 5]).all()
    assert np.all(got[0, 1, :, 9] == np.inf)
    got[0, 0, 5], got[0, 1, :, 9] = 0, 0
    assert np.isfinite(got).all()


@pytest.mark.parametrize(("rows", "keys", "depth", "width"), [
    (15, 40, 64, 64), (40, 1001, 64, 64), (40, 40, 47, 64), (40, 40, 64, 20),
])  # fmt: skip
def test_others_multiply_float32(rows: int, keys: int, depth: int, width: int) -> None:
    shapes = (rows, depth), (keys, depth), (keys, width)
    q, k, v = (normal(i, 1, 2, *shape) for i, shape in enumerate(shapes))
    got = run(network(q, k, v), q, k, v, halves=False)
    wide = [x.astype(np.float64) for x in (q, k, v)]
    scores = wide[0] @ wide[1].swapaxes(-1, -2) * 0.125
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(got, powers / powers.sum(-1, keepdims=True) @ wide[2], atol=2e-6)
