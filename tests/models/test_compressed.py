"""Products and gathers with compressed weights (16 bits or quantized blocks), against float64."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, TensorType, Value, print_graph
from nnefc.ir.graph import Variable
from nnefc.ir.verify import check
from nnefc.lower import lower
from nnefc.lower.product.compressed_weights import FEW_ROWS
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.verify import rule_problems
from nnefc.passes.cleanup.sink_dequantization import SinkDequantization
from nnefc.passes.pipeline import run_pipeline
from nnefc.support.block_formats import BLOCK_BYTES, BLOCK_FORMATS
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples
from tests.helpers.kernels.compiled_op import Array
from tests.helpers.kernels.one_op import normal, run_graph
from tests.models.test_block_quantized import decoded, random_blocks

HALVES = ("float16", "bfloat16")
FORMATS = (*HALVES, *BLOCK_BYTES)
each_format = pytest.mark.parametrize("name", FORMATS)


def constant(graph: Graph, label: str, data: Array) -> Value:
    """A variable with this data, which constant folding does not decompress."""
    type_ = TensorType(DType(data.dtype.name), data.shape)
    graph.variables[label] = Variable(label, type_, data)
    attributes = {"shape": data.shape, "label": label}
    return build(graph, "variable", [], attributes, dtype=type_.dtype).output


def weights(graph: Graph, name: str, rows: int, columns: int, seed: int) -> tuple[Value, Array]:
    """(float32[rows, columns] widened from compressed weights in a graph, the same in float64)."""
    if name in HALVES:
        half = DType(name)
        data = normal(seed, rows, columns).astype(half.numpy)
        stored = constant(graph, "w", data)
        wide = build(graph, "cast", [stored], {}, dtype=DType.FLOAT32).output
        return wide, data.astype(np.float64)
    data = random_blocks(name, rows, columns // 32, seed)
    options = {"format": name, "shape": (rows, columns)}
    wide = build(graph, "dequantize_blocks", [constant(graph, "w", data)], options).output
    return wide, decoded(data, name).astype(np.float64).reshape(rows, columns)


def add_input(graph: Graph, x: Array, name: str) -> Value:
    return graph.add_input(TensorType(DType(x.dtype.name), x.shape), name)


def compiled(
    graph: Graph, *inputs: Array, threads: int = 1, at_end: bool = True, strict: bool = True
) -> Array:
    """The result; without `strict`, many rows are rounded (`test_block_products`)."""
    run_pipeline(graph)
    check(graph, rule_problems)
    (result,) = run_graph(graph, *inputs, threads=threads, at_end=at_end, strict=strict)
    return result


def close(got: Array, want: Array, size: Any = None) -> None:
    """Compare with a tolerance of float32 relative to `size`, or to the result without it."""
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 2e-6 * np.max(np.abs(want) if size is None else size)


@examples(0.6)
@given(
    st.sampled_from(FORMATS),
    st.integers(1, 2 * FEW_ROWS + 9),
    st.integers(1, 150),
    st.integers(1, 10),
    st.integers(0, 31),
    st.booleans(),
)
def test_products_match_float64(
    name: str, m: int, n: int, blocks: int, more: int, at_end: bool
) -> None:
    depth = 32 * blocks + (more if name in HALVES else 0)
    x = normal(1, m, depth)
    graph = Graph("product")
    given_x = add_input(graph, x, "x")
    w, wide = weights(graph, name, n, depth, 2)
    graph.add_output(build(graph, "matmul", [given_x, w], {"transposeB": True}).output, "y")
    want = x.astype(np.float64) @ wide.T
    close(compiled(graph, x, at_end=at_end), want, np.abs(x) @ np.abs(wide.T))


@examples(0.4)
@given(
    st.sampled_from(sorted(BLOCK_BYTES)),
    st.integers(1, 2 * FEW_ROWS + 9),
    st.integers(1, 4),
    st.integers(1, 10),
    st.booleans(),
)
def test_blocks_across_the_depth(name: str, m: int, blocks: int, groups: int, at_end: bool) -> None:
    """Products with the matrix as it is stored: each row of blocks is multiplied with an item."""
    x = normal(1, m, 32 * groups)
    graph = Graph("product")
    given_x = add_input(graph, x, "x")
    w, wide = weights(graph, name, 32 * groups, 32 * blocks, 2)
    graph.add_output(build(graph, "matmul", [given_x, w]).output, "y")
    run_pipeline(graph)
    launches = lower(graph, threads=1).launches
    assert len(launches) == 1  # nothing decodes the matrix
    (got,) = run_graph(graph, x, threads=1, at_end=at_end, strict=True)
    close(got, x.astype(np.float64) @ wide, np.abs(x) @ np.abs(wide))


@each_format
@pytest.mark.parametrize("m", [1, 5, 40])
def test_epilogues_are_fused_into_products(name: str, m: int) -> None:
    """The epilogue has a bias per column, a residual and an activation; two threads run it."""
    x, bias, other = normal(1, m, 320), normal(2, 1, 300), normal(3, m, 300)
    graph = Graph("layer")
    values = [add_input(graph, a, f"x{i}") for i, a in enumerate((x, bias, other))]
    w, wide = weights(graph, name, 300, 320, 4)
    product = build(graph, "matmul", [values[0], w], {"transposeB": True}).output
    shifted = build(graph, "add", [product, values[1]]).output
    result = build(graph, "relu", [build(graph, "add", [shifted, values[2]]).output]).output
    graph.add_output(result, "y")
    want = np.maximum(x.astype(np.float64) @ wide.T + bias + other, 0)
    got = compiled(graph, x, bias, other, threads=2)
    assert any(op.name == "fused_matmul" for op in graph.ops)
    close(got, want)


@each_format
def test_batches_share_weights_through_views(name: str) -> None:
    """The rows of the other operand are strided."""
    x = normal(1, 3, 2, 64, 5)
    graph = Graph("batches")
    turned = build(graph, "transpose", [add_input(graph, x, "x")], {"axes": (0, 1, 3, 2)}).output
    w, wide = weights(graph, name, 24, 64, 2)
    w = build(graph, "unsqueeze", [w], {"axes": (0, 1)}).output
    graph.add_output(build(graph, "matmul", [turned, w], {"transposeB": True}).output, "y")
    close(compiled(graph, x), x.astype(np.float64).swapaxes(2, 3) @ wide.T)


@each_format
@pytest.mark.parametrize("m", [1, 3, 30])
def test_weights_may_be_the_left_operand_or_not_transposed(name: str, m: int) -> None:
    x, y = normal(1, 64, m), normal(2, m, 24)
    graph = Graph("sides")
    left, right = add_input(graph, x, "x"), add_input(graph, y, "y")
    w, wide = weights(graph, name, 24, 64, 3)
    first = build(graph, "matmul", [w, left]).output
    second = build(graph, "matmul", [right, w]).output
    graph.add_output(build(graph, "matmul", [first, second]).output, "z")
    left_, right_ = wide @ x.astype(np.float64), y.astype(np.float64) @ wide
    close(compiled(graph, x, y), left_ @ right_)


@each_format
def test_compressed_weights_are_neither_stored_nor_unpacked_wide(name: str) -> None:
    """Constants have the compressed size, and the only launch is the product."""
    graph = Graph("small")
    x = normal(1, 1, 512)
    w, _ = weights(graph, name, 2048, 512, 2)
    product = build(graph, "matmul", [add_input(graph, x, "x"), w], {"transposeB": True})
    graph.add_output(product.output, "y")
    run_pipeline(graph)
    program = lower(graph)
    assert sum(a.nbytes for a in program.constants) <= 2048 * 512 * 2 + 4096
    assert [launch.kernel.family for launch in program.launches] == ["product.matmul.gemm"]
    close(run_graph(graph, x)[0], x.astype(np.float64) @ weights(Graph(), name, 2048, 512, 2)[1].T)


@each_format
def test_an_infinite_row_affects_no_other_row(name: str) -> None:
    x = normal(1, 3, 64)
    x[1] = np.inf
    graph = Graph("infinite")
    w, wide = weights(graph, name, 20, 64, 2)
    product = build(graph, "matmul", [add_input(graph, x, "x"), w], {"transposeB": True})
    graph.add_output(product.output, "y")
    got = compiled(graph, x)
    close(got[[0, 2]], x[[0, 2]].astype(np.float64) @ wide.T)
    assert not np.isfinite(got[1]).any()


@pytest.mark.parametrize("name", BLOCK_BYTES)
@pytest.mark.parametrize("scale", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("m", [1, 40])
def test_infinite_scales_are_refused_and_nan_propagates(name: str, scale: float, m: int) -> None:
    """Infinity times a sum of codes would be infinite where the sum of the items is NaN."""
    x, data = normal(1, m, 64), random_blocks(name, 40, 2, 2)
    stored = np.array([scale], f"<f{BLOCK_FORMATS[name].scale_bytes}").view(np.uint8)
    data.reshape(40, 2, -1)[33, 1, : len(stored)] = stored
    graph = Graph("scales")
    options = {"format": name, "shape": (40, 64)}
    w = build(graph, "dequantize_blocks", [constant(graph, "w", data)], options).output
    product = build(graph, "matmul", [add_input(graph, x, "x"), w], {"transposeB": True})
    graph.add_output(product.output, "y")
    if np.isinf(scale):
        with pytest.raises(NnefError, match=r"\[40,64\] have a block with an infinite scale"):
            compiled(graph, x)
    else:
        want = x.astype(np.float64) @ decoded(data, name).astype(np.float64).reshape(40, 64).T
        np.testing.assert_allclose(compiled(graph, x), want, rtol=1e-3, atol=1e-3)


@each_format
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_embeddings_are_gathered_from_compressed_rows(name: str, shape: tuple[int, ...]) -> None:
    indices = np.random.default_rng(0).integers(-50, 50, shape)
    graph = Graph("embedding")
    w, wide = weights(graph, name, 50, 96, 2)
    i = graph.add_input(TensorType(DType.INT64, shape), "i")
    rows = build(graph, "gather", [w, i], {"axis": 0}).output
    graph.add_output(build(graph, "relu", [rows]).output, "y")
    got = compiled(graph, indices)
    np.testing.assert_array_equal(got, np.maximum(wide[indices], 0).astype(np.float32))
    widened = [op for op in graph.ops if op.name in ("cast", "dequantize_blocks")]
    assert all(op.output.type.volume <= 96 * 6 for op in widened)


@pytest.mark.parametrize("m", [1, 40])
def test_gather_and_product_share_one_table(m: int) -> None:
    """Language models with tied embeddings use one table for the first and the last layer."""
    indices = np.arange(m) % 50
    graph = Graph("tied")
    w, wide = weights(graph, "q4_0", 50, 96, 2)
    i = graph.add_input(TensorType(DType.INT64, (m,)), "i")
    rows = build(graph, "gather", [w, i], {"axis": 0}).output
    graph.add_output(build(graph, "matmul", [rows, w], {"transposeB": True}).output, "y")
    close(compiled(graph, indices), wide[indices] @ wide.T)


STEPS = ("view", "unsqueeze", "squeeze", "rows", "columns")


@examples(2)
@given(
    st.sampled_from(FORMATS),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99)), min_size=1, max_size=6),
)
def test_dequantization_sinks_below_views_and_gathers_of_rows(
    name: str, steps: list[tuple[str, int]]
) -> None:
    graph, inputs = Graph("moved"), dict[str, Array]()
    values = [weights(graph, name, 6, 64, 5)[0]]
    for step, seed in steps:
        x = values[-2] if len(values) > 1 and seed % 4 == 0 else values[-1]
        values.append(_moved(graph, inputs, x, step, seed) if x.type.rank else x)
    for i, value in enumerate(values[1:]):
        graph.add_output(value, f"y{i}")
    wanted, text = evaluate(graph, inputs).outputs, print_graph(graph)
    assert SinkDequantization().run(graph) == (print_graph(graph) != text)
    check(graph, rule_problems)
    for key, found in evaluate(graph, inputs).outputs.items():
        np.testing.assert_array_equal(found, wanted[key], text)


def _moved(graph: Graph, inputs: dict[str, Array], x: Value, step: str, seed: int) -> Value:
    """A view of x, or a gather from x at indices that are a further input."""
    random, dims = np.random.default_rng(seed), x.type.dims
    if step in ("rows", "columns"):
        axis = 0 if step == "rows" else len(dims) - 1
        shape = ((), (3,), (1, 2))[seed % 3]
        name = f"i{len(inputs)}"
        inputs[name] = np.asarray(random.integers(-dims[axis], dims[axis], shape))
        indices = add_input(graph, inputs[name], name)
        return build(graph, "gather", [x, indices], {"axis": axis}).output
    if step == "unsqueeze":
        return build(graph, step, [x], {"axes": (seed % (len(dims) + 1),)}).output
    if step == "squeeze":
        return build(graph, step, [x], {"axes": [i for i, n in enumerate(dims) if n == 1]}).output
    first = random.choice([n for n in (1, 2, 4, 6, 12, 24) if x.type.volume % n == 0])
    return build(graph, "reshape", [x], {"shape": (int(first), x.type.volume // int(first))}).output
