"""Products of many rows with weights in blocks of 32, against products in float64."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import Graph
from nnefc.kernels.product.block_rows import LARGEST, row_kind
from nnefc.kernels.target.isa import executable_variants
from nnefc.lower import lower
from nnefc.lower.product.block_matmul import FEW_ROWS
from nnefc.ops.tools.build import build
from nnefc.passes.pipeline import run_pipeline
from tests.helpers.artifacts.saved import python
from tests.helpers.examples import examples
from tests.helpers.kernels.compiled_op import Array
from tests.helpers.kernels.one_op import normal
from tests.models.test_block_quantized import decoded, random_blocks
from tests.models.test_compressed import add_input, compiled, constant

FORMATS = ("q4_0", "q8_1")
each_format = pytest.mark.parametrize("name", FORMATS)
integers = pytest.mark.skipif(
    row_kind(strict=False) is None, reason="this machine multiplies float32"
)
UNIT = 1 / LARGEST.get(row_kind(strict=False) or "", 2**24)
"""What the last bit of an item counts, relative to the largest in its block."""


@dataclass(frozen=True)
class Case:
    """A product of x with weights in blocks."""

    name: str
    x: Array
    blocks: Array

    def graph(self) -> Graph:
        graph, shape = Graph("product"), (len(self.blocks), self.x.shape[-1])
        stored = constant(graph, "w", self.blocks)
        options = {"format": self.name, "shape": shape}
        w = build(graph, "dequantize_blocks", [stored], options).output
        x = add_input(graph, self.x, "x")
        y = build(graph, "matmul", [x, w], {"transposeB": True}).output
        graph.add_output(y, "y")
        return graph

    def weights(self) -> Array:
        shape = len(self.blocks), self.x.shape[-1]
        return decoded(self.blocks, self.name).astype(np.float64).reshape(shape)

    def want(self) -> Array:
        with np.errstate(invalid="ignore"):
            return self.x.astype(np.float64) @ self.weights().T

    def bound(self, *, strict: bool) -> Array:
        """The most that a result differs."""
        (n, depth), weights = self.weights().shape, np.abs(self.weights())
        x = np.abs(self.x.astype(np.float64)).reshape(len(self.x), -1, 32)
        # a block has up to three sums of 32 products, in float32
        sums = 2.0**-24 * (depth // 32 + 3 * 32)
        exact = x.reshape(len(x), -1) @ weights.T * sums
        if strict:
            return exact
        error = weights.reshape(n, -1, 32).sum(-1) / 2
        if self.name == "q8_1" and row_kind(strict=False) == "bytes":
            scales = self.blocks.reshape(-1, 36)[:, :2].copy().view("<f2").astype(np.float64)
            error += 32 * 8 * 8 * np.abs(scales.reshape(n, -1))
        largest = np.maximum(x.max(-1), 2.0**-100)
        return exact + largest @ error.T * UNIT * 1.001


def random_case(name: str, m: int, n: int, blocks: int, seed: int = 0) -> Case:
    return Case(name, normal(seed, m, 32 * blocks), random_blocks(name, n, blocks, seed))


@examples(0.6)
@given(
    st.sampled_from(FORMATS),
    st.integers(FEW_ROWS + 1, 150),
    st.integers(2, 100),
    st.integers(1, 20),
    st.booleans(),
    st.integers(0, 99),
)
def test_products_match_float64(
    name: str, m: int, n: int, blocks: int, strict: bool, seed: int
) -> None:
    case = random_case(name, m, n, blocks, seed)
    got = compiled(case.graph(), case.x, strict=strict)
    assert (np.abs(got - case.want()) <= case.bound(strict=strict)).all()


@examples(0.4)
@given(
    st.sampled_from(FORMATS),
    st.lists(st.integers(-95, 95), min_size=4, max_size=7),
    st.integers(0, 9),
)
def test_rounding_is_relative_to_the_largest_item_of_a_block(
    name: str, powers: list[int], seed: int
) -> None:
    case = random_case(name, 20, 5, len(powers), seed)
    x = np.ldexp(case.x.reshape(20, -1, 32), np.array(powers)[:, None]).astype(np.float32)
    case = Case(name, x.reshape(20, -1), case.blocks)
    got = compiled(case.graph(), case.x, strict=False)
    assert (np.abs(got - case.want()) <= case.bound(strict=False)).all()


@integers
@each_format
def test_errors_are_much_smaller_than_those_of_8_bits(name: str) -> None:
    """Rows of 8 bits, one number for each item, have errors of 5e-3."""
    case = random_case(name, 64, 64, 24)
    want = case.want()
    error = compiled(case.graph(), case.x, strict=False) - want
    assert np.sqrt(np.mean(error**2) / np.mean(want**2)) <= 5e-4


def test_small_codes_of_8_bits_have_the_errors_of_rows_of_8_bits() -> None:
    """No quantizer writes such blocks: their scale is much too large."""
    case = random_case("q8_1", 64, 64, 24)
    codes = case.blocks.reshape(64, 24, 36)[..., 4:]
    codes[:] = (codes.view(np.int8) >> 4).view(np.uint8)
    want = case.want()
    error = compiled(case.graph(), case.x, strict=False) - want
    assert (np.abs(error) <= case.bound(strict=False)).all()
    assert np.sqrt(np.mean(error**2) / np.mean(want**2)) <= 6e-3


@each_format
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("code", [0x00, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("strict", [False, True])
def test_the_largest_sums_do_not_overflow(name: str, sign: int, code: int, strict: bool) -> None:
    x = np.full((FEW_ROWS + 1, 128), sign * (2.0**24 - 1), np.float32)
    case = Case(name, x, random_blocks(name, 3, 4, 1))
    case.blocks.reshape(3, 4, -1)[:, :, 4 if name == "q8_1" else 2 :] = code
    got = compiled(case.graph(), case.x, strict=strict)
    assert (np.abs(got - case.want()) <= case.bound(strict=strict)).all()


@integers
@each_format
@pytest.mark.parametrize("strict", [False, True])
def test_threads_and_other_rows_do_not_change_bits(name: str, strict: bool) -> None:
    if row_kind(strict=strict) is None:
        pytest.skip("this machine multiplies float32")
    case = random_case(name, 90, 300, 12)
    one = compiled(case.graph(), case.x, strict=strict)
    np.testing.assert_array_equal(compiled(case.graph(), case.x, strict=strict, threads=2), one)
    part = Case(name, case.x[30:60], case.blocks)
    np.testing.assert_array_equal(compiled(part.graph(), part.x, strict=strict), one[30:60])


BITS = """
from hashlib import md5
from tests.models.test_block_products import FORMATS, compiled, random_case
for name in FORMATS:
    for rows in (9, 29, 64):
        case = random_case(name, rows, 50, 13)
        print(md5(compiled(case.graph(), case.x, strict=False).tobytes()).hexdigest())
