"""Symbolic plans of images in batches of any size: choices made for one size hold for all."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch has no types for the functions that are used)

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.dynamic.plan_cache import MAX_FAILED_TRACES
from tests.helpers.graphs.dynamic_models import items, symbolic_model

torch: Any = pytest.importorskip("torch")

NETWORK = """graph g(x) -> (y, z) {
  x = tract_core_external(shape = [B, 8, 12, 12], datum_type = 'f32');
  f = variable<scalar>(label = 'f', shape = [16, 8, 3, 3]);
  g = variable<scalar>(label = 'g', shape = [16, 16, 3, 3]);
  d = variable<scalar>(label = 'd', shape = [16, 1, 3, 3]);
  a = relu(conv(x, f, 0.0, stride = [2, 2], padding = [(1, 1), (1, 1)]));
  b = relu(conv(a, g, 0.5, padding = [(1, 1), (1, 1)]) + a);
  c = clamp(conv(b, d, 0.0, groups = 16, padding = [(1, 1), (1, 1)]), 0.0, 6.0);
  y = max_pool(c, size = [1, 1, 2, 2], stride = [1, 1, 2, 2],
    padding = [(0, 0), (0, 0), (0, 0), (0, 0)]);
  z = mean_reduce(c, axes = [2, 3]);
}"""


def test_images_in_batches_of_any_size_have_few_symbolic_plans(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    shapes = {"f": (16, 8, 3, 3), "g": (16, 16, 3, 3), "d": (16, 1, 3, 3)}
    f, g, d = (rng.standard_normal(shape).astype(np.float32) / 5 for shape in shapes.values())
    for name, array in zip(shapes, (f, g, d), strict=True):
        nnefc.write_tensor(tmp_path / f"{name}.dat", array)
    model = symbolic_model(tmp_path, NETWORK)
    conv = torch.nn.functional.conv2d
    for batch in (2, 3, 8, 5, 33, 7, 1, 4, 20):
        x = rng.standard_normal((batch, 8, 12, 12)).astype(np.float32)
        f_, g_, d_, x_ = (torch.tensor(each, dtype=torch.float64) for each in (f, g, d, x))
        a = conv(x_, f_, stride=2, padding=1).relu()
        b = (conv(a, g_, padding=1) + 0.5 + a).relu()
        c = conv(b, d_, groups=16, padding=1).clamp(0, 6)
        y, z = model(x)
        wanted = torch.nn.functional.max_pool2d(c, 2).numpy()
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(z, c.mean((2, 3), keepdim=True).numpy(), rtol=1e-4, atol=1e-4)
    assert model._plans.symbolic_plans <= 4  # pyright: ignore[reportPrivateUsage]


IMAGES = """graph g(x) -> (y) {
  x = tract_core_external(shape = [B, 16, 7, 4], datum_type = 'f32');
  f = variable<scalar>(label = 'f', shape = [12, 16, 3, 3]);
  g = variable<scalar>(label = 'g', shape = [12, 12, 3, 3]);
  a = relu(conv(x, f, 0.0, padding = [(1, 1), (1, 1)], border = 'constant'));
  b = max_pool(a, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], border = 'ignore',
    padding = [(0, 0), (0, 0), (0, 0), (0, 0)]);
  y = relu(conv(b, g, 0.0, padding = [(1, 1), (1, 1)], border = 'constant'));
}"""


def test_convolutions_with_padded_channels_in_batches_of_any_size(tmp_path: Path) -> None:
    """The tables of epilogues contain padded channels."""
    f, g = (items(12, channels, 3, 3) for channels in (16, 12))
    for name, filters in (("f", f), ("g", g)):
        nnefc.write_tensor(tmp_path / f"{name}.dat", filters)
    model = symbolic_model(tmp_path, IMAGES)
    for batch in (3, 2, 1, 9, 15, 10):
        x = items(batch, 16, 7, 4)
        wide = torch.from_numpy(x).double()
        a = torch.nn.functional.conv2d(wide, torch.from_numpy(f).double(), padding=1).relu()
        b = torch.nn.functional.conv2d(
            torch.nn.functional.max_pool2d(a, 2), torch.from_numpy(g).double(), padding=1
        )
        wanted = b.relu().numpy()
        np.testing.assert_allclose(model(x), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert model._plans.symbolic_plans  # pyright: ignore[reportPrivateUsage]


def test_indices_of_the_largest_items_need_one_plan(tmp_path: Path) -> None:
    """The indices of the largest items of an image are computed with its size."""
    rng = np.random.default_rng(4)
    model = symbolic_model(
        tmp_path,
        """graph g(x) -> (y, i) {
          x = tract_core_external(shape = [1, 3, B, 12], datum_type = 'f32');
          (y, i) = max_pool_with_index(x, size = [1, 1, 2, 2], stride = [1, 1, 1, 1],
            padding = [(0, 0), (0, 0), (0, 0), (0, 0)], border = 'ignore');
        }""",
    )
    for rows in (12, 13, 18, 15):
        x = rng.standard_normal((1, 3, rows, 12)).astype(np.float32)
        wanted = torch.nn.functional.max_pool2d(torch.from_numpy(x), 2, 1, return_indices=True)
        for found, each in zip(model(x), wanted, strict=True):
            np.testing.assert_array_equal(found, each.numpy())
    assert model._plans.symbolic_plans == 1  # pyright: ignore[reportPrivateUsage]


def test_tracing_is_given_up_if_it_fails_for_every_size(tmp_path: Path) -> None:
    """A stack of as many tensors as there are rows has another graph for each size."""
    rng = np.random.default_rng(4)
    model = symbolic_model(
        tmp_path,
        """graph g(x) -> (y) {
          x = tract_core_external(shape = [B, 5], datum_type = 'f32');
          y = stack(unstack(x, axis = 0), axis = 1);
        }""",
    )
    for rows in (12, 13, 18, 15, 14, 17, 16, 19, 20, 11):
        x = rng.standard_normal((rows, 5)).astype(np.float32)
        np.testing.assert_array_equal(model(x), x.T)
    plans = model._plans  # pyright: ignore[reportPrivateUsage]
    assert plans._failed_traces == MAX_FAILED_TRACES  # pyright: ignore[reportPrivateUsage]
