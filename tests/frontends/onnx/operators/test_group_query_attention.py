"""Grouped-query attention against onnxruntime: prompts, tokens, caches, windows."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

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


def quantized(inputs: list[Any], bits: int, scales: list[Any]) -> list[Any]:
    """Inputs with caches of codes."""
    rng = np.random.default_rng(0)
    dtype, width = (np.int8, WIDTH) if bits == 8 else (np.uint8, WIDTH // 2)
    for i in (3, 4):
        x = inputs[i]
        room = 0 if x is None else x.shape[2]
        codes = rng.integers(-128, 128, (inputs[0].shape[0], FEW, room, width)).astype(np.int8)
        if x is not None:
            codes[np.abs(x).max(3) == 0] = 0  # behind the cached ones
        inputs[i] = codes.view(dtype)
    return [*inputs, None, None, None, None, None, *scales]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("bits", "kind", "options"),
    [
        (8, "PER_TENSOR", {}),
        (8, "PER_CHANNEL", {"local_window_size": 3}),
        (4, "PER_TENSOR", {"softcap": 2.0}),
        (4, "PER_CHANNEL", {"smooth_softmax": 1}),
    ],
)
def test_quantized_caches(case: str, bits: int, kind: str, options: Any) -> None:
    unit = 0.02 if bits == 8 else 0.3
    rng = np.random.default_rng(1)
    shape = (1,) if kind == "PER_TENSOR" else (1, FEW, 1, WIDTH)
    scales = [(unit * rng.uniform(0.5, 2, shape)).astype(np.float32) for _ in range(2)]
    inputs = quantized(inputs_of(*CASES[case]), bits, scales)
    code = TensorProto.INT8 if bits == 8 else TensorProto.UINT8
    compare("GroupQueryAttention", inputs, known=(6,), types=(1, code, code), k_quant_type=kind,
            v_quant_type=kind, kv_cache_bit_width=bits, **options, **SETTINGS)  # fmt: skip


def test_caches_in_float8() -> None:
    """onnxruntime has them on GPUs only."""
    float8 = ml_dtypes.float8_e4m3fn
    inputs = inputs_of(*CASES["token"])
    scales = [np.array([0.05], np.float32), np.array([0.1], np.float32)]
    caches: list[Any] = [(x / s).astype(float8) for x, s in zip(inputs[3:5], scales, strict=True)]
    inputs[3:5] = caches
    made = node_model("GroupQueryAttention", [*inputs, *[None] * 5, *scales], known=(6,),
                      types=(1, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FN),
                      k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", kv_cache_bit_width=8,
                      **SETTINGS)  # fmt: skip
    given = [x for i, x in enumerate([*inputs, *scales]) if i != 6]
    y, *presents = run_model(made, given)
    rows = [x.reshape(1, 1, FEW, WIDTH).transpose(0, 2, 1, 3) for x in inputs[1:3]]
    known: list[Array] = []
    for present, past, new, scale in zip(presents, caches, rows, scales, strict=True):
        want = np.concatenate([past, np.clip(new / scale, -448, 448).astype(float8)], 2)
        assert present.dtype == float8
        np.testing.assert_array_equal(present.view(np.uint8), want.view(np.uint8))
        known.append(want.astype(np.float32) * scale)
    plain: list[Any] = [
        inputs[0],
        known[0][:, :, -1:],
        known[1][:, :, -1:],
        *(x[:, :, :-1] for x in known),
    ]
    plain[1:3] = [x.transpose(0, 2, 1, 3).reshape(1, 1, -1) for x in plain[1:3]]
    model = node_model("GroupQueryAttention", [*plain, *inputs[5:]], known=(6,), **SETTINGS)
    want = onnxruntime_results(model, [*plain, inputs[5]])
    np.testing.assert_allclose(y, want[0], rtol=1e-4, atol=1e-5)


def assert_equal_where_specified(
    ours: list[Array], theirs: list[Array], rows: list[int], kept: list[int]
) -> None:
    """Compare the first `rows` results and the first `kept` keys and values of each sample."""
    for i, (count, keys) in enumerate(zip(rows, kept, strict=True)):
        np.testing.assert_allclose(ours[0][i, :count], theirs[0][i, :count], rtol=1e-4, atol=1e-5)
        for y, want in zip(ours[1:3], theirs[1:3], strict=True):
            np.testing.assert_allclose(y[i, :, :keys], want[i, :, :keys], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("total", [9, 12])
@pytest.mark.parametrize("options", [{}, {"do_rotary": 1}, {"local_window_size": 3}])
def test_padded_chunks(options: Any, total: int) -> None:
    counts, valid = [9, 4, 6], [3, 1, 0]
    inputs = inputs_of(3, 3, 12, [9, 6, 9], total)
    inputs[5] = np.array(counts, np.int32) - 1
    tables = (
        [reals(16, WIDTH // 2, seed=i) for i in (5, 6)] if "do_rotary" in options else [None] * 2
    )
    inputs += [*tables, *[None] * 7, np.array(valid, np.int32)]
    made = node_model("GroupQueryAttention", inputs, known=(6,), **options, **SETTINGS)
    given = [x for i, x in enumerate(inputs) if x is not None and i != 6]
    ours, theirs = list(run_model(made, given)), onnxruntime_results(made, given)
    assert [y.shape for y in ours] == [y.shape for y in theirs]
    assert_equal_where_specified(ours, theirs, valid, counts)


@pytest.mark.parametrize(("room", "window"), [(4, 4), (6, 4), (7, 3)])
@pytest.mark.parametrize("kind", ["plain", "bias and rotary", "codes"])
def test_caches_of_a_window(room: int, window: int, kind: str) -> None:
    """The same tokens in steps of several lengths, which are padded."""
    step = 5
    caches: list[Any] = [np.zeros((2, FEW, room, WIDTH), np.float32)] * 2
    options: Any = {"local_window_size": window, "sliding_window_cache": 1}
    scales: list[Any] = [None, None]
    if kind == "codes":
        caches = [x.astype(np.int8) for x in caches]
        scales = [np.array([0.02], np.float32), np.array([0.03], np.float32)]
        options |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR",
                    "kv_cache_bit_width": 8, "types": (1, 3, 3)}  # fmt: skip
    counts, drops = np.zeros(2, np.int32), room - window + 1
    for turn, valid in enumerate([[3, 1], [5, 5], [1, 0], [2, 4], [1, 1], [1, 5]]):
        counts = counts + np.array(valid, np.int32)
        new = [reals(2, step, n * WIDTH, seed=turn + i) for i, n in enumerate([HEADS, FEW, FEW])]
        total = int(max(counts.max(), step))
        more: list[Any] = [None] * 5
        if kind == "bias and rotary":
            more = [*(reals(32, WIDTH // 2, seed=i) for i in (5, 6)), None,
                    reals(1, HEADS, step, total, seed=7), None]  # fmt: skip
            options["do_rotary"] = 1
        inputs = [*new, *caches, counts - 1, np.array(total, np.int32), *more, *scales, None, None]
        inputs.append(np.array(valid, np.int32))
        made = node_model("GroupQueryAttention", inputs, known=(6,), **options, **SETTINGS)
        given = [x for i, x in enumerate(inputs) if x is not None and i != 6]
        ours, theirs = list(run_model(made, given)), onnxruntime_results(made, given)
        kept = [int(t - drops * max(0, -(-(t - room) // drops))) for t in counts]
        assert_equal_where_specified(ours, theirs, valid, kept)
        caches = ours[1:3]


def test_wrong_caches() -> None:
    inputs = inputs_of(*CASES["token"])
    for message, more, options in (
        ("needs k_scale", [], {"k_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}),
        ("'PER_ROW' with kv_cache", [], {"k_quant_type": "PER_ROW", "kv_cache_bit_width": 8}),
        (r"room for 6 keys and a local_window_size of 9", [],
         {"local_window_size": 9, "sliding_window_cache": 1}),
        (r"a scale of the cache has shape \[3\], not \[1\] or \[1, 2, 1, 16\]",
         [*[None] * 5, np.ones(3, np.float32)], {"k_quant_type": "PER_CHANNEL",
                                                "kv_cache_bit_width": 8}),
        ("a cache of float32 with kv_cache_bit_width = 4", [*[None] * 5, np.ones(1, np.float32)],
         {"k_quant_type": "PER_TENSOR", "kv_cache_bit_width": 4}),
    ):  # fmt: skip
        given: list[Any] = [*inputs, *more]
        made = node_model("GroupQueryAttention", given, known=(6,), **options, **SETTINGS)
        with pytest.raises(NnefError, match=message):
            graph_for(made, [x for i, x in enumerate(given) if x is not None and i != 6])