"""


@cache
def bits_of_the_host() -> list[str]:
    return python(BITS).split()


OTHERS = [
    name
    for name, isa in executable_variants().items()
    if isa.byte_dot and not isa.matrix_byte_dot and not isa.bfloat16_dot
]


@pytest.mark.slow
@pytest.mark.skipif(row_kind(strict=False) != "int16", reason="this machine has matrix registers")
@pytest.mark.parametrize("row", OTHERS)
def test_all_rows_with_products_of_pairs_have_the_same_bits(row: str) -> None:
    """Some add words before they multiply them."""
    digests = python(BITS, NNEFC_ISA=row).split()
    assert digests == bits_of_the_host()
    assert len(set(digests)) == 6


@each_format
def test_units_of_some_of_the_rows(name: str) -> None:
    case = random_case(name, 700, 40, 9)
    got = compiled(case.graph(), case.x, strict=False, threads=2)
    assert (np.abs(got - case.want()) <= case.bound(strict=False)).all()


@each_format
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("strict", [False, True])
def test_infinities_and_nan_do_not_affect_other_rows(
    name: str, number: float, strict: bool
) -> None:
    case = random_case(name, 40, 20, 4)
    case.x[33, 40] = number
    got = compiled(case.graph(), case.x, strict=strict)
    assert not np.isfinite(got[33]).any()
    others = np.arange(40) != 33
    clean = Case(name, case.x[others], case.blocks)
    assert (np.abs(got[others] - clean.want()) <= clean.bound(strict=strict)).all()


@each_format
def test_zeros_are_exact(name: str) -> None:
    case = random_case(name, 20, 20, 4)
    case.x[:, :64] = 0
    case.x[:, 64:] = 1e-42  # less than any normal number
    got = compiled(case.graph(), case.x, strict=False)
    assert np.abs(got).max() <= 1e-27


@each_format
def test_batches_of_strided_rows_and_an_epilogue(name: str) -> None:
    x, other = normal(1, 2, 3, 150, 160), normal(2, 3, 2, 135, 40)
    blocks = random_blocks(name, 40, 5, 2)
    graph = Graph("batches")
    turned = build(graph, "transpose", [add_input(graph, x, "x")], {"axes": (1, 0, 2, 3)}).output
    part = {"axes": (2,), "begin": (7,), "end": (142,), "stride": (1,)}
    rows = build(graph, "slice", [turned], part).output
    options = {"format": name, "shape": (40, 160)}
    w = build(graph, "dequantize_blocks", [constant(graph, "w", blocks)], options).output
    w = build(graph, "unsqueeze", [w], {"axes": (0, 1)}).output
    y = build(graph, "matmul", [rows, w], {"transposeB": True}).output
    total = build(graph, "add", [y, add_input(graph, other, "other")]).output
    graph.add_output(build(graph, "relu", [total]).output, "y")
    wide = decoded(blocks, name).astype(np.float64).reshape(40, 160)
    want = x[:, :, 7:142].swapaxes(0, 1).astype(np.float64) @ wide.T + other
    got = compiled(graph, x, other, threads=2, strict=False)
    products = Case(name, x.swapaxes(0, 1)[:, :, 7:142].reshape(-1, 160), blocks)
    bound = products.bound(strict=False).reshape(want.shape) + 1e-6 * np.abs(want).max()
    assert (np.abs(got - np.maximum(want, 0)) <= bound).all()


@integers
@each_format
def test_many_rows_are_converted_once(name: str) -> None:
    """A launch converts rows, another one multiplies them; few rows take one launch."""

    def families(m: int) -> list[str]:
        graph = random_case(name, m, 64, 4).graph()
        run_pipeline(graph)
        return [launch.kernel.family for launch in lower(graph).launches]

    many = ["product.block_rows.convert", "product.block_matmul.product"]
    assert families(FEW_ROWS + 1) == many
    assert families(FEW_ROWS) == ["product.matmul.gemm"]
    graph = random_case(name, 2 * FEW_ROWS, 64, 3).graph()
    run_pipeline(graph)
    assert "product.block_rows.convert" not in {x.kernel.family for x in lower(graph).launches}
