"""Attention to selected blocks of keys, against onnxruntime."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import Array, compare, node_model, reals

HEADS, FEW, WIDTH, ROOM, BLOCK = 4, 2, 16, 64, 16
ROWS = np.array([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]], np.int32)
COLUMNS = np.array([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]], np.int32)
SETTINGS: dict[str, Any] = {
    "domain": "com.microsoft",
    "num_heads": HEADS,
    "kv_num_heads": FEW,
    "sparse_block_size": BLOCK,
    "known": (5, 6, 7),
    "outputs": (True, True, True),
}


def inputs_of(rows: int, counts: list[int]) -> list[Any]:
    """New and cached keys and values, selected blocks, and the keys of each sample."""
    batch = len(counts)
    query = reals(batch, rows, HEADS * WIDTH)
    key, value = (reals(batch, rows, FEW * WIDTH, seed=i) for i in (1, 2))
    past = [reals(batch, FEW, ROOM, WIDTH, seed=i) for i in (3, 4)]
    lengths = np.array(counts, np.int32)
    return [query, key, value, *past, ROWS, COLUMNS, np.array(max(counts), np.int32), lengths]


def oracle(inputs: list[Any], **attributes: Any) -> list[Array]:
    """The results of onnxruntime, which writes new keys and values into the memory of the past."""
    ort: Any = import_module("onnxruntime")
    content = node_model("SparseAttention", inputs, **SETTINGS, **attributes).SerializeToString()
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    arrays = {  # values of onnxruntime do not own them
        f"x{i}": x.copy()
        for i, x in enumerate(inputs)
        if x is not None and i not in SETTINGS["known"]
    }
    values = {name: ort.OrtValue.ortvalue_from_numpy(x) for name, x in arrays.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y0")
    binding.bind_ortvalue_output("y1", values["x3"])
    binding.bind_ortvalue_output("y2", values["x4"])
    session.run_with_iobinding(binding)
    return [binding.get_outputs()[0].numpy(), arrays["x3"], arrays["x4"]]


def oracle_of_samples(inputs: list[Any], counts: list[int], **attributes: Any) -> list[Array]:
    """Results of each sample alone: onnxruntime takes the blocks of the longest one for all."""
    every: list[list[Array]] = []
    for i, count in enumerate(counts):
        own = [None if x is None else x[i : i + 1] for x in inputs[:5]]
        rest = [np.array(count, np.int32), np.array([count], np.int32)]
        every.append(oracle([*own, *inputs[5:7], *rest, *inputs[9:]], **attributes))
    return [np.concatenate(results) for results in zip(*every, strict=True)]


@pytest.mark.parametrize(
    ("rows", "counts"),
    [(40, [40]), (64, [64]), (20, [20, 20]), (1, [41]), (1, [64]), (1, [41, 41]), (1, [30, 50])],
)
@pytest.mark.parametrize("options", [{}, {"do_rotary": 1, "scale": 0.2}])
def test_attention(rows: int, counts: list[int], options: dict[str, Any]) -> None:
    inputs = inputs_of(rows, counts)
    if options:
        inputs += [reals(ROOM, WIDTH // 2, seed=5), reals(ROOM, WIDTH // 2, seed=6)]
    compare(
        "SparseAttention",
        inputs,
        expected=oracle_of_samples(inputs, counts, **options),
        **SETTINGS,
        **options,
    )


def test_packed_heads_and_one_layout() -> None:
    inputs = inputs_of(33, [33])
    inputs[:3] = [np.concatenate(inputs[:3], 2), None, None]
    inputs[5:7] = [ROWS[:1], COLUMNS[:1]]
    compare("SparseAttention", inputs, expected=oracle(inputs), **SETTINGS)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (ROWS[:1], COLUMNS),
        (ROWS + 1, COLUMNS),
        (ROWS, COLUMNS[:, :4]),
        (ROWS, COLUMNS + 1),
        (ROWS[:, ::-1], COLUMNS),
        (ROWS[0], COLUMNS[0]),
    ],
)
def test_wrong_block_indices(rows: Array, columns: Array) -> None:
    inputs = inputs_of(1, [41])
    inputs[5:7] = [np.ascontiguousarray(rows), np.ascontiguousarray(columns)]
    model = node_model("SparseAttention", inputs, **SETTINGS)
    given = [x for i, x in enumerate(inputs) if i not in SETTINGS["known"]]
    with pytest.raises(NnefError) as error:
        graph_for(model, given)
    assert [each.rule for each in error.value.errors] == ["argument/attention"]
