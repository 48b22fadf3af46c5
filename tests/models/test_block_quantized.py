"""Block-quantized weights: decoded items, and rejection of blocks of wrong sizes or types."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.ir.graph import Variable
from nnefc.ops.tools.build import build
from nnefc.passes.pipeline import run_pipeline
from nnefc.support.block_formats import BLOCK_BYTES
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples
from tests.helpers.kernels.compiled_op import Array
from tests.helpers.kernels.one_op import run


def decoded(blocks: Array, name: str) -> Array:
    """The items of the blocks, decoded one by one as the formats are described."""
    items: list[float] = []
    for block in blocks.reshape(-1, BLOCK_BYTES[name]):
        is_wide, has_zero = "f32" in name, name.endswith("zero")
        (scale,) = struct.unpack_from("<f" if is_wide else "<e", block.tobytes())
        rest = block[4 if is_wide or name == "q8_1" else 2 :]
        if name.startswith("q8"):
            zero, *codes = rest.view(np.int8).tolist() if has_zero else (0, *rest.view(np.int8))
            items += [(int(code) - zero) * scale for code in codes]
            continue
        zero, *codes = rest.tolist() if has_zero else (8, *rest.tolist())
        for i in range(32):
            at, high = (i // 2, i % 2 == 1) if name == "q4_0_legacy" else (i % 16, i >= 16)
            items.append(((codes[at] >> 4 if high else codes[at] & 15) - zero) * scale)
    return np.array(items, np.float32)


def random_blocks(name: str, rows: int, blocks: int, seed: int) -> Array:
    """Blocks of random codes, with finite scales."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (rows * blocks, BLOCK_BYTES[name]), np.uint8)
    nbytes = 4 if "f32" in name else 2
    scales = rng.standard_normal(rows * blocks).astype(f"<f{nbytes}")
    data[:, :nbytes] = scales.view(np.uint8).reshape(-1, nbytes)
    if name == "q4_f32_zero":
        data[:, 4] &= 15
    return data.reshape(rows, -1)


@examples(0.4)
@given(
    st.sampled_from(sorted(BLOCK_BYTES)),
    st.integers(1, 9),
    st.integers(1, 5),
    st.integers(0, 99),
    st.booleans(),
)
def test_decoded_blocks_are_exact(
    name: str, rows: int, blocks: int, seed: int, at_end: bool
) -> None:
    x = random_blocks(name, rows, blocks, seed)
    shape = (rows, 32 * blocks)
    got = run("dequantize_blocks", x, format=name, shape=shape, at_end=at_end)
    np.testing.assert_array_equal(got.reshape(-1), decoded(x, name))


@pytest.mark.parametrize("name", sorted(BLOCK_BYTES))
def test_two_threads_decode_many_blocks(name: str) -> None:
    x = random_blocks(name, 300, 40, 0)
    got = run("dequantize_blocks", x, format=name, shape=(300, 8, 160), threads=2)
    np.testing.assert_array_equal(got.reshape(-1), decoded(x, name))


def test_all_codes_are_decoded_with_extreme_scales() -> None:
    """Scales are denormal, infinite, negative, or zeros of both signs."""
    scales = np.array([6e-8, -1.5, 65504, np.inf, 0.0, -0.0], "<f2")
    codes = np.arange(256, dtype=np.uint8).reshape(-1, 16)
    rows = [[*scale.tobytes(), *row] for scale in scales for row in codes.tolist()]
    x = np.array(rows, np.uint8)
    got = run("dequantize_blocks", x, format="q4_0", shape=(len(x), 32))
    np.testing.assert_array_equal(got.reshape(-1), decoded(x, "q4_0"))


def weights(graph: Graph, name: str, rows: int, blocks: int) -> Value:
    data = random_blocks(name, rows, blocks, 0)
    graph.variables["w"] = Variable("w", TensorType(DType.UINT8, data.shape), data)
    attributes = {"shape": data.shape, "label": "w"}
    stored = build(graph, "variable", [], attributes, dtype=DType.UINT8).output
    options = {"format": name, "shape": (rows, 32 * blocks)}
    return build(graph, "dequantize_blocks", [stored], options).output


def test_constant_folding_keeps_quantized_weights() -> None:
    graph = Graph("quantized")
    graph.add_output(weights(graph, "q4_0", 2, 2), "w")
    run_pipeline(graph)
    assert [op.name for op in graph.ops] == ["variable", "dequantize_blocks"]


@pytest.mark.parametrize(
    ("stored", "name", "shape"),
    [
        ((2, 36), "q4_0", (2, 33)),
        ((2, 36), "q4_0", (1, 64)),
        ((2, 36), "q8_1", (2, 64)),
        ((72,), "q4_0", (2, 64)),
        ((2, 36), "q5", (2, 64)),
    ],
)
def test_shapes_that_do_not_match_the_blocks_are_refused(
    stored: tuple[int, ...], name: str, shape: tuple[int, ...]
) -> None:
    graph = Graph("wrong")
    x = graph.add_input(TensorType(DType.UINT8, stored), "x")
    with pytest.raises(NnefError):
        build(graph, "dequantize_blocks", [x], {"format": name, "shape": shape})


def test_blocks_of_another_type_than_uint8_are_refused() -> None:
    graph = Graph("wrong")
    x = graph.add_input(TensorType(DType.INT8, (2, 36)), "x")
    with pytest.raises(NnefError, match="uint8"):
        build(graph, "dequantize_blocks", [x], {"format": "q4_0", "shape": (2, 64)})
