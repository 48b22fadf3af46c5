"""Operators that onnxruntime adds to those of the standard, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.onnx.backend import run_model
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import (
    Array,
    compare,
    node_model,
    onnxruntime_results,
    reals,
)

MICROSOFT: Any = {"domain": "com.microsoft"}
INT64 = 7


@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 5), (1, 2, 1, 1), (0, 3, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverse(shape: tuple[int, ...], dtype: Any) -> None:
    x = reals(*shape, dtype=dtype)
    if shape == (3, 3):
        x[0, 0] = 0  # the first pivot is in another row
    compare("Inverse", [x], rtol=1e-3, atol=1e-4, **MICROSOFT)


def test_inverse_of_wrong_shapes() -> None:
    x = reals(2, 3)
    with pytest.raises(NnefError, match=r"X has shape \[2, 3\]; the matrices must be square"):
        graph_for(node_model("Inverse", [x], **MICROSOFT), [x])


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_cdist(metric: str) -> None:
    a, b = reals(4, 6), reals(3, 6, seed=1)
    compare("CDist", [a, b], metric=metric, atol=1e-4, **MICROSOFT)
    with pytest.raises(NnefError, match="metric = 'cosine'; use euclidean or sqeuclidean"):
        graph_for(node_model("CDist", [a, b], metric="cosine", **MICROSOFT), [a, b])


def test_operators_of_the_standard() -> None:
    x = reals(2, 3, 4, 5)
    compare("Trilu", [x, np.array(1)], upper=0, **MICROSOFT)
    compare("Range", [np.array(2), np.array(9)], known=[0, 1], types=[INT64], **MICROSOFT)
    compare("Range", [np.array(2.0), np.array(9.0), np.array(3.0)], known=[0, 1, 2], types=[11],
            **MICROSOFT)  # fmt: skip
    compare("ExpandDims", [x, np.array(-2, np.int32)], known=[1], **MICROSOFT)
    compare("GatherND", [x, np.array([[0, 1], [1, 2]])], **MICROSOFT)
    pads = np.array([[0, 1, 2, 0, 0, 0, 1, 3]])
    compare("Pad", [x, pads, np.array([2.5], np.float32)], known=[1], **MICROSOFT)
    compare("Pad", [x, pads[0]], known=[1], mode="edge", **MICROSOFT)
    grid = np.random.default_rng(0).uniform(-1.2, 1.2, (2, 3, 3, 2)).astype(np.float32)
    for mode in ("bilinear", "nearest", "bicubic"):
        compare("GridSample", [x, grid], mode=mode, align_corners=1, **MICROSOFT)
    items = np.array([2, 1, 1, 3, 4, 3], np.float32)
    compare("Unique", [items], outputs=(True,) * 3, types=[1, INT64, INT64], **MICROSOFT)


def test_bias_add() -> None:
    """onnxruntime has it on GPUs only."""
    x, bias, skip = reals(2, 3, 4), reals(4, seed=1), reals(2, 3, 4, seed=2)
    compare("BiasAdd", [x, bias, skip], expected=[x + bias + skip], **MICROSOFT)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3), (), (4,)])
def test_products_with_weights_of_bitsandbytes(kind: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    n, k, block = 10, 13, 16
    codes = rng.integers(0, 256, n * k // 2).astype(np.uint8)
    factors = rng.uniform(0.1, 2, -(-n * k // block)).astype(np.float32)
    settings: Any = {"K": k, "N": n, "block_size": block, "quant_type": kind, **MICROSOFT}
    stored = [codes, factors]
    compare("MatMulBnb4", [reals(*shape, k), *stored], known=[1, 2], **settings)
    # onnxruntime 1.32 reads the weights in another order without transB
    eye = np.eye(k, dtype=np.float32)
    made = node_model("MatMulBnb4", [eye, *stored], known=[1, 2], **settings)
    weights = onnxruntime_results(made, [eye])[0].T
    x = reals(*shape, n)
    compare("MatMulBnb4", [x, *stored], known=[1, 2], transB=0, expected=[x @ weights], **settings)
    with pytest.raises(NnefError, match="9 factors are expected"):
        given = [reals(2, k), codes, factors[:-1]]
        graph_for(node_model("MatMulBnb4", given, known=[1, 2], **settings), given[:1])


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("has_segments", [False, True])
def test_quantized_embeddings(is_masked: bool, has_segments: bool) -> None:
    rng = np.random.default_rng(0)

    def codes(*shape: int) -> Array:
        return rng.integers(0, 256, shape).astype(np.uint8)

    def number(value: float, dtype: Any = np.float32) -> Array:
        return np.array(value, dtype)

    ids = rng.integers(0, 20, (2, 5)).astype(np.int32)
    segments = rng.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    inputs: list[Array | None] = [
        ids, segments, codes(20, 8), codes(9, 8), codes(2, 8), codes(8), codes(8), mask,
        *(number(x) for x in (0.02, 0.03, 0.04, 0.01, 0.05)),
        *(number(x, np.uint8) for x in (120, 130, 128, 3, 99)),
    ]  # fmt: skip
    absent = ([] if is_masked else [7]) + ([] if has_segments else [1, 4, 10, 15])
    inputs = [None if i in absent else x for i, x in enumerate(inputs)]
    compare("QEmbedLayerNormalization", inputs, known=[*range(2, 7), *range(8, 18)],
            outputs=(True, True), types=[1, 6], **MICROSOFT)  # fmt: skip


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_lstm_in_8_bits(direction: str, per_row: bool, dtype: Any) -> None:
    """Results are close: activations are rounded to codes, which may be neighbours."""
    rng = np.random.default_rng(0)
    steps, batch, inputs, hidden, count = 6, 3, 7, 5, 1 + (direction != "forward")
    low, high = (0, 256) if dtype is np.uint8 else (-127, 128)
    x = reals(steps, batch, inputs)
    weights = [
        rng.integers(low, high, (count, n, 4 * hidden)).astype(dtype) for n in (inputs, hidden)
    ]
    shape = (count, 4 * hidden) if per_row else (count,)
    middle = 128 if dtype is np.uint8 else 0
    parameters: list[Array] = []
    for _ in weights:
        parameters.append(rng.uniform(0.002, 0.006, shape).astype(np.float32))
        parameters.append(np.full(shape, middle, dtype))
    lengths = np.array([6, 3, 5], np.int32)
    initial = [reals(count, batch, hidden, seed=i) * 0.1 for i in (3, 4)]
    given: list[Array | None] = [
        x, *weights, reals(count, 8 * hidden, seed=2), lengths, *initial, None, *parameters
    ]  # fmt: skip
    known = [1, 2, 8, 9, 10, 11]
    made = node_model("DynamicQuantizeLSTM", given, known=known, outputs=(True,) * 3,
                      hidden_size=hidden, direction=direction, **MICROSOFT)  # fmt: skip
    arrays = [x for i, x in enumerate(given) if x is not None and i not in known]
    for y, want in zip(run_model(made, arrays), onnxruntime_results(made, arrays), strict=True):
        assert y.shape == want.shape
        np.testing.assert_allclose(y, want, atol=2e-3)
