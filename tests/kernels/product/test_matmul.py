"""Matrix products against NumPy, between guard pages; operands are constants or inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Expression, Graph, Op, Step, TensorType, Value, Variable
from nnefc.kernels.executor.team_state import MAX_TILES
from nnefc.lower import lower
from nnefc.ops.tools.build import build
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.examples import examples
from tests.helpers.kernels.blocked_op import constant
from tests.helpers.kernels.one_op import guarded, normal, run

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """Two operands, the same as float64 matrices, and which of them are constants."""

    a: Array
    b: Array
    attributes: dict[str, Any]
    known: tuple[bool, bool]

    @property
    def product(self) -> Array:
        left, right = self.a.astype(np.float64), self.b.astype(np.float64)
        left = left.swapaxes(-1, -2) if self.attributes["transposeA"] else left
        return left @ (right.swapaxes(-1, -2) if self.attributes["transposeB"] else right)

    @property
    def tolerance(self) -> float:
        depth = self.a.shape[-2 if self.attributes["transposeA"] else -1]
        return float(np.sqrt(depth)) * (2e-6 if self.a.dtype == np.float32 else 1e-14)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = st.one_of(st.integers(1, 6), st.integers(1, 140))
    m, n, k = (draw(size) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=3))
    a_batch = [draw(st.sampled_from([1, extent])) for extent in batch]
    b_batch = [extent if a != extent else draw(st.sampled_from([1, extent]))
               for a, extent in zip(a_batch, batch, strict=True)]  # fmt: skip
    a_turned, b_turned = draw(st.booleans()), draw(st.booleans())
    dtype = draw(st.sampled_from(["float32", "float32", "float64"]))
    return Case(
        normal(1, *a_batch, *((k, m) if a_turned else (m, k)), dtype=dtype),
        normal(2, *b_batch, *((n, k) if b_turned else (k, n)), dtype=dtype),
        {"transposeA": a_turned, "transposeB": b_turned},
        (draw(st.booleans()), draw(st.booleans())),
    )


def compute(
    name: str, case: Case, others: list[Array], attributes: dict[str, Any], *, at_end: bool
) -> Array:
    """The result of an operation over the operands of a case and others; inputs are guarded."""
    graph = Graph("g")
    values: list[Value] = []
    given_arrays: list[Array] = []
    arrays = [case.a, case.b, *others]
    known = [*case.known, *([False] * len(others))]
    for i, (array, is_known) in enumerate(zip(arrays, known, strict=True)):
        type_ = TensorType(DType(array.dtype.name), array.shape)
        if is_known:
            graph.variables[f"v{i}"] = Variable(f"v{i}", type_, array)
            attribute: Any = {"label": f"v{i}", "shape": array.shape}
            values.append(graph.insert(Op("variable", (), attribute, [type_], [f"v{i}"])).output)
        else:
            values.append(graph.add_input(type_, f"x{i}"))
            given_arrays.append(guarded(array.shape, array.dtype, at_end=at_end))
            given_arrays[-1][...] = array
    result = TensorType(DType(case.a.dtype.name), case.product.shape)
    graph.add_output(graph.insert(Op(name, values, attributes, [result], ["y"])).output)
    out = guarded(result.dims, case.a.dtype, at_end=at_end)
    out.reshape(-1).view(np.uint8)[...] = 0xAA
    CompiledModel.of(lower(graph), graph, threads=1)(*given_arrays, out=out)
    return out.copy()


@examples(0.8)
@given(case=cases(), at_end=st.booleans())
def test_matmul_matches_numpy(case: Case, at_end: bool) -> None:
    got, want = compute("matmul", case, [], case.attributes, at_end=at_end), case.product
    np.testing.assert_allclose(got, want, atol=case.tolerance, rtol=case.tolerance)


@examples(0.6)
@given(case=cases(), at_end=st.booleans(), data=st.data())
def test_fused_matmul_matches_numpy(case: Case, at_end: bool, data: st.DataObject) -> None:
    """(product + x) * y, or tanh of it if it is small; operands repeat along any dimensions."""
    want, dtype = case.product, DType(case.a.dtype.name)
    others: list[Array] = []
    for i in range(2):
        rank = data.draw(st.integers(0, want.ndim))
        shape = [data.draw(st.sampled_from([1, extent])) for extent in want.shape[:rank]]
        others.append(normal(3 + i, *shape, dtype=case.a.dtype))
    expanded = [x.reshape(x.shape + (1,) * (want.ndim - x.ndim)).astype(np.float64) for x in others]
    steps = [Step("add", (0, 1), dtype), Step("mul", (3, 2), dtype)]
    want = (want + expanded[0]) * expanded[1]
    if data.draw(st.booleans()):
        steps.append(Step("tanh", (4,), dtype))
        want = np.tanh(want)
    expression = Expression((dtype,) * 3, tuple(steps), (2 + len(steps),))
    attributes = {**case.attributes, "expression": expression}
    got = compute("fused_matmul", case, others, attributes, at_end=at_end)
    np.testing.assert_allclose(got, want, atol=10 * case.tolerance, rtol=10 * case.tolerance)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(300, 500, 400), (1, 4096, 1000), (1000, 1, 999), (64, 2000, 3)]
)
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_over_many_tiles(m: int, n: int, k: int, transposed: bool) -> None:
    a, b = normal(1, m, k), normal(2, *((n, k) if transposed else (k, n)))
    got = run("matmul", a, b, transposeB=transposed, threads=2)
    want = a.astype(np.float64) @ (b.T if transposed else b)
    np.testing.assert_allclose(got, want, atol=2e-6 * np.sqrt(k) * 10, rtol=1e-5)


def test_a_large_product_has_as_many_tiles_as_a_launch_may_have() -> None:
    graph = Graph("large")
    x, w = (graph.add_input(TensorType(DType.FLOAT32, (n, 512)), f"x{n}") for n in (8192, 16384))
    product = build(graph, "matmul", [x, w], {"transposeB": True})
    graph.add_output(product.output, "y")
    assert 200 < max(launch.tiles for launch in lower(graph).launches) <= MAX_TILES


def test_many_small_products_are_few_tiles() -> None:
    """The number of products exceeds the maximal number of tiles."""
    a, b = normal(1, 1500, 1000, 1, 1), normal(2, 1, 1000, 1, 2)
    np.testing.assert_allclose(run("matmul", a, b), a @ b, rtol=1e-6)


@pytest.mark.parametrize("shapes", [[(1, 20), (1, 999), (1, 128)], [(64, 60), (77, 60), (63, 60)]])
def test_products_of_many_sizes_have_one_kernel(shapes: list[tuple[int, int]]) -> None:
    graph = Graph("products")
    for i, (m, n) in enumerate(shapes):
        x = graph.add_input(TensorType(DType.FLOAT32, (m, 30)), f"x{i}")
        w = constant(graph, normal(i, 30, n))
        graph.add_output(build(graph, "matmul", [x, w], {}).output, f"y{i}")
    names = {launch.kernel for launch in lower(graph).launches if "gemm" in launch.kernel.family}
    assert len(names) == 1


@pytest.mark.parametrize("name", ["gemm", "dots", "conv"])
def test_error_does_not_grow_with_the_length_of_sums(name: str) -> None:
    """One chain of 20,000 additions would have an error of about 1e-5."""
    x = np.random.default_rng(4).uniform(0, 1, (16, 20000)).astype(np.float32)
    y = np.random.default_rng(5).uniform(0, 1, (20000, 24)).astype(np.float32)
    if name == "gemm":
        got = run("matmul", x, y)
    elif name == "dots":
        got = run("matmul", x[:3], np.ascontiguousarray(y.T), transposeB=True)
    else:
        bias = np.zeros((), np.float32)
        planes = y.reshape(1, 800, 25, 24)
        weights = x.reshape(16, 800, 25, 1)
        got = run("conv", planes, weights, bias, padding=((0, 0), (0, 0)))[0, :, 0]
    want = x[: len(got)].astype(np.float64) @ y
    assert np.abs(got / want - 1).max() < 2e-6
