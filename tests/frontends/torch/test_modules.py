"""Exported modules compute the same as in PyTorch, also for other extents of their symbols."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import numpy as np
import torch
from torch import nn

from nnefc.pytorch import compile_module
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
    model = compile_module.compile(
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
        compile_module.compile(Missing(), (torch.randn(3, 3),))
    rules = [each.rule for each in caught.value.errors]
    assert rules == ["torch/operator", "torch/operator"]
    assert all(each.place and each.place.file == __file__ for each in caught.value.errors)
