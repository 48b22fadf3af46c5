"""Products of fixed-point rows with 4-bit weights, against products in float64."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import Graph
from nnefc.kernels.product.fixed_point import MOST_BYTES
from nnefc.kernels.target.isa import host
from nnefc.lower.product.compressed_weights import FEW_ROWS
from nnefc.ops.tools.build import build
from tests.helpers.examples import examples
from tests.helpers.kernels.compiled_op import Array
from tests.helpers.kernels.one_op import normal
from tests.models.test_block_quantized import decoded, random_blocks
from tests.models.test_compressed import add_input, compiled, constant

ROOT = Path(__file__).resolve().parents[2]


def product(x: Array, blocks: Array, threads: int = 1) -> tuple[Array, Array, Array]:
    """(Compiled product of x with transposed Q4_0 weights, float64 product, float64 weights)."""
    shape = len(blocks), x.shape[1]
    graph = Graph("product")
    stored = constant(graph, "w", blocks)
    options = {"format": "q4_0", "shape": shape}
    w = build(graph, "dequantize_blocks", [stored], options).output
    y = build(graph, "matmul", [add_input(graph, x, "x"), w], {"transposeB": True}).output
    graph.add_output(y, "y")
    wide = decoded(blocks, "q4_0").astype(np.float64).reshape(shape)
    with np.errstate(invalid="ignore"):
        want = x.astype(np.float64) @ wide.T
    return compiled(graph, x, threads=threads), want, wide


@examples(0.6)
@given(
    st.integers(1, FEW_ROWS),
    st.integers(2, 40),
    st.lists(st.integers(-160, 110), min_size=1, max_size=4),
    st.integers(0, 9),
)
def test_rounding_is_relative_to_the_largest_item_of_a_block(
    m: int, n: int, powers: list[int], seed: int
) -> None:
    """No item is rounded by more than 2^-22 of the largest item of its block."""
    x = normal(seed, m, len(powers), 32).astype(np.float64)
    x = np.ldexp(x, np.array(powers)[:, None]).astype(np.float32)
    blocks = random_blocks("q4_0", n, len(powers), seed)
    got, want, wide = product(x.reshape(m, -1), blocks)
    largest = np.maximum(np.abs(x.astype(np.float64)).max(-1), 2.0**-105)
    weights = np.abs(wide).reshape(n, len(powers), 32).sum(-1)
    terms = np.abs(x.reshape(m, -1).astype(np.float64)) @ np.abs(wide).T
    bound = largest @ weights.T * 2.0**-22 + terms * len(powers) * 2.0**-22 + 2.0**-149
    assert (np.abs(got - want) <= bound).all()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("code", [0, 15])
def test_the_largest_sums_do_not_overflow(sign: int, code: int) -> None:
    x = np.full((1, 64), sign * (2.0**24 - 1), np.float32)
    blocks = random_blocks("q4_0", 3, 2, 1)
    blocks.reshape(3, 2, 18)[:, :, 2:] = code * 17
    got, want, _ = product(x, blocks)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6 * np.abs(want).max())


def test_sums_of_multiples_of_the_scale_are_exact() -> None:
    """All items are whole multiples of the scale, and float32 represents all sums."""
    x = np.zeros((5, 96), np.float32)
    rng = np.random.default_rng(1)
    for row in x.reshape(-1, 32):
        row[rng.integers(0, 32)] = rng.integers(1 << 18, 1 << 19)
        row[rng.integers(0, 32)] = -rng.integers(1, 128)
    blocks = random_blocks("q4_0", 20, 3, 2)
    blocks.reshape(20, 3, 18)[:, :, :2] = np.array([0.125], "<f2").view(np.uint8)
    got, want, _ = product(x, blocks)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("m", [1, FEW_ROWS, 67, 150])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_exceed_the_buffer_are_converted_in_pieces(m: int, threads: int) -> None:
    depth = 2 * MOST_BYTES // (4 * min(m, 64)) + 32
    x, blocks = normal(1, m, depth), random_blocks("q4_0", 70, depth // 32, 2)
    got, want, wide = product(x, blocks, threads)
    assert np.abs(got - want).max() <= 1e-6 * (np.abs(x) @ np.abs(wide).T).max()


def test_batches_of_strided_rows() -> None:
    x = normal(1, 2, 3, 150, 64)
    blocks = random_blocks("q4_0", 40, 2, 2)
    graph = Graph("batches")
    turned = build(graph, "transpose", [add_input(graph, x, "x")], {"axes": (1, 0, 2, 3)}).output
    part = {"axes": (2,), "begin": (7,), "end": (142,), "stride": (1,)}
    rows = build(graph, "slice", [turned], part).output
    options = {"format": "q4_0", "shape": (40, 64)}
    w = build(graph, "dequantize_blocks", [constant(graph, "w", blocks)], options).output
    w = build(graph, "unsqueeze", [w], {"axes": (0, 1)}).output
    y = build(graph, "matmul", [rows, w], {"transposeB": True}).output
    graph.add_output(build(graph, "relu", [y]).output, "y")
    wide = decoded(blocks, "q4_0").astype(np.float64).reshape(40, 64)
    want = x[:, :, 7:142].swapaxes(0, 1).astype(np.float64) @ wide.T
    got = compiled(graph, x, threads=2)
    assert np.abs(got - np.maximum(want, 0)).max() <= 1e-6 * np.abs(want).max()


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_infinities_and_nan_make_only_their_row_nan(number: float) -> None:
    x = normal(1, 4, 96)
    x[1, 40] = number
    got, want, _ = product(x, random_blocks("q4_0", 20, 3, 2))
    assert np.isnan(got[1]).all()
    others = [0, 2, 3]
    np.testing.assert_allclose(got[others], want[others], rtol=1e-4, atol=1e-5)


PROGRAM = """
import sys
from nnefc.kernels.target import isa
row = isa.host()._replace(byte_dot="", **eval(sys.argv[1]))
isa.host = lambda: row
import pytest
sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not host().byte_pairs, reason="without such instructions they are not used")
@pytest.mark.parametrize("without", ["{}", "{'byte_pairs': ''}"])
def test_tests_pass_without_dot_product_instructions(without: str) -> None:
    """A table row without the instructions stands for a machine that lacks them."""
    done = subprocess.run(
        [
            *(sys.executable, "-c", PROGRAM, without, __file__, "-k", "not without"),
            "--hypothesis-profile=quick",
        ],
        env=os.environ | {"NNEFC_JOBS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
