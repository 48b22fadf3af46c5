"""Layers that several of the networks share."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def convolution(
    inputs: int,
    outputs: int,
    size: int = 3,
    stride: int = 1,
    groups: int = 1,
    activation: nn.Module | None = None,
) -> nn.Module:
    """Convolution, batch normalisation and an activation function (default: ReLU)."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        activation or nn.ReLU(),
    )


class Residual(nn.Module):
    """x + scale * branch(x)"""

    def __init__(self, branch: nn.Module, scale: float = 1.0) -> None:
        super().__init__()
        self.branch, self.scale = branch, scale

    def forward(self, x: Tensor) -> Tensor:
        y = self.branch(x)
        return x + (y if self.scale == 1.0 else y * self.scale)


class Attention(nn.Module):
    """Attention of x to `context`, by default to x; `causal`: only to earlier tokens."""

    def __init__(self, width: int, heads: int, *, causal: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.result = (
            nn.Linear(width, width, bias) for _ in range(4)
        )

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        other = x if context is None else context
        y = functional.scaled_dot_product_attention(
            self._split(self.query(x)),
            self._split(self.key(other)),
            self._split(self.value(other)),
            is_causal=self.causal,
        )
        return self.result(y.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        return x.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)


class RmsNorm(nn.Module):
    """Normalisation by the root mean square, with a scale."""

    def __init__(self, width: int, offset: float = 0.0) -> None:
        super().__init__()
        self.weight, self.offset = nn.Parameter(torch.rand(width)), offset

    def forward(self, x: Tensor) -> Tensor:
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return y * (self.weight + self.offset if self.offset else self.weight)
