"""Products of codes in matrix registers: the same sums as in vectors, against NumPy's int64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.kernels.target.isa import host
from nnefc.lower import lower
from nnefc.passes.pipeline import run_pipeline
from tests.kernels.product.test_code_matmul import Case, codes, zero

pytestmark = pytest.mark.skipif(
    not host().matrix_byte_dot, reason="the processor has no matrix registers"
)

MATRICES = "product.matrix_code_matmul.product"
VECTORS = "product.code_matmul.product"


def case(m: int, depth: int, n: int) -> Case:
    a, b = codes("uint8", m, depth), codes("int8", depth, n, seed=1)
    return Case(a, b, zero(131, "uint8"), zero(0, "int8"))


def kernels(case: Case) -> set[str]:
    """The families of kernels of a product."""
    graph, sums = case.graph()
    graph.add_output(sums, "y")
    run_pipeline(graph)
    return {kernel.family for kernel in lower(graph).kernels}


@given(
    m=st.sampled_from([4, 5, 15, 16, 17, 31, 32, 33, 48, 50]),
    depth=st.integers(32, 200) | st.sampled_from([64, 128, 192, 256, 259, 764]),
    n=st.sampled_from([1, 15, 16, 17, 31, 32, 33, 50]),
)
def test_sums_are_exact(m: int, depth: int, n: int) -> None:
    product = case(m, depth, n)
    assert MATRICES in kernels(product)
    graph, sums = product.graph()
    graph.add_output(sums, "y")
    np.testing.assert_array_equal(product.run(graph), product.sums())


@pytest.mark.parametrize(
    ("m", "depth", "family"), [(4, 32, MATRICES), (3, 32, VECTORS), (4, 31, VECTORS)]
)
def test_small_products_are_computed_in_vectors(m: int, depth: int, family: str) -> None:
    assert kernels(case(m, depth, 40)) & {MATRICES, VECTORS} == {family}
