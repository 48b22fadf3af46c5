"""Operators compute what PyTorch computes where operands are extreme, empty or of another type."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn
from torch.nn import functional as F

from tests.helpers.pytorch.exported import compare

INF, NAN = math.inf, math.nan


class Arithmetic(nn.Module):
    def forward(self, x: Any, y: Any, a: Any, b: Any) -> Any:
        weight = torch.tensor([1.0, 0.9, 0.0])
        return (
            *(x // y, torch.remainder(x, y), torch.hypot(x, y)),
            *(torch.lerp(a, b, each) for each in (1.0, 0.7, 0.2, weight)),
            *(F.selu(x), F.logsigmoid(x)),
            F.rms_norm(a.double() * 1e-12, (3,)),
            torch.ops.aten._fused_rms_norm(a[None], (3,), b, 1e-5)[0],
            torch.arange(2.5, 7, 1.5, dtype=torch.int64),
        )


def test_arithmetic_of_infinities_and_of_numbers_far_apart() -> None:
    """A weight of 1 gives the end, however far it is; float64 has its own smallest number."""
    x = torch.tensor([7.0, -7.0, -1.0, 1.0, -3.3, 0.3, NAN, INF, -INF])
    y = torch.tensor([-2.0, 2.0, INF, -INF, 1.1, 0.1, INF, 2.0, NAN])
    compare(Arithmetic(), (x, y, torch.tensor([1e8, 1.0, -3e7]), torch.tensor([1.0, 1e8, 2.0])))


class Products(nn.Module):
    def forward(self, absent: Any, a: Any, b: Any, numbers: Any) -> Any:
        return (
            *(torch.addmm(absent, a, b, beta=0), torch.addmm(absent[0], a, b, beta=0, alpha=2)),
            torch.baddbmm(absent[None], a[None], b[None], beta=0),
            torch.addmv(absent[:, 0], a, b[:, 0], beta=0),
            torch.addmv(a[:, 0], a, b[:, 0], beta=0.5, alpha=2),
            torch.addbmm(a[:, :2], torch.stack([a, a]), torch.stack([b, b]), beta=2),
            torch.addmm(numbers[:, :2], numbers, numbers.T[:, :2], beta=2, alpha=3),
            *(torch.dist(a, 2 * a), torch.dist(a, 2 * a, 1)),
            *(torch.any(a, dim=()), torch.all(a > 0, dim=()), torch.any(a > 9)),
            F.scaled_dot_product_attention(a, a, a, is_causal=True),
            F.adaptive_max_pool3d(a.reshape(1, 1, 3, 2, 2), (2, 1, 2)),
        )


def test_products_without_what_is_added() -> None:
    """A beta of 0 leaves out what is not a number; `any` along no dimension reduces nothing."""
    torch.manual_seed(0)
    numbers = torch.randint(-9, 9, (3, 4))
    compare(Products(), (torch.full((3, 2), NAN), torch.randn(3, 4), torch.randn(4, 2), numbers))


class Others(nn.Module):
    def forward(self, rows: Any, pixels: Any, parts: Any) -> Any:
        indices, offsets = torch.tensor([1, 2, 4, 1, 0]), torch.tensor([0, 3])
        z = torch.view_as_complex(parts)
        several = (z / z.flip(0), 1 / z, z / (1 + 2j), torch.constant_pad_nd(z, (1, 1), 1.0))
        return (
            F.embedding_bag(indices, rows, offsets, mode="max", padding_idx=-4),
            F.interpolate(pixels, size=(4, 6), mode="bilinear"),
            *(z.abs(), *(torch.view_as_real(each) for each in several)),
        )


@pytest.mark.parametrize("size", [1e-25, 1e25])
def test_rows_of_padding_pixels_and_sizes_of_complex_numbers(size: float) -> None:
    """Rows may count from the end, pixels are rounded, squares neither over- nor underflow."""
    torch.manual_seed(0)
    pixels = torch.randint(0, 255, (1, 5, 2, 3), dtype=torch.uint8)  # 5: no fixed-point weights
    compare(Others(), (torch.randn(5, 3), pixels, torch.randn(4, 3, 2) * size), tolerance=1e-5)
