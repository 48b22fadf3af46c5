"""Symbolic plans of loops: one plan serves any number of turns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.dynamic.plan_cache import MAX_FAILED_TRACES
from tests.helpers.graphs.dynamic_models import model

Array = np.ndarray[Any, Any]

SYMBOLS = "extension tract_symbol B;\nextension tract_symbol S;\n"
LOOP = """
fragment turn(x: tensor<scalar>, total: tensor<scalar>, other: tensor<scalar>, w: tensor<scalar>)
  -> (new_total: tensor<scalar>, new_other: tensor<scalar>, shown: tensor<scalar>)
{
  seen = sum_reduce(matmul(x, w), axes = [1]);
  new_total = 0.7 * total + seen;
  new_other = total - 0.5 * other;
  shown = tanh(x + new_other);
}
graph g(x) -> (shown, total, other, before, plain)
{
  x = tract_core_external(shape = [B, S, 6], datum_type = 'f32');
  w = variable<scalar>(label = 'w', shape = [1, 6, 6]);
  zero = 0.0 * slice(x, axes = [1], begin = [0], end = [1], stride = [1]);
  (shown, total, other, before) = tract_core_scan(body = "turn",
    scan = [("x", x, 1, CHUNK)], full = [("w", w)],
    state = [("total", zero, "new_total"), ("other", zero + 1.0, "new_other")],
    output = [("shown", "full", 1, CHUNK), ("new_total", "last", 1, 1), ("new_other", "last", 1, 1),
              STACKED]);
  plain = relu(shown);
}
"""
W = np.random.default_rng(5).standard_normal((1, 6, 6)).astype(np.float32) / 3


def expected(x: Array, chunk: int, stacked: str) -> list[Array]:
    x = x.astype(np.float64)
    pieces = np.split(x, x.shape[1] // abs(chunk), 1)[:: -1 if chunk < 0 else 1]
    total, other = np.zeros_like(x[:, :1]), np.ones_like(x[:, :1])
    shown: list[Array] = []
    states: list[Array] = []
    for piece in pieces:
        total, other = (
            0.7 * total + (piece @ W).sum(1, keepdims=True),
            total - 0.5 * other,
        )
        shown.append(np.tanh(piece + other))
        states.append(total if stacked == "new_total" else other)
    together = np.concatenate(shown[:: -1 if chunk < 0 else 1], 1)
    return [together, total, other, np.concatenate(states, 1), np.maximum(together, 0)]


@pytest.mark.parametrize("stacked", ["new_total", "new_other", ""])
@pytest.mark.parametrize("chunk", [1, 2, -1, -3])
def test_loops_of_any_number_of_turns(chunk: int, stacked: str, tmp_path: Path) -> None:
    text = LOOP.replace("CHUNK", str(chunk))
    text = text.replace("STACKED", f'("{stacked}", "full", 1, 1)' if stacked else "")
    if not stacked:
        text = re.sub(r", before\b|,\s+(?=\])", "", text)
    found = model(tmp_path, text, SYMBOLS, w=W)
    rng = np.random.default_rng(7)
    for turns in (9, 10, 3, 12, 7, 33, 34, 16, 35, 4, 2, 1, 5, 60):
        for batch in (2, 3):
            x = rng.standard_normal((batch, turns * abs(chunk), 6)).astype(np.float32)
            wanted = expected(x, chunk, stacked)
            if not stacked:
                del wanted[3]
            for y, want in zip(found(x), wanted, strict=True):
                np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4, err_msg=f"{turns}")
    assert found._plans.symbolic_plans <= 10  # pyright: ignore[reportPrivateUsage]
    assert found._plans._failed_traces < MAX_FAILED_TRACES  # pyright: ignore[reportPrivateUsage]
