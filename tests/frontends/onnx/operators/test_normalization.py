"""Normalisations against onnxruntime, or formulas where it has no implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers.onnx.onnxruntime_oracle import Array, compare, reals

MICROSOFT = "com.microsoft"


def channels(*counts: int) -> list[Array]:
    """Scales, offsets, means, and variances."""
    rows = [reals(*counts, seed=i) for i in range(4)]
    return [*rows[:3], np.abs(rows[3]) + 0.5]


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_batch_normalization(opset: int, shape: Any) -> None:
    inputs = [reals(*shape, seed=9), *channels(3)]
    compare("BatchNormalization", inputs, opset=opset, epsilon=1e-3)


def test_batch_normalization_of_items() -> None:
    x, (scale, offset, mean, var) = reals(2, 3, 4, seed=9), channels(3, 4)
    expected = [(x - mean) / np.sqrt(var + 1e-3) * scale + offset]
    inputs = [x, scale, offset, mean, var]
    settings: Any = {"epsilon": 1e-3, "spatial": 0, "expected": expected}
    compare("BatchNormalization", inputs, opset=7, **settings)
    compare("BatchNormalization", inputs, opset=6, is_test=1, **settings)


@pytest.mark.parametrize("opset", [7, 9, 15])
def test_training(opset: int) -> None:
    x, (scale, offset, mean, var) = reals(2, 3, 4, seed=9), channels(3)
    own, spread = x.mean((0, 2)), x.var((0, 2))
    y = (x - own[:, None]) / np.sqrt(spread[:, None] + 1e-5) * scale[:, None] + offset[:, None]
    running = [0.8 * mean + 0.2 * own, 0.8 * var + 0.2 * spread]
    expected = [y, *running] if opset == 15 else [y, *running, own, spread]
    settings: Any = {"training_mode": 1} if opset == 15 else {}
    expected = [each.astype(np.float32) for each in expected]
    wanted = (True,) * len(expected)
    inputs = [x, scale, offset, mean, var]
    compare("BatchNormalization", inputs, opset=opset, expected=expected, outputs=wanted,
            momentum=0.8, **settings)  # fmt: skip


def test_instance_normalization() -> None:
    inputs = [reals(2, 3, 4, 5), reals(3, seed=1), reals(3, seed=2)]
    compare("InstanceNormalization", inputs, opset=6, epsilon=1e-3)


@pytest.mark.parametrize("axis", [-1, 1, -2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_layer_normalization(axis: int, dtype: Any) -> None:
    shape = (2, 3, 4)
    parameters = [reals(*shape[axis:], seed=i, dtype=dtype) for i in (1, 2)]
    inputs = [reals(*shape, dtype=dtype), *parameters]
    rtol = 1e-2 if dtype == np.float16 else 1e-4
    compare("LayerNormalization", inputs, opset=17, axis=axis, rtol=rtol, atol=rtol / 10)


def test_statistics_of_layer_normalization() -> None:
    inputs = [reals(2, 3, 4), reals(4, seed=1)]
    compare("LayerNormalization", inputs, opset=17, outputs=(True, True, True))


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 4), (3, 4)])
@pytest.mark.parametrize("bias", [False, True])
def test_skip_layer_normalization(shape: Any, bias: bool) -> None:
    extra = [reals(4, seed=4)] if bias else []
    x, skip, gamma, beta = reals(2, 3, 4), reals(*shape, seed=1), reals(4, seed=2), reals(4, seed=3)
    wanted = (True, False, False, True)
    inputs = [x, skip, gamma, beta, *extra]
    compare("SkipLayerNormalization", inputs, domain=MICROSOFT, epsilon=1e-3, outputs=wanted)
    inputs = [x, skip, gamma, *extra]
    compare("SkipSimplifiedLayerNormalization", inputs, domain=MICROSOFT, outputs=wanted)


def test_simplified_layer_normalization() -> None:
    inputs = [reals(2, 3, 4), reals(4, seed=1)]
    compare("SimplifiedLayerNormalization", inputs, opset=17, epsilon=1e-3)
    compare("SimplifiedLayerNormalization", inputs, opset=17, outputs=(True, True))


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_embed_layer_normalization(segments: bool, positions: bool) -> None:
    random = np.random.default_rng(0)
    ids = random.integers(0, 9, (2, 5)).astype(np.int32)
    inputs = [
        ids,
        (ids % 2).astype(np.int32) if segments else None,
        reals(9, 4),
        reals(8, 4, seed=1),
        reals(2, 4, seed=2) if segments else None,
        reals(4, seed=3),
        reals(4, seed=4),
        np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
    ]
    if positions:
        inputs.append(np.array([[3, 4, 5, 6, 7], [0, 1, 2, 3, 4]], np.int32))
    settings: Any = {"outputs": (True, True, True), "types": (1, 6, 1)}
    if not segments:
        settings["outputs"] = (True, True)
    compare("EmbedLayerNormalization", inputs, domain=MICROSOFT, epsilon=1e-3, **settings)


@pytest.mark.parametrize("last", [False, True])
def test_group_norm(last: bool) -> None:
    x, gamma, beta = reals(2, 4, 3, 5), reals(4, seed=1), reals(4, seed=2)
    skip, bias = reals(2, 4, seed=3), reals(4, seed=4)

    def expected(x: Array) -> Array:
        groups = x.reshape(2, 2, -1).astype(np.float64)
        y = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(
            groups.var(-1, keepdims=True) + 1e-3
        )
        y = y.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
        return (y / (1 + np.exp(-y))).astype(np.float32)

    def placed(x: Array) -> Array:
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if last else x

    settings: Any = {"groups": 2, "activation": 1, "epsilon": 1e-3, "channels_last": int(last)}
    wanted = [placed(expected(x))]
    compare("GroupNorm", [placed(x), gamma, beta], domain=MICROSOFT, expected=wanted, **settings)
    total = x + skip[:, :, None, None] + bias[:, None, None]
    inputs = [placed(x), gamma, beta, skip, bias]
    results = [placed(expected(total)), placed(total)]
    compare("SkipGroupNorm", inputs, domain=MICROSOFT, expected=results, outputs=(True, True),
            **settings)  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 4])
def test_lrn(size: int) -> None:
    settings: Any = {"size": size, "alpha": 0.3, "beta": 0.6, "bias": 1.5}
    if size % 2:
        compare("LRN", [reals(2, 6, 3, 3)], opset=13, **settings)
        return
    x = reals(2, 6, 3, 3)
    squares = np.pad(x**2, ((0, 0), (1, 2), (0, 0), (0, 0)))
    sums = sum(squares[:, i : i + 6] for i in range(4))
    expected = [(x / (1.5 + 0.3 / 4 * sums) ** 0.6).astype(np.float32)]
    compare("LRN", [x], opset=13, expected=expected, **settings)


def test_mean_variance_normalization() -> None:
    compare("MeanVarianceNormalization", [reals(2, 3, 4, 5)], opset=13)
    compare("MeanVarianceNormalization", [reals(2, 3, 4, 5)], opset=9, axes=[1])


@pytest.mark.parametrize("opset", [9, 13])
@pytest.mark.parametrize("scale", [1e-8, 1e-9, 1e-12, 0.0])
def test_mean_variance_normalization_adds_epsilon_to_the_deviation(
    opset: int, scale: float
) -> None:
    """As in the function of the standard; onnxruntime adds none."""
    x = (scale * reals(2, 3, 4, 5)).astype(np.float32)
    wide, axes = x.astype(np.float64), (0, 2, 3)
    difference = wide - wide.mean(axes, keepdims=True)
    deviation = np.sqrt((difference**2).mean(axes, keepdims=True))
    expected = (difference / (deviation + 1e-9)).astype(np.float32)
    compare("MeanVarianceNormalization", [x], opset=opset, expected=[expected])
