"""Integers of all widths wrap around as in NumPy: arithmetic, shifts, reductions and products."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (arrays of any type)

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, TensorType
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.passes.pipeline import run_pipeline
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples
from tests.helpers.kernels.compiled_op import Array
from tests.helpers.kernels.one_op import run, run_graph

INTEGERS = [t for t in DType if t.is_integer]


def extremes(dtype: DType) -> list[int]:
    """The bounds of the type, their neighbours, and numbers around zero."""
    bounds = np.iinfo(dtype.numpy)
    near = [n for n in range(-5, 6) if n >= bounds.min]
    return [bounds.min, bounds.min + 1, bounds.max, bounds.max - 1, *near]


def items(dtype: DType, count: int, seed: int = 0) -> Array:
    """Random numbers of all magnitudes, and the extremes."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 64, count, np.uint64, endpoint=False)
    wild = (bits >> rng.integers(0, 64, count).astype(np.uint64)).astype(dtype.numpy)
    return rng.permutation(np.concatenate([wild, np.array(extremes(dtype), dtype.numpy)]))


def truncated(x: Array, y: Array) -> Array:
    """Quotients of Python integers, rounded towards zero; 0 for a divisor of 0."""

    def quotient(a: int, b: int) -> int:
        return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    bits = (1 << 8 * x.itemsize) - 1
    whole = [quotient(a, b) & bits for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    return np.array(whole, f"uint{8 * x.itemsize}").view(x.dtype)


def powers(x: Array, y: Array) -> Array:
    def power(a: int, b: int) -> int:
        return pow(a, b, bits + 1) if b >= 0 else (a if b % 2 else 1) if abs(a) == 1 else 0

    bits = (1 << 8 * x.itemsize) - 1
    whole = [power(a, b) & bits for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    return np.array(whole, f"uint{8 * x.itemsize}").view(x.dtype)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": truncated,
    "pow": powers,
    "remainder": np.fmod,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "lt": np.less,
    "gt": np.greater,
    "le": np.less_equal,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "sqr": np.square,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "bitnot": np.invert,
    "copy": np.array,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_arithmetic_wraps_around(dtype: DType) -> None:
    x, y = items(dtype, 500), items(dtype, 500, 1)
    graph = Graph("all")
    a, b = (graph.add_input(TensorType(dtype, x.shape), name) for name in "ab")
    for name in BINARY:
        graph.add_output(build(graph, name, [a, b]).output, name)
    for name in UNARY:
        graph.add_output(build(graph, name, [a]).output, name)
    computed = dict(zip(graph.output_names, run_graph(graph, x, y), strict=True))
    reference = evaluate(graph, {"a": x, "b": y}).outputs
    wanted = {name: function(x, y) for name, function in BINARY.items()}
    wanted |= {name: function(x) for name, function in UNARY.items()}
    for name, want in wanted.items():
        np.testing.assert_array_equal(computed[name], want, name)
        np.testing.assert_array_equal(reference[name], want, name)
        assert computed[name].dtype == want.dtype


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_division_by_constants(dtype: DType) -> None:
    """Kernels choose between divisors at compile time."""
    x = items(dtype, 100)
    for divisor in (0, 1, 3, 4, *([-1] if dtype.is_signed else [])):
        graph = Graph("div")
        a = graph.add_input(TensorType(dtype, x.shape), "x")
        y = np.full((), divisor, dtype.numpy)
        c = build(graph, "constant", [], {"shape": (), "value": y}, dtype=dtype)
        graph.add_output(build(graph, "div", [a, c.output]).output, "y")
        (got,) = run_graph(graph, x)
        np.testing.assert_array_equal(got, truncated(x, np.full_like(x, divisor)))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_match_numpy(dtype: DType) -> None:
    x = items(dtype, 100)
    counts = np.resize(np.arange(8 * dtype.itemsize), x.shape).astype(dtype.numpy)
    np.testing.assert_array_equal(run("shift_left", x, counts), x << counts)
    np.testing.assert_array_equal(run("shift_right", x, counts), x >> counts)


REDUCED = list(zip(INTEGERS, itertools.cycle(["sum", "prod", "max", "min", "sum"])))
"""One reduction of each type, because each pair needs kernels of its own."""


@examples(0.6)
@given(st.data())
def test_reductions_match_numpy(data: st.DataObject) -> None:
    dtype, name = data.draw(st.sampled_from(REDUCED))
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 33, 70]), min_size=1, max_size=3)))
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))))
    x = np.resize(items(dtype, 300, data.draw(st.integers(0, 9))), shape)
    got = run("product_reduce" if name == "prod" else f"{name}_reduce", x, axes=axes)
    want = getattr(np, name)(x, axis=axes, keepdims=True).astype(dtype.numpy)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == x.dtype
    count = int(np.prod([shape[a] for a in axes], dtype=int))
    wide = np.sum(x, axis=axes, keepdims=True, dtype=object).reshape(-1)
    small = abs(int(max(wide, key=abs))) < 1 << 63
    if name == "sum" and small:
        mean = [abs(n) // count * (1 if n >= 0 else -1) for n in wide.tolist()]
        got = run("sum_reduce", x, axes=axes, normalize=True)
        np.testing.assert_array_equal(got.reshape(-1), np.array(mean).astype(dtype.numpy))
    rest = [d for d in range(x.ndim) if d not in axes]
    flat = x.transpose([*rest, *axes]).reshape(*(shape[d] for d in rest), -1)
    want = np.expand_dims(np.argmax(flat, axis=-1), axes)
    np.testing.assert_array_equal(run("argmax_reduce", x, axes=axes), want)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_select_and_pad_match_numpy(dtype: DType) -> None:
    x, y = np.resize(items(dtype, 30), (6, 7)), np.resize(items(dtype, 30, 1), (6, 7))
    condition = x > y
    np.testing.assert_array_equal(run("select", condition, x, y), np.where(condition, x, y))
    got = run("pad", x, padding=((1, 0), (2, 3)), border="constant", value=7.0)
    np.testing.assert_array_equal(got, np.pad(x, ((1, 0), (2, 3)), constant_values=7))


def test_integers_and_floats_do_not_mix() -> None:
    graph = Graph("mixed")
    x = graph.add_input(TensorType(DType.FLOAT32, (2,)), "x")
    i, j = (graph.add_input(TensorType(t, (2,)), t.value) for t in (DType.INT32, DType.INT8))
    for operands in ([x, i], [i, x], [i, j]):
        with pytest.raises(NnefError, match="must be a tensor of"):
            build(graph, "add", operands)
    with pytest.raises(NnefError, match="must be a tensor of scalar"):
        build(graph, "exp", [i])


@examples(0.5)
@given(st.data())
def test_matrix_products_wrap_around(data: st.DataObject) -> None:
    """Batches broadcast, operands are transposed or constant, and extents are odd."""
    dtype = data.draw(st.sampled_from(INTEGERS))
    extent = st.sampled_from([1, 2, 3, 5, 9, 33, 70])
    m, n, depth = (data.draw(extent) for _ in range(3))
    batch = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    ones = tuple(k if data.draw(st.booleans()) else 1 for k in batch)
    turned_a, turned_b, known = (data.draw(st.booleans()) for _ in range(3))
    a = np.resize(items(dtype, 900), (*batch, m, depth))
    b = np.resize(items(dtype, 900, 1), (*ones, depth, n))
    want = np.matmul(a, b)
    left = np.ascontiguousarray(a.swapaxes(-1, -2)) if turned_a else a
    right = np.ascontiguousarray(b.swapaxes(-1, -2)) if turned_b else b
    graph = Graph("product")
    x = graph.add_input(TensorType(dtype, left.shape), "x")
    if known:
        attributes = {"shape": right.shape, "value": right}
        w = build(graph, "constant", [], attributes, dtype=dtype).output
    else:
        w = graph.add_input(TensorType(dtype, right.shape), "w")
    flags = {"transposeA": turned_a, "transposeB": turned_b}
    y = build(graph, "matmul", [x, w], flags).output
    graph.add_output(build(graph, "add", [y, y]).output, "y")
    run_pipeline(graph)
    inputs = [left] if known else [left, right]
    (got,) = run_graph(graph, *inputs, threads=data.draw(st.sampled_from([1, 2])))
    np.testing.assert_array_equal(got, want + want)
