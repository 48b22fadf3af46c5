"""Symbolic plans of attention: growing caches, causal masks, products of any width."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.graphs.dynamic_models import items, softmax, symbolic_model

CACHE = """graph g(x) -> (y) {
  x = tract_core_external(shape = [1, S, 6], datum_type = 'f32');
  kept = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = 1, datum_type = 'f32',
    past_sequence_shape = [1, T, 6], input_sequence_shape = [1, S, 6]);
  y = tract_transformers_sdpa(x, kept, kept);
}"""


def test_a_growing_cache_has_few_symbolic_plans(tmp_path: Path) -> None:
    model = symbolic_model(tmp_path, CACHE)
    session = model.session()
    every = items(1, 60, 6)
    begin = 0
    for end in (5, *range(6, 61)):
        x = every[:, begin:end]
        past = every[:, :end].astype(np.float64)
        expected = softmax(x @ past.swapaxes(1, 2) / np.sqrt(6)) @ past
        np.testing.assert_allclose(session(x), expected, rtol=1e-4, atol=1e-5)
        begin = end
    assert model._plans.symbolic_plans <= 10  # pyright: ignore[reportPrivateUsage]


def test_a_growing_cache_is_read_in_place(tmp_path: Path) -> None:
    model = symbolic_model(tmp_path, CACHE)
    session = model.session()
    for _ in range(4):
        session(items(1, 1, 6))
    plan = model.plan_for([(1, 1, 6)], session.shapes)
    labels = [launch.label.split()[0] for launch in plan.launches]
    assert "attention" in labels
    assert "concat" not in labels


MASKED = """graph g(x, past) -> (y) {
  x = tract_core_external(shape = [1, S, 6], datum_type = 'f32');
  past = tract_core_external(shape = [1, T, 6], datum_type = 'f32');
  k = concat([past, x], axis = 1);
  n = tract_core_shape_of(past)[1];
  every = n + tract_core_shape_of(x)[1];
  columns = unsqueeze(tract_core_range(0, every, 1), axes = [0]);
  rows = unsqueeze(tract_core_range(n, every, 1), axes = [1]);
  y = tract_transformers_sdpa(x, k, k, MASK);
}"""


@pytest.mark.parametrize(
    "mask",
    [
        "le(columns, rows)",
        "ge(rows, columns)",
        "not(gt(columns, rows))",
        "lt(columns, rows + 1)",
        "select(gt(columns, rows), -1e38, 0.0)",
    ],
)
def test_causal_masks_of_any_length_are_not_materialised(mask: str, tmp_path: Path) -> None:
    model = symbolic_model(tmp_path, MASKED.replace("MASK", mask))
    for count, before in ((40, 33), (50, 60), (1, 17), (1, 30), (63, 32)):
        x, past = items(1, count, 6), items(1, before, 6)
        k = np.concatenate([past, x], 1).astype(np.float64)
        hidden = np.arange(before + count) > np.arange(before, before + count)[:, None]
        expected = softmax(np.where(hidden, -np.inf, x @ k.swapaxes(1, 2) / np.sqrt(6))) @ k
        np.testing.assert_allclose(model(x, past), expected, rtol=1e-4, atol=1e-5)
    assert 0 < model._plans.symbolic_plans < 5  # pyright: ignore[reportPrivateUsage]
    plan = model.plan_for([(1, 40, 6), (1, 34, 6)], {})
    assert [launch.kernel for launch in plan.launches if "iota_tri" in launch.kernel] == []


CHANNELS = """graph g(x) -> (y) {
  x = tract_core_external(shape = [1, 12, S], datum_type = 'f32');
  y = matmul(softmax(matmul(x, x, transposeB = true), axes = [2]), x);
}"""


def test_attention_between_channels_of_any_width(tmp_path: Path) -> None:
    model = symbolic_model(tmp_path, CHANNELS)
    for width in (40, 17, 16, 63, 64, 130):
        x = items(1, 12, width) / 4
        wide = x.astype(np.float64)
        expected = softmax(wide @ wide.swapaxes(1, 2)) @ wide
        np.testing.assert_allclose(model(x), expected, rtol=1e-4, atol=1e-5)
    assert 0 < model._plans.symbolic_plans < 4  # pyright: ignore[reportPrivateUsage]
