"""Layers that several of the networks share."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


def convolution(
    inputs: int,
    outputs: int,
    size: int = 3,
    stride: int = 1,
    activation: type[nn.Module] = nn.SiLU,
) -> nn.Sequential:
    """Convolution, batch normalisation and an activation function."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(outputs),
        activation(),
    )


class Attention(nn.Module):
    """Attention of x to a context of `context` channels, by default to x."""

    def __init__(self, width: int, heads: int, context: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(context or width, width, bias=False)
        self.value = nn.Linear(context or width, width, bias=False)
        self.result = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        other = x if context is None else context
        y = functional.scaled_dot_product_attention(
            self._split(self.query(x)), self._split(self.key(other)), self._split(self.value(other))
        )
        return self.result(y.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, x.shape[2] // self.heads)).transpose(1, 2)
