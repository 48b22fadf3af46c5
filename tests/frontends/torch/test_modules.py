"""Exported modules compute the same as in PyTorch, also for other extents of their symbols."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import numpy as np
import torch
from torch import nn

import nnefc
import nnefc.pytorch
from nnefc.support.errors import NnefError


class Network(nn.Module):
    """A convolution, attention, slices by extents, and nested results."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 4)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Any, *, scale: float = 1.0) -> Any:
        y = torch.relu_(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
        y, _ = self.attention(y, y, y, need_weights=False)
        z = torch.nn.functional.layer_norm(y[:, : y.shape[1] // 2], (8,))
        return {"units": self.linear(z), "means": (y.mean(1) * scale, 3)}


def test_results_have_the_nesting_of_the_module() -> None:
    torch.manual_seed(0)
    module = Network().eval()
    x = torch.randn(2, 3, 6, 8)
    model = nnefc.pytorch.compile(
        module, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}
    )
    for batch in (2, 5):
        x = torch.randn(batch, 3, 6, 8)
        with torch.no_grad():
            want = module(x)
        found = model(x)
        assert found["means"][1] == 3
        for y, expected in (
            (found["units"], want["units"]),
            (found["means"][0], want["means"][0]),
        ):
            np.testing.assert_allclose(y.numpy(), expected.numpy(), 1e-4, 1e-5)


def test_operators_that_are_missing_are_reported_at_once() -> None:
    class Missing(nn.Module):
        def forward(self, x: Any) -> Any:
            values = torch.linalg.svd(x)[1]
            return values + torch.special.i0(x)[0]

    with pytest.raises(NnefError) as caught:
        nnefc.pytorch.compile(Missing(), (torch.randn(3, 3),))
    rules = [each.rule for each in caught.value.errors]
    assert rules == ["torch/operator", "torch/operator"]
    assert all(each.place and each.place.file == __file__ for each in caught.value.errors)


class Totals(nn.Module):
    """A module with a buffer that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Any, factor: Any) -> Any:
        self.total += (x * factor).sum(0)
        return self.total.clone()


def test_changed_buffers_are_states() -> None:
    """Arguments may be given by name, too; buffers of the module itself stay."""
    module = Totals()
    x, factor = torch.ones(2, 3), torch.tensor(2.0)
    model = nnefc.pytorch.compile(module, (x, factor))
    assert model(x, factor).tolist() == [4.0] * 3
    assert model(factor=factor, x=x).tolist() == [8.0] * 3
    assert module.get_buffer("total").tolist() == [0.0] * 3
    with pytest.raises(NnefError, match="input/argument"):
        model(x)


@pytest.mark.parametrize("extent", [None, "rows"])
def test_saved_models_need_no_pytorch(extent: str | None, tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 2)).eval()
    x = torch.randn(4, 3)
    shapes = {"input": {0: torch.export.Dim(extent)}} if extent else None
    model = nnefc.pytorch.compile(module, (x,), dynamic_shapes=shapes)
    want = model(x).numpy()
    model.save(tmp_path / "net.nnefc")
    found: Any = nnefc.load(tmp_path / "net.nnefc")(x.numpy())
    np.testing.assert_array_equal(found, want)


def test_modules_that_cannot_be_exported_are_one_error() -> None:
    class Deciding(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(NnefError, match="torch/export") as caught:
        nnefc.pytorch.compile(Deciding(), (torch.randn(3),))
    (error,) = caught.value.errors
    assert error.place
    assert error.place.file == __file__
