"""Grid sampling against PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ops.extended.grid_sample import MODES, PADDINGS, grid_sample
from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, normal, run

torch: Any = pytest.importorskip("torch")
SETTINGS = examples(0.8)
WAYS = [
    ("bilinear", "zeros"),
    ("nearest", "border"),
    ("bilinear", "reflection"),
    ("bicubic", "zeros"),
    ("bicubic", "reflection"),
]
"""Modes and paddings; the first three also sample volumes.  Each needs kernels of its own."""


def theirs(x: Array, grid: Array, **options: Any) -> Array:
    return torch.nn.functional.grid_sample(
        torch.from_numpy(x), torch.from_numpy(grid), **options
    ).numpy()


@SETTINGS
@given(st.data())
def test_grid_sample_matches_pytorch(data: st.DataObject) -> None:
    spatial = data.draw(st.integers(2, 3))
    extents = tuple(data.draw(st.integers(1, 5)) for _ in range(spatial))
    points = tuple(data.draw(st.integers(1, 4)) for _ in range(spatial))
    seed = data.draw(st.integers(0, 99))
    x = normal(seed, 2, 3, *extents, dtype=np.float64)
    grid = np.random.default_rng(seed).uniform(-2.5, 2.5, (2, *points, spatial))
    mode, padding_mode = data.draw(st.sampled_from(WAYS if spatial == 2 else WAYS[:3]))
    align_corners = data.draw(st.booleans())
    options: dict[str, Any] = {
        "mode": mode,
        "padding_mode": padding_mode,
        "align_corners": align_corners,
    }
    want = theirs(x, grid, **options)
    np.testing.assert_allclose(grid_sample(x, grid, **options), want, rtol=1e-9, atol=1e-9)
    threads = data.draw(st.sampled_from([1, 3]))
    got = run("grid_sample", x, grid, threads=threads, **options)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
    narrow = run("grid_sample", x.astype(np.float32), grid.astype(np.float32), **options)
    rounded = grid_sample(x, grid.astype(np.float32).astype(np.float64), **options)
    np.testing.assert_allclose(narrow, rounded, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_any_coordinates_stay_inside(mode: str, padding_mode: str) -> None:
    wild = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e10, -1e10, 0.0]
    grid = np.stack(np.meshgrid(wild, wild), -1)[None].astype(np.float32)
    x = normal(1, 1, 2, 3, 4)
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode}
    got = run("grid_sample", x, grid, **options)
    assert np.isfinite(got).all()
    assert (abs(got) <= 3 * abs(x).max()).all()
    if padding_mode == "zeros":
        assert (got[..., :7, :] == 0).all()
        assert (got[..., 7, :7] == 0).all()
