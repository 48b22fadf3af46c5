"""Matrix products against NumPy, between guard pages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.one_op import normal, run


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_matmul_is_numpy(data: st.DataObject) -> None:
    size = st.one_of(st.integers(1, 6), st.integers(1, 140))
    m, n, k = (data.draw(size) for _ in range(3))
    batch = data.draw(st.lists(st.integers(1, 3), max_size=3))
    a_batch = [data.draw(st.sampled_from([1, extent])) for extent in batch]
    b_batch = [extent if a != extent else data.draw(st.sampled_from([1, extent]))
               for a, extent in zip(a_batch, batch, strict=True)]  # fmt: skip
    a_transposed, b_transposed = data.draw(st.booleans()), data.draw(st.booleans())
    dtype = data.draw(st.sampled_from(["float32", "float32", "float64"]))
    a = normal(1, *a_batch, *((k, m) if a_transposed else (m, k)), dtype=dtype)
    b = normal(2, *b_batch, *((n, k) if b_transposed else (k, n)), dtype=dtype)
    got = run(
        "matmul", a, b, transposeA=a_transposed, transposeB=b_transposed,
        at_end=data.draw(st.booleans()),
    )  # fmt: skip
    left, right = a.astype(np.float64), b.astype(np.float64)
    left = left.swapaxes(-1, -2) if a_transposed else left
    right = right.swapaxes(-1, -2) if b_transposed else right
    want = left @ right
    assert got.shape == want.shape
    scale = np.sqrt(k) * (2e-6 if dtype == "float32" else 1e-14)
    np.testing.assert_allclose(got, want, atol=scale, rtol=scale)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(300, 500, 400), (1, 4096, 1000), (1000, 1, 999), (64, 2000, 3)]
)
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_over_many_tiles(m: int, n: int, k: int, transposed: bool) -> None:
    a, b = normal(1, m, k), normal(2, *((n, k) if transposed else (k, n)))
    got = run("matmul", a, b, transposeB=transposed, threads=2)
    want = a.astype(np.float64) @ (b.T if transposed else b)
    np.testing.assert_allclose(got, want, atol=2e-6 * np.sqrt(k) * 10, rtol=1e-5)


def test_many_small_products_are_few_tiles() -> None:
    """More products than a launch may have tiles."""
    a, b = normal(1, 1500, 1000, 1, 1), normal(2, 1, 1000, 1, 2)
    np.testing.assert_allclose(run("matmul", a, b), a @ b, rtol=1e-6)


@pytest.mark.parametrize("name", ["gemm", "dots", "conv"])
def test_error_does_not_grow_with_the_length_of_sums(name: str) -> None:
    """A sum of 20,000 products in a row would be off by some 1e-5."""
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
