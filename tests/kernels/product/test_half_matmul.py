"""Products of bfloat16: sums of rounded operands, against NumPy's float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.driver.compile import compile_graph
from nnefc.driver.precision import half_kernels
from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.ops.tools.build import build
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.pipeline import PassRun
from tests.helpers.kernels.blocked_op import constant
from tests.helpers.kernels.one_op import normal

Array = np.ndarray[Any, Any]

HALVES = CompileConfig(precision="bfloat16")
KERNELS = half_kernels(HALVES)
STEP = 2 if KERNELS is None else KERNELS.step
"""Depths are multiples of this."""
DEPTH = 130 // STEP * STEP

pytestmark = pytest.mark.skipif(KERNELS is None, reason="products of bfloat16 are not faster")


def rounded(x: Array) -> Array:
    """The nearest bfloat16, ties to even, as float64."""
    return x.astype(DType.BFLOAT16.numpy).astype(np.float64)


def run(graph: Graph, *inputs: Array, threads: int = 1, products: int = 1) -> Array:
    """The result of the graph, compiled; `products`: how many must read bfloat16."""
    found: list[int] = []

    def count(graph: Graph, ran: PassRun) -> None:
        if ran.name == "lower_precision":
            halves = [op for op in graph.ops if op.name == "fused_matmul"]
            found.append(sum(op.inputs[0].type.dtype is DType.BFLOAT16 for op in halves))

    config = HALVES._replace(threads=threads)
    result: Any = compile_graph(graph, config, hook=count)(*inputs)
    assert found == [products]
    return result


def assert_close(got: Array, want: Array, terms: Array, part: float = 2**-18) -> None:
    """Equal within `part` of the sum of the sizes of terms."""
    assert got.shape == want.shape
    assert np.all(np.abs(got - want) <= part * terms + 1e-30)


def add_product(
    graph: Graph, x: Value, w: Array, *, turned: bool = False, transposed: bool = False
) -> Value:
    """The product of `x` with the constant w, one of which may be transposed."""
    b = constant(graph, np.ascontiguousarray(w.swapaxes(-1, -2)) if turned else w)
    flags = {"transposeA": transposed, "transposeB": turned}
    return build(graph, "matmul", [x, b], flags).output


def graph_of(*shapes: tuple[int, ...]) -> tuple[Graph, list[Value]]:
    graph = Graph("product")
    inputs = [
        graph.add_input(TensorType(DType.FLOAT32, shape), f"x{i}") for i, shape in enumerate(shapes)
    ]
    return graph, inputs


@given(
    rows=st.integers(1, 70),
    depth=st.integers(-(-16 // STEP), 160 // STEP).map(lambda n: STEP * n),
    columns=st.integers(8, 120),
    turned=st.booleans(),
    transposed=st.booleans(),
)
def test_sums_of_rounded_operands(
    rows: int, depth: int, columns: int, turned: bool, transposed: bool
) -> None:
    x, w = normal(rows, rows, depth), normal(columns, depth, columns)
    given = np.ascontiguousarray(x.T) if transposed else x
    graph, (a,) = graph_of(given.shape)
    graph.add_output(add_product(graph, a, w, turned=turned, transposed=transposed), "y")
    x, w = rounded(x), rounded(w)
    assert_close(run(graph, given), x @ w, np.abs(x) @ np.abs(w))


@pytest.mark.parametrize("threads", [1, 2])
def test_epilogues_of_a_batch(threads: int) -> None:
    """A bias, a residual and a function, over rows of several batch dimensions."""
    x, w, bias = normal(1, 2, 3, 37, DEPTH), normal(2, 1, 1, DEPTH, 75), normal(3, 1, 1, 1, 75)
    residual = normal(4, 2, 3, 37, 75)
    graph, (a, other) = graph_of(x.shape, residual.shape)
    y = build(graph, "add", [add_product(graph, a, w), constant(graph, bias)]).output
    y = build(
        graph,
        "tanh",
        [build(graph, "mul", [y, constant(graph, np.array([0.125], np.float32))]).output],
    )
    graph.add_output(build(graph, "add", [y.output, other]).output, "y")
    product = rounded(x) @ rounded(w)
    want = np.tanh((product + bias) * 0.125) + residual
    terms = np.abs(rounded(x)) @ np.abs(rounded(w)) + 20
    assert_close(run(graph, x, residual, threads=threads), want, terms)


def test_results_do_not_depend_on_threads() -> None:
    x, w = normal(1, 211, 768), normal(2, 768, 500)
    graph, (a,) = graph_of(x.shape)
    graph.add_output(add_product(graph, a, w), "y")
    np.testing.assert_array_equal(run(graph, x, threads=1), run(graph, x, threads=2))


def test_values_between_products_are_rounded_once() -> None:
    """The second product reads what the first one has stored as bfloat16."""
    x, first, second = normal(1, 19, 64), normal(2, 64, 96), normal(3, 96, 40)
    graph, (a,) = graph_of(x.shape)
    hidden = build(graph, "relu", [add_product(graph, a, first)]).output
    hidden = build(graph, "reshape", [hidden], {"shape": (1, 19, 96)}).output
    graph.add_output(add_product(graph, hidden, second[None]), "y")
    got = run(graph, x, products=2)[0]
    before = np.maximum(rounded(x) @ rounded(first), 0)
    # sums that are nearly ties may be rounded to the other neighbour
    middle, w = rounded(before.astype(np.float32)), rounded(second)
    assert_close(got, middle @ w, np.abs(middle) @ np.abs(w), 2**-8)
    assert np.median(np.abs(got - middle @ w) / (np.abs(middle) @ np.abs(w))) < 2**-20


def test_quotients_by_numbers_become_products_before_rounding() -> None:
    """GELU, as PyTorch writes it, between two products."""
    x, first, second = normal(1, 19, 64), normal(2, 64, 96) / 8, normal(3, 96, 40)
    graph, (a,) = graph_of(x.shape)
    hidden = add_product(graph, a, first)
    root = constant(graph, np.array([2**0.5], np.float32))
    erf = build(graph, "erf", [build(graph, "div", [hidden, root]).output]).output
    one = constant(graph, np.array([1], np.float32))
    hidden = build(graph, "mul", [hidden, build(graph, "add", [erf, one]).output]).output
    graph.add_output(add_product(graph, hidden, second), "y")
    steps: list[str] = []

    def look(graph: Graph, ran: PassRun) -> None:
        if ran.name == "lower_precision":
            found = [op for op in graph.ops if op.name == "fused_matmul"]
            steps.extend(step.op for step in found[0].attributes["expression"].steps)

    got: Any = compile_graph(graph, HALVES._replace(threads=1), hook=look)(x)
    assert "erf" in steps and "div" not in steps
    before = rounded(x) @ rounded(first)
    before *= 1 + np.vectorize(math.erf)(before / 2**0.5)
    middle, w = rounded(before.astype(np.float32)), rounded(second)
    assert_close(got, middle @ w, np.abs(middle) @ np.abs(w), 2**-8)
    assert np.median(np.abs(got - middle @ w) / (np.abs(middle) @ np.abs(w))) < 2**-18


def test_values_that_others_read_stay_float32() -> None:
    x, w = normal(1, 5, 32), normal(2, 32, 32)
    graph, (a,) = graph_of(x.shape)
    square = build(graph, "sqr", [a]).output
    product = add_product(graph, square, w)
    graph.add_output(product, "y")
    graph.add_output(build(graph, "exp", [square]).output, "z")
    y, z = compile_graph(graph, HALVES._replace(threads=1))(x)
    square = x * x
    np.testing.assert_allclose(z, np.exp(square), 1e-6)
    assert_close(y, rounded(square) @ rounded(w), np.abs(rounded(square)) @ np.abs(rounded(w)))


@pytest.mark.parametrize(("depth", "columns"), [(STEP + 1, 32), (8, 32), (64, 4)])
def test_products_of_other_depths_stay_float32(depth: int, columns: int) -> None:
    x, w = normal(1, 9, depth), normal(2, depth, columns)
    graph, (a,) = graph_of(x.shape)
    graph.add_output(add_product(graph, a, w), "y")
    got = run(graph, x, products=0)
    assert_close(got, x.astype(np.float64) @ w, np.abs(x).astype(np.float64) @ np.abs(w), 2**-21)


def test_infinities_and_nan_stay_in_their_rows() -> None:
    x, w = normal(1, 20, 64), np.abs(normal(2, 64, 33)) + 1
    x[3, 5], x[7, 0], x[9, 63] = np.inf, np.nan, -np.inf
    graph, (a,) = graph_of(x.shape)
    graph.add_output(add_product(graph, a, w), "y")
    got = run(graph, x)
    assert np.all(got[3] == np.inf) and np.all(np.isnan(got[7])) and np.all(got[9] == -np.inf)
    others = [i for i in range(20) if i not in (3, 7, 9)]
    assert np.isfinite(got[others]).all()


def test_normalised_values_are_stored_as_bfloat16() -> None:
    """A layer normalisation that only a product reads."""
    x, w = normal(1, 1, 13, 96), normal(2, 1, 96, 64)
    graph, (a,) = graph_of(x.shape)
    mean = build(graph, "mean_reduce", [a], {"axes": (2,)}).output
    centred = build(graph, "sub", [a, mean]).output
    squares = build(graph, "sqr", [centred]).output
    variance = build(graph, "mean_reduce", [squares], {"axes": (2,)}).output
    epsilon = constant(graph, np.array([1e-5], np.float32))
    variance = build(graph, "add", [variance, epsilon]).output
    normalised = build(graph, "div", [centred, build(graph, "sqrt", [variance]).output]).output
    graph.add_output(add_product(graph, normalised, w), "y")
    wide = x.astype(np.float64)
    centre = wide - wide.mean(2, keepdims=True)
    y = centre / np.sqrt((centre**2).mean(2, keepdims=True) + 1e-5)
    y, w = rounded(y.astype(np.float32)), rounded(w)
    got = run(graph, x)
    assert_close(got, y @ w, np.abs(y) @ np.abs(w), 2**-8)
    assert np.median(np.abs(got - y @ w) / (np.abs(y) @ np.abs(w))) < 2**-18
