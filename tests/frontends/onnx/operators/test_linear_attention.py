"""Linear attention and causal convolution of onnxruntime, compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers.onnx.onnxruntime_oracle import compare, reals

MICROSOFT = "com.microsoft"


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("past", [False, True])
def test_causal_convolution(activation: str, past: bool) -> None:
    inputs: list[Any] = [reals(2, 3, 5), reals(3, 1, 4, seed=1), reals(3, seed=2)]
    inputs.append(reals(2, 3, 3, seed=3) if past else None)
    settings: Any = {"activation": activation, "domain": MICROSOFT, "outputs": (True, True)}
    compare("CausalConvWithState", inputs, **settings)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(rule: str) -> None:
    q, k, v = (reals(2, 5, 2 * 4, seed=i) * 0.3 for i in range(3))
    state = reals(2, 2, 4, 4, seed=3)
    decay = -np.abs(reals(2, 5, 2, seed=4)) if "gated" in rule else None
    beta = 1 / (1 + np.exp(-reals(2, 5, 2, seed=5))) if "delta" in rule else None
    settings: Any = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": rule,
                     "domain": MICROSOFT, "outputs": (True, True)}  # fmt: skip
    compare("LinearAttention", [q, k, v, state, decay, beta], **settings)
