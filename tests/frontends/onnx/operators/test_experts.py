"""Mixtures of experts of onnxruntime, against onnxruntime or the formula token by token."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import (
    Array,
    compare,
    node_model,
    onnxruntime_results,
    reals,
)

MICROSOFT = "com.microsoft"
EXPERTS, WIDTH, INNER = 4, 32, 64
ACTIVATIONS = ("relu", "gelu", "silu", "identity", "swiglu")
CLAMPED = {"activation_alpha": 1.7, "activation_beta": 1.0, "swiglu_limit": 1.5}


def settings_of(activation: str, **more: Any) -> dict[str, Any]:
    fused = {"swiglu_fusion": 1} if activation == "swiglu" else {}
    return {"k": 2, "activation_type": activation, **fused, **more}


def operands(activation: str, *tokens: int) -> list[Array | None]:
    """The inputs of `MoE`; `tokens`: the first extents of its input."""
    rows = 2 * INNER if activation == "swiglu" else INNER
    return [
        reals(*tokens, WIDTH),
        3 * reals(math.prod(tokens), EXPERTS, seed=1),
        reals(EXPERTS, rows, WIDTH, seed=2) / 4,
        reals(EXPERTS, rows, seed=3),
        reals(EXPERTS, WIDTH, INNER, seed=4) / 4,
        reals(EXPERTS, WIDTH, seed=5),
    ]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("normalized", [0, 1])
@pytest.mark.parametrize("tokens", [(1,), (7,), (2, 3)])
def test_reals(activation: str, normalized: int, tokens: tuple[int, ...]) -> None:
    settings = settings_of(activation, normalize_routing_weights=normalized)
    inputs = operands(activation, *tokens)
    compare("MoE", inputs, domain=MICROSOFT, known=(2, 3, 4, 5), **settings)


@pytest.mark.parametrize("k", [1, 3, 4])
def test_numbers_of_experts_and_limits(k: int) -> None:
    settings: dict[str, Any] = {**settings_of("swiglu"), **CLAMPED, "k": k}
    inputs = operands("swiglu", 5)
    compare("MoE", inputs, domain=MICROSOFT, known=(2, 3, 4, 5), **settings)
    inputs[3] = inputs[5] = None
    compare("MoE", inputs, domain=MICROSOFT, **settings)


# -- what onnxruntime computes on other devices only


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def hidden(activation: str, gate: Array, factor: Array | None, late: bool) -> Array:
    if activation == "swiglu":
        assert factor is not None
        limit, alpha, beta = (
            CLAMPED[n] for n in ("swiglu_limit", "activation_alpha", "activation_beta")
        )
        if not late:
            gate = np.minimum(gate, limit)
        active = gate * sigmoid(alpha * gate)
        if late:
            active = np.minimum(active, limit)
        return active * (np.clip(factor, -limit, limit) + beta)
    active = {"relu2": np.maximum(gate, 0) ** 2, "silu": gate * sigmoid(gate), "geglu": gelu(gate)}
    return active[activation] * (1 if factor is None else factor)


def expected(inputs: list[Any], activation: str, fusion: int, k: int, late: bool) -> Array:
    x, logits, w1, b1, w2, b2, *rest = (each.astype(np.float64) for each in inputs)
    y = np.zeros_like(x)
    for t, token in enumerate(x):
        shares = np.exp(logits[t]) / np.exp(logits[t]).sum()
        for e in np.argsort(-logits[t])[:k]:
            gate, factor = w1[e] @ token + b1[e], None
            if fusion == 1:
                gate, factor = gate[::2], gate[1::2]
            elif fusion == 2:
                gate, factor = gate[:INNER], gate[INNER:]
            elif rest:
                factor = rest[0][e] @ token + rest[1][e]
            y[t] += shares[e] * (w2[e] @ hidden(activation, gate, factor, late) + b2[e])
    return y.astype(np.float32)


@pytest.mark.parametrize(
    ("activation", "fusion", "third"),
    [
        ("silu", 0, True),
        ("relu2", 0, False),
        ("swiglu", 0, True),
        ("swiglu", 2, False),
        ("geglu", 1, False),
        ("geglu", 2, False),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_formula(activation: str, fusion: int, third: bool, late: bool) -> None:
    if late and activation != "swiglu":
        pytest.skip("the limit is that of swiglu")
    inputs: list[Any] = operands("swiglu" if fusion else "relu", 5)
    if third:
        inputs += [reals(EXPERTS, INNER, WIDTH, seed=6) / 4, reals(EXPERTS, INNER, seed=7)]
    settings: dict[str, Any] = {"k": 3, "activation_type": activation, "swiglu_fusion": fusion}
    if activation == "swiglu":
        settings |= {**CLAMPED, "swiglu_limit_after_activation": int(late)}
    wanted = [expected(inputs, activation, fusion, 3, late)]
    compare("MoE", inputs, domain=MICROSOFT, expected=wanted, **settings)


# -- quantized weights


def codes(*shape: int) -> Array:
    return np.random.default_rng([*shape]).integers(0, 256, shape).astype(np.uint8)


def quantized(
    activation: str, bits: int, block: int, tokens: int, *, zeros: bool, exact: bool
) -> list[Array | None]:
    """The inputs of `QMoE`; `exact`: scales of 16 bits."""
    rows = 2 * INNER if activation == "swiglu" else INNER

    def scales(*shape: int) -> Array:
        numbers = (0.1 + np.abs(reals(*shape, seed=bits))) / 2 ** (bits + 1)
        return numbers.astype(np.float16).astype(np.float32) if exact else numbers

    def layer(rows: int, columns: int, seed: int) -> tuple[list[Array | None], Array | None]:
        blocks = columns // block if block else 0
        per_row = (blocks,) if block else ()
        packed = -(-blocks * bits // 8)
        points = codes(EXPERTS, rows, packed) if block else codes(EXPERTS, rows * bits // 8)
        given: list[Array | None] = [codes(EXPERTS, rows, columns * bits // 8)]
        given += [scales(EXPERTS, rows, *per_row), reals(EXPERTS, rows, seed=seed)]
        return given, points if zeros else None

    first, second = layer(rows, WIDTH, 3), layer(WIDTH, INNER, 5)
    x = [reals(tokens, WIDTH) / 4, 3 * reals(tokens, EXPERTS, seed=1)]
    return [*x, *first[0], *second[0], None, None, None, first[1], second[1]]


KNOWN = (2, 3, 4, 5, 6, 7, 11, 12)


def check(inputs: list[Array | None], **settings: Any) -> Array:
    """Compare `QMoE` with onnxruntime; returns its results.

    onnxruntime computes with all bits of the input only if it does not know the weights.
    """
    given = [x for x in inputs if x is not None]
    want = onnxruntime_results(node_model("QMoE", inputs, domain=MICROSOFT, **settings), given)
    known = tuple(i for i in KNOWN if i < len(inputs) and inputs[i] is not None)
    compare("QMoE", inputs, domain=MICROSOFT, known=known, expected=want, **settings)
    return want[0]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block", [0, 16, 32])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_quantized(bits: int, block: int, zeros: bool, exact: bool) -> None:
    settings = settings_of(
        "silu", expert_weight_bits=bits, **({"block_size": block} if block else {})
    )
    for tokens in (2, 5):
        inputs = quantized("silu", bits, block, tokens, zeros=zeros, exact=exact)
        check(inputs, **settings)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("normalized", [0, 1])
def test_weights_of_the_router(activation: str, normalized: int) -> None:
    inputs = quantized(activation, 4, 16, 5, zeros=True, exact=True)
    more = {"block_size": 16, "normalize_routing_weights": normalized}
    settings = settings_of(activation, **more)
    check(inputs, **settings)
    inputs += [None, np.abs(reals(5, EXPERTS, seed=9))]  # onnxruntime ignores negative ones
    check(inputs, **settings)


def test_bits_of_each_layer() -> None:
    """Codes of 4 bits, less 8, are codes of 8 bits, less 128, if 120 is added to them."""
    inputs = quantized("relu", 4, 16, 3, zeros=False, exact=True)
    settings: dict[str, Any] = settings_of("relu", block_size=16)
    want = check(inputs, **settings)
    packed = inputs[5]
    assert packed is not None
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(EXPERTS, WIDTH, INNER)
    inputs[5] = codes + np.uint8(120)
    settings |= {"expert_weight_bits": 4, "fc2_expert_weight_bits": 8, "expected": [want]}
    compare("QMoE", inputs, domain=MICROSOFT, known=KNOWN[:6], **settings)


@pytest.mark.parametrize("bits", [4, 8])
def test_any_number_of_tokens(bits: int, tmp_path: Path) -> None:
    """Weights stay in blocks; for few tokens, those of the chosen experts are decoded."""
    settings = settings_of("swiglu", expert_weight_bits=bits, block_size=32)
    inputs = quantized("swiglu", bits, 32, 6, zeros=True, exact=True)
    model = node_model("QMoE", inputs, domain=MICROSOFT, known=KNOWN, **settings)
    names = [op.name for op in graph_for(model, inputs[:2]).ops]
    assert "dequantize_blocks" in names
    want = check(inputs, **settings)
    for each in model.graph.input[:2]:
        each.type.tensor_type.shape.dim[0].dim_param = "N"
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    compiled = nnefc.compile(path)
    x, router = inputs[:2]
    assert x is not None
    assert router is not None
    for tokens in (1, 2, 6):
        y = compiled(x[:tokens], router[:tokens])
        np.testing.assert_allclose(y, want[:tokens], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "rule", "text"),
    [
        ({"k": 5}, "argument/moe", "k = 5 of 4 experts"),
        ({"activation_type": "elu"}, "argument/moe", "'elu' is none of relu"),
        ({"use_sparse_mixer": 1}, "onnx/unsupported", "use_sparse_mixer"),
        ({"activation_type": "swiglu"}, "argument/moe", "without fc3"),
        ({"activation_type": "swiglu", "swiglu_fusion": 3}, "argument/moe", "0, 1 or 2"),
        ({"activation_type": "swiglu", "swiglu_fusion": 1}, "argument/moe", "fc2_experts_weights"),
    ],
)
def test_refusals(change: dict[str, Any], rule: str, text: str) -> None:
    inputs = operands("relu", 5)
    settings: dict[str, Any] = {"k": 2, **change}
    model = node_model("MoE", inputs, domain=MICROSOFT, **settings)
    with pytest.raises(NnefError, match=text) as error:
        graph_for(model, inputs)
    assert error.value.errors[0].rule == rule


@pytest.mark.parametrize(
    ("change", "rule", "text"),
    [
        ({"quant_type": "fp4"}, "onnx/unsupported", "quant_type = 'fp4'"),
        ({"expert_weight_bits": 3}, "onnx/unsupported", "3 bits"),
        ({"weights_prepacked": 1}, "onnx/unsupported", "for other devices"),
        ({"block_size": 8}, "argument/moe", "block_size = 8"),
        ({"block_size": 48}, "argument/moe", "whole blocks of 48"),
        ({"block_size": 32}, "argument/moe", "fc1_scales"),
        ({"expert_weight_bits": 8}, "argument/moe", "fc1_experts_weights"),
    ],
)
def test_refusals_of_quantized_weights(change: dict[str, Any], rule: str, text: str) -> None:
    inputs = quantized("relu", 4, 0, 5, zeros=False, exact=True)
    settings: dict[str, Any] = {"k": 2, **change}
    model = node_model("QMoE", inputs[:8], domain=MICROSOFT, known=KNOWN[:6], **settings)
    with pytest.raises(NnefError, match=text) as error:
        graph_for(model, inputs[:2])
    assert error.value.errors[0].rule == rule
