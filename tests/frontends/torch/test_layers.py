"""Layers of exported modules with options that samples of operators lack, compared with PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn
from torch.nn import functional

from tests.helpers.pytorch.exported import compare


class Projected(nn.Module):
    """LSTM layers with projections, of both directions and of one without biases; a mean slope."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.LSTM(5, 6, 2, proj_size=3, bidirectional=True, batch_first=True)
        self.one = nn.LSTM(6, 4, proj_size=2, bias=False)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        y, last = self.both(functional.rrelu(x), (h, c))
        return y, last, self.one(y)


def test_recurrent_layers_with_projections() -> None:
    torch.manual_seed(0)
    compare(Projected(), (torch.randn(2, 7, 5), torch.randn(4, 2, 3), torch.randn(4, 2, 6)))


class Resized(nn.Module):
    """Pictures resized with antialiasing, and with a factor for one axis alone."""

    def forward(self, x: Any) -> Any:
        found: list[Any] = []
        for mode in ("bilinear", "bicubic"):
            given: list[dict[str, Any]] = [
                {"size": (5, 7)},
                {"size": (20, 30)},
                {"size": (4, 5), "align_corners": True},
                {"scale_factor": (0.5, 2.3)},
            ]
            found += (
                functional.interpolate(x, mode=mode, antialias=True, **each) for each in given
            )
            resize = getattr(torch.ops.aten, f"_upsample_{mode}2d_aa").default
            found.append(resize(x, [5, 7], False, 0.55, None))
        found.append(torch.ops.aten.upsample_bilinear2d.default(x, [5, 7], False, None, 0.6))
        return (*found, torch.ops.aten.upsample_nearest2d.default(x, [5, 7], 0.55, None))


class Stretched(nn.Module):
    """Rows of 150 items made longer, with an inexact factor."""

    def forward(self, x: Any) -> Any:
        return functional.interpolate(x, size=320, mode="linear")


def test_coordinates_of_resized_rows_are_exact() -> None:
    """A factor in float32 would move the last items by 1e-5."""
    compare(Stretched(), (torch.randn(1, 1, 150, dtype=torch.float64),), tolerance=1e-12)


def test_pictures_are_resized_as_by_pytorch() -> None:
    torch.manual_seed(0)
    compare(Resized(), (torch.randn(1, 2, 9, 12),))
