"""Symbolic plans are reused for similar shapes, and compute the same as concrete ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import nnefc
from nnefc.dynamic.plan_cache import RESPECIALIZE_AFTER
from nnefc.ir import Op
from nnefc.passes.machine.split_batch import SplitBatch
from tests.helpers.examples import examples
from tests.helpers.graphs.dynamic_models import items, softmax, symbolic_model

Array = np.ndarray[Any, Any]

W = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)


MOVES = """graph g(x) -> (y, z) {
  x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
  n = tract_core_shape_of(x);
  rows = n[1];
  half = rows / 2;
  first = tract_core_dyn_slice(x, 0, half, len = half, axis = 1);
  last = slice(x, axes = [1], begin = [half], end = [rows], stride = [1]);
  turned = concat([last, first], axis = 1);
  flat = reshape(turned, shape = [n[0] * rows, 6]);
  y = transpose(reshape(flat, shape = [n[0], rows, 2, 3]), axes = [0, 2, 1, 3]);
  z = tract_core_broadcast(mean_reduce(x, axes = [1]), shape = [n[0], rows, 6]);
}"""


def moves(x: Array) -> list[Array]:
    half = x.shape[1] // 2
    turned = np.concatenate([x[:, half:], x[:, :half]], 1)
    y = turned.reshape(*x.shape[:2], 2, 3).transpose(0, 2, 1, 3)
    return [y, np.broadcast_to(x.mean(1, keepdims=True, dtype=np.float64), x.shape)]


NUMBERS = """graph g(x) -> (y, z, v) {
  x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
  n = tract_core_shape_of(x);
  places = tract_core_cast(tract_core_range(0, n[1], 1), to = 'f32');
  y = add(x, reshape(places, shape = [1, n[1], 1]));
  from_it = tract_core_cast(tract_core_range(n[1], n[1] + 3, 1), to = 'f32');
  z = mul(sum_reduce(x, axes = [1, 2]), reshape(from_it, shape = [1, 1, 3]));
  v = tract_core_trilu(tract_core_broadcast([[[1.0]]], shape = [n[0], n[1], n[1]]), 0, false);
}"""


def numbers(x: Array) -> list[Array]:
    b, s, _ = x.shape
    places = np.arange(s + 3, dtype=np.int64)
    y = x + places[:s, None]
    z = x.sum((1, 2), keepdims=True, dtype=np.float64) * places[s:]
    return [y, z, np.broadcast_to(np.tril(np.ones((s, s))), (b, s, s))]


PRODUCTS = """graph g(x) -> (y, z, v) {
  x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
  w = variable<scalar>(label = 'w', shape = [6, 8]);
  h = tanh(matmul(x, unsqueeze(w, axes = [0])));
  scores = matmul(h, h, transposeB = true);
  y = matmul(softmax(scores, axes = [2]), h);
  z = scores;
  v = tract_transformers_sdpa(h, h, h, is_causal = true);
}"""


def products(x: Array) -> list[Array]:
    h = np.tanh(x.astype(np.float64) @ W.astype(np.float64))
    scores = h @ h.swapaxes(1, 2)
    hidden = np.triu(np.full(scores.shape[1:], -np.inf), 1)
    causal = softmax(scores / np.sqrt(8) + hidden) @ h
    return [softmax(scores) @ h, scores, causal]


TWO = """graph g(x, t) -> (y, m) {
  x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
  t = tract_core_external(shape = [B, T, 6], datum_type = 'f32');
  y = concat([x, t], axis = 1);
  m = matmul(x, t, transposeB = true);
}"""


def two(x: Array, t: Array) -> list[Array]:
    return [np.concatenate([x, t], 1), x.astype(np.float64) @ t.swapaxes(1, 2).astype(np.float64)]


def compare(found: Any, expected: list[Array]) -> None:
    for y, wanted in zip(found, expected, strict=True):
        assert y.shape == wanted.shape
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


LENGTHS = st.integers(1, 40)


@pytest.mark.parametrize(
    ("body", "formula"),
    [(MOVES, moves), (NUMBERS, numbers), (PRODUCTS, products)],
    ids=["moves", "numbers", "products"],
)
def test_results_are_right_for_every_length(
    body: str, formula: Callable[..., list[Array]], tmp_path: Path
) -> None:
    model = symbolic_model(tmp_path, body, w=W)

    @examples(0.25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.integers(1, 3), st.integers(2, 40))
    def check(batch: int, length: int) -> None:
        x = items(batch, length, 6)
        compare(model(x), formula(x))

    check()


def test_symbols_of_several_inputs(tmp_path: Path) -> None:
    model = symbolic_model(tmp_path, TWO)

    @examples(0.25)
    @given(st.integers(1, 3), LENGTHS, LENGTHS)
    def check(batch: int, length: int, other: int) -> None:
        x, t = items(batch, length, 6), items(batch, other, 6)
        compare(model(x, t), two(x, t))

    check()
    assert model._plans.symbolic_plans  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("body", [MOVES, NUMBERS, PRODUCTS], ids=["moves", "numbers", "products"])
def test_similar_lengths_share_symbolic_plans(body: str, tmp_path: Path) -> None:
    model = symbolic_model(tmp_path, body, w=W)
    for length in range(33, 64, 3):
        model(items(1, length, 6))
    assert model.plans == 11
    assert model._plans.symbolic_plans <= 2  # pyright: ignore[reportPrivateUsage]
    assert model._plans.symbolic_plans  # pyright: ignore[reportPrivateUsage]


def test_all_lengths_share_the_kernels_of_a_few(tmp_path: Path) -> None:
    """The model has a mask that several rows share."""
    body = """graph g(m, x) -> (y, t) {
      m = tract_core_external(shape = [1, 1, P], datum_type = 'bool');
      x = tract_core_external(shape = [1, 4, P], datum_type = 'f32');
      y = softmax(select(m, x * 2.0, -10000.0), axes = [2]);
      t = select(m, x, y);
    }"""
    model = symbolic_model(tmp_path, body.replace("P]", "S]"))
    known: set[str] = set()
    for length in (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 63, 64, 65, 128, 300):
        launches = model.plan_for([(1, 1, length), (1, 4, length)], {}).launches
        kernels = {launch.kernel for launch in launches}
        assert length < 3 or kernels <= known, length
        known |= kernels
    assert model._plans.symbolic_plans <= 5  # pyright: ignore[reportPrivateUsage]


def test_a_degraded_plan_is_respecialized_when_its_shapes_recur(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Concrete plans split the batch; symbolic ones cannot."""

    def always(
        _: SplitBatch, steps: list[Op], rows: Any, apart: list[bool], batch: int
    ) -> list[int]:
        return [1 if each else batch for each in apart]

    monkeypatch.setattr(SplitBatch, "_choose", always)
    body = """graph g(x) -> (y) {
      x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
      y = softmax(tanh(x), axes = [2]);
    }"""
    model = symbolic_model(tmp_path, body)
    times: dict[int, list[int]] = {}
    for batch in [7, *[5, 6] * (RESPECIALIZE_AFTER + 1)]:
        x = items(batch, 9, 6)
        np.testing.assert_allclose(model(x), softmax(np.tanh(x.astype(np.float64))), rtol=1e-5)
        plan = model.plan_for([x.shape], {})
        times.setdefault(batch, []).append(max(launch.times for launch in plan.launches))
    assert model._plans.symbolic_plans <= 2  # pyright: ignore[reportPrivateUsage]
    assert times[7] == [1]
    for batch in (5, 6):
        assert times[batch][: RESPECIALIZE_AFTER // 2] == [1] * (RESPECIALIZE_AFTER // 2)
        assert times[batch][-1] == batch


def test_errors_contain_no_symbols(tmp_path: Path) -> None:
    body = MOVES.replace("shape = [n[0] * rows, 6]", "shape = [n[0] * rows, 5]")
    model = symbolic_model(tmp_path, body)
    with pytest.raises(nnefc.NnefError, match=r"\[2, 7, 6\] cannot be reshaped to \[14, 5\]"):
        model(items(2, 7, 6))


def test_calls_with_errors_leave_no_symbolic_plan(tmp_path: Path) -> None:
    body = """graph g(x) -> (y) {
      x = tract_core_external(shape = [B, S], datum_type = 'f32');
      y = reshape(x, shape = [2, tract_core_shape_of(x)[1] / 2, -1]);
    }"""
    model = symbolic_model(tmp_path, body)
    for length in (5, 7, 9):
        with pytest.raises(nnefc.NnefError, match="reshape"):
            model(items(1, length))
    for length in (40, 44):
        x = items(1, length)
        np.testing.assert_array_equal(model(x), x.reshape(2, length // 2, -1))
    assert model._plans.symbolic_plans == 1  # pyright: ignore[reportPrivateUsage]
