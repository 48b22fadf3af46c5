"""Programs with quantized tensors, as PT2E writes them, become kernels of integers."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # registers quantized_decomposed

import torch
from torch import nn

import nnefc.pytorch
from tests.helpers.pytorch.exported import compare

codes: Any = torch.ops.quantized_decomposed
INT8, UINT8 = (-128, 127, torch.int8), (0, 255, torch.uint8)


def rounded(x: torch.Tensor, scale: Any, zero: Any, limits: Any) -> torch.Tensor:
    """An activation, quantized and dequantized, as a converted module has it."""
    quantized = codes.quantize_per_tensor(x, scale, zero, *limits)
    return codes.dequantize_per_tensor(quantized, scale, zero, *limits)


class Quantized(nn.Module):
    """A convolution with scales per channel and a product with one scale, between roundings."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("filters", torch.randint(-127, 128, (16, 8, 3, 3), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(16) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(16, dtype=torch.int64))
        self.register_buffer("weight", torch.randint(-127, 128, (10, 256), dtype=torch.int8))
        self.bias = nn.Parameter(torch.randn(16))

    def forward(self, x: Any) -> Any:
        limits = (-127, 127, torch.int8)
        filters = codes.dequantize_per_channel(self.filters, self.scales, self.zeros, 0, *limits)
        y = nn.functional.conv2d(rounded(x, 0.02, 3, INT8), filters, self.bias, padding=1)
        y = rounded(torch.relu(y), 0.05, 10, (0, 127, torch.uint8))
        y = rounded(nn.functional.avg_pool2d(y, 2), 0.04, 10, UINT8)
        weight = codes.dequantize_per_tensor(self.weight, 0.004, 0, *limits)
        return rounded(nn.functional.linear(y.flatten(1), weight), 0.3, -5, INT8)


def test_modules_of_pt2e_compute_with_codes() -> None:
    """Results differ from those of PyTorch by one code at most, in few items."""
    module = Quantized().eval()
    x = torch.randn(4, 8, 8, 8)
    model: Any = nnefc.pytorch.compile(module, (x,))
    steps = ((model(x) - module(x)) / 0.3).round().abs()
    assert steps.max() <= 1
    assert (steps > 0).float().mean() < 0.05
    kernels = [each.kernel for each in model.model.launches]
    for family in ("direct_codes", "code_sums", "code_matmul"):
        assert any(family in each for each in kernels), kernels


class DynamicLinear(nn.Module):
    """A linear layer whose input is rounded with parameters of the tensor or of each row."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        self.register_buffer("weight", torch.randint(-127, 128, (24, 40), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(24) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(24, dtype=torch.int64))
        self.bias = nn.Parameter(torch.randn(24))

    def forward(self, x: Any) -> Any:
        if self.kind == "rows":
            scale, zero = codes.choose_qparams_per_token_asymmetric(x, torch.int8)
            rows = codes.quantize_per_token(x, scale, zero, *INT8)
            real = codes.dequantize_per_token(rows, scale, zero, *INT8, torch.float32)
        else:
            limits = UINT8 if self.kind == "uint8" else INT8
            scale, zero = codes.choose_qparams(x, *limits[:2], 1e-6, limits[2])
            real = rounded(x, scale, zero, limits)
        channels = self.scales, self.zeros, 0, -127, 127, torch.int8
        weight = codes.dequantize_per_channel(self.weight, *channels)
        return torch.relu(nn.functional.linear(real, weight, self.bias))


@pytest.mark.parametrize("kind", ["int8", "uint8", "rows"])
def test_linear_layers_with_ranges_that_a_run_computes_multiply_codes(kind: str) -> None:
    """Codes are those of PyTorch, which computes those of rows in float64."""
    module = DynamicLinear(kind).eval()
    batch: Any = torch.export.Dim("batch")
    x = torch.randn(3, 7, 40) * torch.rand(3, 7, 1)
    model: Any = nnefc.pytorch.compile(module, (x,), dynamic_shapes=({0: batch},))
    for given in (x, torch.randn(5, 7, 40) - 0.5, torch.zeros(2, 7, 40)):
        difference = (model(given) - module(given)).abs() / module(x).abs().max()
        assert difference.max() < (1e-2 if kind == "rows" else 1e-5)
        assert (difference > 1e-5).float().mean() < 0.02
    kernels = [each.kernel for each in nnefc.pytorch.compile(module, (x,)).model.launches]
    assert any("code_matmul" in each for each in kernels), kernels


class Dynamic(nn.Module):
    """Parameters that are computed from the tensors themselves; blocks of weights."""

    def forward(self, x: Any, blocks: Any, scales: Any) -> Any:
        limits = (-128, 127, torch.int8)
        scale, zero = codes.choose_qparams(x, -128, 127, 1e-6, torch.int8)
        y = codes.dequantize_per_tensor(
            codes.quantize_per_tensor(x, scale, zero, *limits), scale, zero, *limits
        )
        step, point = codes.choose_qparams_symmetric(x, -128, 127, 1e-6, torch.int8)
        y = y + codes.dequantize_per_tensor(
            codes.quantize_per_tensor(x, step, point, *limits), step, point, *limits
        )
        per_row, none = codes.choose_qparams_per_token(x, torch.int8)
        kept = codes.quantize_per_token(x, per_row, none, -128, 127, torch.int8)
        rows = codes.dequantize_per_token(kept, per_row, none, *limits, torch.float32)
        weight = codes.dequantize_per_channel_group(
            blocks, scales, None, -8, 7, torch.int8, 4, torch.float32
        )
        every = codes.quantize_per_channel(
            x, scales.flatten(), torch.arange(6), 1, -100, 100, torch.int8
        )
        offsets = torch.arange(2).repeat(3, 1)
        groups = codes.quantize_per_channel_group(weight, scales, offsets, -8, 7, torch.int8, 4)
        rows_of_zeros = codes.choose_qparams_per_token_asymmetric(x - 0.75, torch.int8)
        return scale, zero, y, rows, weight, every, groups, *rows_of_zeros


def test_parameters_that_a_run_computes() -> None:
    torch.manual_seed(0)
    module = Dynamic()
    given = torch.randn(5, 6), torch.randint(-8, 8, (3, 8), dtype=torch.int8), torch.rand(3, 2)
    compare(module, given)
