"""Products of two computed matrices of codes: exact sums for all shapes, types and zero points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from nnefc.driver.compile import compile_graph
from nnefc.ir import DType, Graph, TensorType
from nnefc.ir.graph import walk
from nnefc.ops.tools.build import build
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.pipeline import run_pipeline
from tests.helpers.kernels.blocked_op import constant
from tests.helpers.kernels.one_op import run_graph
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import node_model, onnxruntime_results

Array = np.ndarray[Any, Any]
CODES = ("uint8", "int8")


def codes(dtype: str, seed: int, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng([seed, *shape]).integers(
        info.min, info.max, shape, np.dtype(dtype), endpoint=True
    )


def product(
    a: Array, b: Array, zeros: tuple[Array, Array], turned: tuple[bool, bool], computed: bool
) -> tuple[Graph, list[Array]]:
    """A graph of the product and its inputs; zero points are inputs if `computed`."""
    graph, arrays = Graph("product"), [a, b, *(zeros if computed else ())]
    operands = [
        graph.add_input(TensorType(DType(x.dtype.name), x.shape), name)
        for x, name in zip(arrays, ("a", "b", "a_zero", "b_zero"), strict=False)
    ]
    operands += [constant(graph, x) for x in zeros[: 4 - len(operands)]]
    attributes = {"transposeA": turned[0], "transposeB": turned[1]}
    graph.add_output(build(graph, "integer_matmul", operands, attributes).output, "y")
    run_pipeline(graph)
    assert [op.name for op in walk(graph) if "matmul" in op.name] == ["code_matmul"]
    return graph, arrays


def sums(a: Array, b: Array, zeros: tuple[Array, Array], turned: tuple[bool, bool]) -> Array:
    """The product by NumPy, in int64."""
    x, y = (
        np.swapaxes(z, -1, -2) if flip else z
        for z, flip in zip(
            (m.astype(np.int64) - int(zero) for m, zero in zip((a, b), zeros, strict=True)), turned
        )
    )
    return (x @ y).astype(np.int32)


@given(
    st.tuples(
        st.sampled_from([1, 7, 30, 50]),
        st.sampled_from([1, 2, 3, 4, 5, 8, 15, 33, 64, 70, 131]),
        st.sampled_from([3, 16, 33, 70]),
    ),
    st.sampled_from([((), ()), ((2,), (2,)), ((1, 3), (2, 1)), ((2, 1, 2), (1, 3, 2))]),
    st.tuples(st.sampled_from(CODES), st.sampled_from(CODES)),
    st.tuples(st.booleans(), st.booleans()),
    st.booleans(),
    st.integers(0, 255),
    st.sampled_from([0, 1, 77, 128, 255]),
    st.sampled_from([1, 2]),
)
def test_sums_are_exact(
    sizes: tuple[int, ...],
    batches: tuple[tuple[int, ...], tuple[int, ...]],
    types: tuple[str, str],
    turned: tuple[bool, bool],
    computed: bool,
    first: int,
    second: int,
    threads: int,
) -> None:
    m, depth, n = sizes
    shapes = [(m, depth), (depth, n)]
    shapes = [s[::-1] if flip else s for s, flip in zip(shapes, turned, strict=True)]
    a, b = (
        codes(dtype, seed, *batch, *shape)
        for seed, (dtype, batch, shape) in enumerate(zip(types, batches, shapes, strict=True))
    )
    x, y = (
        np.array(zero + np.iinfo(dtype).min, dtype)
        for zero, dtype in zip((first, second), types, strict=True)
    )
    graph, arrays = product(a, b, (x, y), turned, computed)
    (got,) = run_graph(graph, *arrays, threads=threads)
    np.testing.assert_array_equal(got, sums(a, b, (x, y), turned))


@pytest.mark.parametrize("kinds", [("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8")])
def test_results_are_those_of_onnxruntime(kinds: tuple[str, str]) -> None:
    """QLinearMatMul and MatMulInteger with two computed operands, in a batch."""
    a, b = codes(kinds[0], 0, 2, 3, 9, 40), codes(kinds[1], 1, 2, 3, 40, 21)
    zeros = np.array(3, kinds[0]), np.array(2, kinds[1])
    scales = [np.array(x, np.float32) for x in (0.02, 0.03, 4.0)]
    inputs = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], np.array(10, kinds[0])]
    model = node_model("QLinearMatMul", inputs, known=[1, 2, 4, 5, 6, 7])
    (want,) = onnxruntime_results(model, [a, b])
    got = compile_graph(graph_for(model, [a, b]), CompileConfig(1))(a, b)
    np.testing.assert_array_equal(got, want)
    assert len(np.unique(want)) > 25

    model = node_model("MatMulInteger", [a, b, *zeros], types=[TensorProto.INT32])
    (want,) = onnxruntime_results(model, [a, b, *zeros])
    got = compile_graph(graph_for(model, [a, b, *zeros]), CompileConfig(1))(a, b, *zeros)
    np.testing.assert_array_equal(got, want)


def test_a_known_left_matrix() -> None:
    a, b = codes("int8", 0, 5, 30), codes("uint8", 1, 30, 40)
    graph = Graph("product")
    right = graph.add_input(TensorType(DType.UINT8, b.shape), "b")
    zeros = np.array(-7, np.int8), np.array(200, np.uint8)
    operands = [constant(graph, a), right, *(constant(graph, x) for x in zeros)]
    plain = {"transposeA": False, "transposeB": False}
    graph.add_output(build(graph, "integer_matmul", operands, plain).output, "y")
    run_pipeline(graph)
    assert any(op.name == "code_matmul" for op in walk(graph))
    (got,) = run_graph(graph, b)
    np.testing.assert_array_equal(got, sums(a, b, zeros, (False, False)))


def test_zero_points_of_rows_are_computed_in_floats() -> None:
    a, b = codes("uint8", 0, 5, 30), codes("uint8", 1, 30, 40)
    x, y = codes("uint8", 2, 5, 1), np.array(9, np.uint8)
    graph = Graph("product")
    left, right = (
        graph.add_input(TensorType(DType.UINT8, z.shape), name) for z, name in ((a, "a"), (b, "b"))
    )
    operands = [left, right, constant(graph, x), constant(graph, y)]
    plain = {"transposeA": False, "transposeB": False}
    graph.add_output(build(graph, "integer_matmul", operands, plain).output, "y")
    run_pipeline(graph)
    assert not any(op.name == "code_matmul" for op in walk(graph))
    (got,) = run_graph(graph, a, b)
    want = (a.astype(np.int64) - x) @ (b.astype(np.int64) - 9)
    np.testing.assert_array_equal(got, want)
