"""Grouped-query attention against onnxruntime: prompts, tokens, caches, windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers.onnx.onnxruntime_oracle import compare, reals

HEADS, FEW, WIDTH = 4, 2, 16
SETTINGS: Any = {"num_heads": HEADS, "kv_num_heads": FEW, "domain": "com.microsoft",
                 "outputs": (True, True, True)}  # fmt: skip


def inputs_of(batch: int, rows: int, room: int, counts: list[int], total: int) -> list[Any]:
    """New and cached keys and values, and their numbers."""
    query = reals(batch, rows, HEADS * WIDTH)
    key, value = (reals(batch, rows, FEW * WIDTH, seed=i) for i in (1, 2))
    past: list[Any] = (
        [reals(batch, FEW, room, WIDTH, seed=i) for i in (3, 4)] if room else [None, None]
    )
    for x in past:
        for i in range(batch if room else 0):
            x[i, :, counts[i] - rows :] = 0  # items behind the cached ones are unspecified
    lengths = np.array(counts, np.int32) - 1
    return [query, key, value, *past, lengths, np.array(total, np.int32)]


CASES = {
    "prompt": (1, 5, 0, [5], 5),
    "prompts": (2, 5, 0, [5, 5], 5),
    "token": (1, 1, 6, [7], 7),
    "tokens": (2, 1, 6, [7, 7], 7),
    "chunk": (1, 3, 6, [9], 9),
    "shared": (1, 1, 12, [7], 7),
    "ragged": (2, 1, 12, [7, 4], 7),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_rotary": 1},
        {"do_rotary": 1, "rotary_interleaved": 1, "scale": 0.2},
        {"local_window_size": 3},
        {"softcap": 2.0},
        {"smooth_softmax": 1},
    ],
)
def test_attention(case: str, options: Any) -> None:
    inputs = inputs_of(*CASES[case])
    if options.get("do_rotary"):
        inputs += [reals(16, WIDTH // 2, seed=5), reals(16, WIDTH // 2, seed=6)]
    compare("GroupQueryAttention", inputs, known=(6,), **options, **SETTINGS)


@pytest.mark.parametrize("case", ["prompt", "token", "chunk"])
def test_packed(case: str) -> None:
    inputs = inputs_of(*CASES[case])
    inputs[:3] = [np.concatenate(inputs[:3], 2), None, None]
    compare("GroupQueryAttention", inputs, known=(6,), **SETTINGS)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("qk_output", [1, 2])
@pytest.mark.parametrize("options", [{"softcap": 2.0}, {"local_window_size": 3}])
def test_scores(case: str, qk_output: int, options: Any) -> None:
    settings: Any = {**SETTINGS, "outputs": (True,) * 4, "qk_output": qk_output, **options}
    compare("GroupQueryAttention", inputs_of(*CASES[case]), known=(6,), **settings)


@pytest.mark.parametrize("case", CASES)
def test_positions(case: str) -> None:
    _, rows, _, counts, _ = CASES[case]
    positions = np.stack([np.arange(count - rows, count) for count in counts]) + 2
    tables = [reals(32, WIDTH // 2, seed=i) for i in (5, 6)]
    inputs = [*inputs_of(*CASES[case]), *tables, positions]
    compare("GroupQueryAttention", inputs, known=(6,), do_rotary=1, **SETTINGS)


@pytest.mark.parametrize("case", CASES)
def test_bias(case: str) -> None:
    inputs = inputs_of(*CASES[case])
    _, rows, _, _, total = CASES[case]
    inputs += [None, None, None, reals(1, HEADS, rows, total, seed=7)]
    compare("GroupQueryAttention", inputs, known=(6,), local_window_size=4, **SETTINGS)


def test_sinks() -> None:
    inputs = inputs_of(*CASES["chunk"])
    inputs += [None, None, None, None, reals(HEADS, seed=7)]
    compare("GroupQueryAttention", inputs, known=(6,), **SETTINGS)
