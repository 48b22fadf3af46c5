"""Operators as networks of other packages call them compute the same as in PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import numpy as np
import torch
from torch import Tensor, nn

import nnefc.pytorch


class Called(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def _agrees(function: Callable[..., Any], *args: Tensor, tolerance: float = 1e-5) -> None:
    """The function compiled gives what eager PyTorch gives."""
    module = Called(function)
    found = nnefc.pytorch.compile(module, args)(*args)
    np.testing.assert_allclose(found, module(*args), tolerance, tolerance)


@pytest.mark.parametrize("bounds", [(0, 4), ()])
def test_histograms(bounds: tuple[float, ...]) -> None:
    """Items at the upper bound are of the last bin, those beyond the bounds of none."""
    x = torch.tensor([[0.0, 1.0, 1.0, 3.9], [4.0, 4.0, 4.1, -0.1]])
    _agrees(lambda x: torch.histc(x, 5, *bounds), x)


@pytest.mark.parametrize("rows", [3, 7])
def test_products_of_groups_of_rows(rows: int) -> None:
    """A group may have no rows; for few rows matrices are gathered."""
    ends = torch.tensor([2, 2, rows - 1, rows], dtype=torch.int32)
    x, weight = torch.randn(rows, 8), torch.randn(4, 8, 16)

    def product(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
        return torch.ops.aten._grouped_mm(x.bfloat16(), weight.bfloat16(), ends).float()

    _agrees(product, x, weight, ends, tolerance=2e-2)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind: Any) -> None:
    """With biases, in both directions."""
    layer = kind(6, 4, 2, bidirectional=True)
    x = torch.randn(5, 3, 6)
    with torch.no_grad():
        want = layer(x)[0]
    found = nnefc.pytorch.compile(layer, (x,))(x)[0]
    np.testing.assert_allclose(found, want, 1e-5, 1e-6)
