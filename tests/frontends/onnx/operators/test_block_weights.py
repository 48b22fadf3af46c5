"""Weights in blocks against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.ir import Graph
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import Array, compare, node_model, reals

MICROSOFT = "com.microsoft"
ROWS = 6


def weights(bits: int, columns: int, block: int, *, exact: bool) -> list[Any]:
    """Random codes and scales; `exact`: scales of 16 bits."""
    random = np.random.default_rng(bits)
    blocks = -(-columns // block)
    codes = random.integers(0, 256, (ROWS, blocks, block * bits // 8)).astype(np.uint8)
    scales = random.uniform(0.01, 0.02, (ROWS, blocks)).astype(np.float32)
    return [codes, scales.astype(np.float16).astype(np.float32) if exact else scales]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("columns", "block"), [(64, 32), (128, 64), (48, 16), (70, 32)])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_matmul(bits: int, columns: int, block: int, zeros: bool, exact: bool) -> None:
    if bits == 2 and block == 16:
        pytest.skip("onnxruntime has no such blocks")
    inputs = [reals(2, 3, columns), *weights(bits, columns, block, exact=exact)]
    if zeros:
        blocks = -(-columns // block)
        packed = np.random.default_rng(1).integers(0, 256, (ROWS, -(-blocks * bits // 8)))
        inputs.append(packed.astype(np.uint8))
    settings: Any = {"K": columns, "N": ROWS, "bits": bits, "block_size": block}
    known = tuple(range(1, len(inputs)))
    compare("MatMulNBits", inputs, domain=MICROSOFT, known=known, rtol=1e-3, atol=1e-3, **settings)


def test_bias() -> None:
    inputs = [reals(3, 64), *weights(4, 64, 32, exact=True), None, None, reals(ROWS, seed=3)]
    settings: Any = {"K": 64, "N": ROWS, "block_size": 32, "bits": 4, "accuracy_level": 1}
    compare("MatMulNBits", inputs, domain=MICROSOFT, known=(1, 2, 5), **settings)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", ["ordered", "permuted", "uneven"])
def test_indices_of_groups(bits: int, zeros: bool, kind: str) -> None:
    """g_idx names the block of each column.

    onnxruntime has none for 8 bits.  With packed zero points it is no oracle: indices of blocks
    that follow each other change its results.
    """
    random, columns = np.random.default_rng(0), 70
    ordered = (np.arange(columns) // 32).astype(np.int32)
    groups = {
        "ordered": ordered,
        "permuted": random.permutation(ordered),
        "uneven": random.integers(0, 3, columns).astype(np.int32),
    }[kind]
    x, (codes, scales) = reals(3, columns), weights(bits, columns, 32, exact=True)
    packed = random.integers(0, 256, (ROWS, -(-3 * bits // 8))).astype(np.uint8)
    points = _items(packed, bits)[:, :3] if zeros else np.full((ROWS, 3), 1 << (bits - 1))
    items = _items(codes.reshape(ROWS, -1), bits)[:, :columns]
    matrix = (items - points[:, groups]) * scales[:, groups].astype(np.float64)
    expected = None if bits == 4 and not zeros else [(x @ matrix.T).astype(np.float32)]
    inputs = [x, codes, scales, packed if zeros else None, groups]
    settings: Any = {"K": columns, "N": ROWS, "bits": bits, "block_size": 32, "expected": expected}
    known = (1, 2, 3, 4) if zeros else (1, 2, 4)
    compare("MatMulNBits", inputs, domain=MICROSOFT, known=known, rtol=1e-3, atol=1e-3, **settings)


def _items(packed: Array, bits: int) -> Array:
    """The codes in rows of bytes, as reals."""
    nibbles = np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1)
    return (packed if bits == 8 else nibbles).astype(np.float64)


@pytest.mark.parametrize("bits", [2, 4])
def test_real_zero_points(bits: int) -> None:
    """onnxruntime has none for 8 bits."""
    zeros = np.random.default_rng(0).uniform(0, 15, (ROWS, 2)).astype(np.float32)
    inputs = [reals(3, 64), *weights(bits, 64, 32, exact=True), zeros]
    settings: Any = {"K": 64, "N": ROWS, "bits": bits, "block_size": 32}
    compare("MatMulNBits", inputs, domain=MICROSOFT, known=(1, 2, 3), atol=1e-3, **settings)


def test_weights_without_items() -> None:
    """They stand for a matrix of zeros."""
    codes = np.zeros((ROWS, 2, 0), np.uint8)
    inputs = [reals(3, 64), codes, np.zeros((ROWS, 2), np.float32), None, None, reals(ROWS)]
    settings: Any = {"K": 64, "N": ROWS, "bits": 4, "block_size": 32}
    compare("MatMulNBits", inputs, domain=MICROSOFT, known=(1, 2, 5), **settings)


@pytest.mark.parametrize(("exact", "level", "zeros", "format"), [
    (True, 0, False, "q4_0"), (False, 0, False, "q4_f32"), (False, 4, False, "q4_0"),
    (False, 1, True, "q4_f32_zero"), (False, 4, True, "q4_0"),
])  # fmt: skip
def test_weights_stay_in_blocks(exact: bool, level: int, zeros: bool, format: str) -> None:
    """With scales of 16 bits, unless that would change results that should have 32 bits."""
    inputs = [reals(3, 64), *weights(4, 64, 32, exact=exact)]
    if zeros:
        inputs.append(np.full((ROWS, 1), 0x37, np.uint8))
    settings: Any = {"K": 64, "N": ROWS, "block_size": 32, "bits": 4, "accuracy_level": level}
    known = tuple(range(1, len(inputs)))
    model = node_model("MatMulNBits", inputs, domain=MICROSOFT, known=known, **settings)
    assert _formats(graph_for(model, inputs[:1])) == [format]


def _formats(graph: Graph) -> list[str]:
    return [op.attributes["format"] for op in graph.ops if op.name == "dequantize_blocks"]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_gather(bits: int, zeros: bool) -> None:
    random = np.random.default_rng(0)
    data = random.integers(0, 256, (9, 64 * bits // 8)).astype(np.uint8)
    inputs = [data, np.array([[3, 1], [8, 0]]), random.uniform(0.1, 1, (9, 2)).astype(np.float32)]
    known = [0, 2]
    if zeros:
        inputs.append(random.integers(0, 256, (9, 2 * bits // 8)).astype(np.uint8))
        known.append(3)
    settings: Any = {"bits": bits, "block_size": 32, "quantize_axis": 1, "gather_axis": 0}
    options: Any = {"domain": MICROSOFT, "known": known, "types": (1,)}
    compare("GatherBlockQuantized", inputs, **options, **settings)
    model = node_model("GatherBlockQuantized", inputs, **options, **settings)
    assert _formats(graph_for(model, inputs[1:2])) == [f"q{bits}_f32" + "_zero" * zeros]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", [(64,), (2, 32)])
@pytest.mark.parametrize("exact", [False, True])
def test_gathered_rows_stay_in_blocks(bits: int, shape: tuple[int, ...], exact: bool) -> None:
    """Also with an axis of blocks, as products have it."""
    random = np.random.default_rng(0)
    data = random.integers(0, 256, (9, *shape[:-1], shape[-1] * bits // 8)).astype(np.uint8)
    scales = random.uniform(0.1, 1, (9, 2, 1) if shape[1:] else (9, 2)).astype(np.float32)
    if exact:
        scales = scales.astype(np.float16).astype(np.float32)
    inputs = [data, np.array([[3, 1], [8, 0]]), scales]
    settings: Any = {"bits": bits, "block_size": 32, "gather_axis": 0}
    settings["quantize_axis"] = len(shape)
    options: Any = {"domain": MICROSOFT, "known": [0, 2]}
    compare("GatherBlockQuantized", inputs, types=(1,), **options, **settings)
    model = node_model("GatherBlockQuantized", inputs, types=(1,), **options, **settings)
    short, wide = ("q8_1", "q8_f32") if bits == 8 else ("q4_0", "q4_f32")
    assert _formats(graph_for(model, inputs[1:2])) == [short if exact else wide]


def test_errors() -> None:
    inputs = [reals(3, 64), *weights(4, 64, 32, exact=True)]
    for settings in ({"K": 63}, {"N": 7}, {"bits": 3}):
        chosen: Any = {"K": 64, "N": ROWS, "block_size": 32, "bits": 4, **settings}
        model = node_model("MatMulNBits", inputs, domain=MICROSOFT, known=(1, 2), **chosen)
        with pytest.raises(NnefError) as error:
            graph_for(model, inputs[:1])
        assert error.value.errors[0].rule == "argument/matmul"


@pytest.mark.parametrize("groups", [[0] * 63, [0] * 63 + [2], [-1] * 64])
def test_wrong_groups(groups: list[int]) -> None:
    indices = np.array(groups, np.int32)
    inputs = [reals(3, 64), *weights(4, 64, 32, exact=True), None, indices]
    settings: Any = {"K": 64, "N": ROWS, "block_size": 32, "bits": 4}
    model = node_model("MatMulNBits", inputs, domain=MICROSOFT, known=(1, 2, 4), **settings)
    with pytest.raises(NnefError, match="g_idx has 6"):
        graph_for(model, inputs[:1])
