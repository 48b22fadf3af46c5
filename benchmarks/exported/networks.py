"""The exported modules, and the inputs that they are traced with."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn


class VisionTransformer(nn.Module):
    """ViT (Dosovitskiy et al., 2021) with patches of 16 by 16 pixels; by default ViT-S."""

    def __init__(self, width: int = 384, heads: int = 6, layers: int = 12, size: int = 224) -> None:
        super().__init__()
        count = (size // 16) ** 2
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, count + 1, width) * 0.02)
        self.encoder = _encoder(width, heads, layers, norm_first=True)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.encoder(x))[:, 0])


class Bert(nn.Module):
    """The encoder of BERT (Devlin et al., 2019); by default BERT-base."""

    def __init__(
        self, width: int = 768, heads: int = 12, layers: int = 12, vocabulary: int = 30522
    ) -> None:
        super().__init__()
        self.tokens, self.norm = nn.Embedding(vocabulary, width), nn.LayerNorm(width)
        self.positions = nn.Embedding(512, width)
        self.encoder = _encoder(width, heads, layers, norm_first=False)

    def forward(self, ids: Tensor) -> Tensor:
        positions = self.positions(torch.arange(ids.shape[1]).unsqueeze(0))
        return self.encoder(self.norm(self.tokens(ids) + positions))


class Recurrent(nn.Module):
    """A recurrent layer that returns its results of all steps."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


def _encoder(width: int, heads: int, layers: int, *, norm_first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=norm_first
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


@dataclass(frozen=True, slots=True)
class Exported:
    """A network, its inputs for tracing, and its variable axis."""

    title: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]
    """Random inputs with a given extent of the variable axis."""
    axis: int
    extent: int
    others: tuple[int, ...]
    """Further extents to plan for after the first."""


def networks(*, small: bool) -> dict[str, Exported]:
    """The networks by name, of full or reduced size."""
    size, vocabulary, steps, width = (32, 100, 20, 24) if small else (224, 30522, 200, 256)
    batches, lengths, turns = (2, 3, 5, 6), (97, 101, 127, 144), (150, 130, 180, 240)

    def vision() -> nn.Module:
        return VisionTransformer(32, 2, 2, size) if small else VisionTransformer()

    def bert() -> nn.Module:
        return Bert(32, 2, 2, vocabulary) if small else Bert()

    def images(batch: int) -> Tensor:
        return torch.randn(batch, 3, size, size)

    def ids(length: int) -> Tensor:
        return torch.randint(vocabulary, (1, length))

    def sequence(length: int) -> Tensor:
        return torch.randn(1, length, width)

    def recurrent(layer: type[nn.LSTM | nn.GRU]) -> Exported:
        title = f"{layer.__name__} over {steps} steps"
        make = partial(layer, width, width, batch_first=True)
        return Exported(title, lambda: Recurrent(make()), sequence, 1, steps, turns)

    return {
        "vit": Exported(f"ViT{'' if small else '-S/16'}", vision, images, 0, 1, batches),
        "bert": Exported(f"BERT{'' if small else '-base'}, 128 tokens", bert, ids, 1, 128, lengths),
        "lstm": recurrent(nn.LSTM),
        "gru": recurrent(nn.GRU),
    }
