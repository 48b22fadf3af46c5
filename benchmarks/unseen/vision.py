"""Networks for images."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.unseen.layers import Attention, Residual, convolution


class Xception(nn.Module):
    """Separable convolutions with residuals (Chollet, 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 32, 3, 2), convolution(32, 64))
        self.skip = nn.Sequential(nn.Conv2d(64, 128, 1, 2, bias=False), nn.BatchNorm2d(128))
        self.down = nn.Sequential(
            self._separable(64, 128), nn.ReLU(), self._separable(128, 128), nn.MaxPool2d(3, 2, 1)
        )
        body = (nn.ReLU(), self._separable(128, 128), nn.ReLU(), self._separable(128, 128))
        self.middle = Residual(nn.Sequential(*body))
        self.head = nn.Linear(128, 1000)

    @staticmethod
    def _separable(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, inputs, 3, 1, 1, groups=inputs, bias=False),
            nn.Conv2d(inputs, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.middle(self.down(x) + self.skip(x))
        return self.head(functional.relu(x).mean((2, 3)))


class Ghost(nn.Module):
    """Cheap features beside those of a convolution (Han et al., 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = convolution(3, 16, 3, 2)
        self.main, self.cheap = convolution(16, 36, 1), convolution(36, 36, 3, groups=36)
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(72, 20, 1), nn.ReLU(), nn.Conv2d(20, 72, 1)
        )
        self.project = nn.Sequential(nn.Conv2d(72, 24, 1, bias=False), nn.BatchNorm2d(24))
        self.head = nn.Linear(24, 1000)

    def forward(self, x: Tensor) -> Tensor:
        main = self.main(self.stem(x))
        x = torch.cat((main, self.cheap(main)), 1)
        x = self.project(x * functional.hardsigmoid(self.squeeze(x)))
        return self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Cbam(nn.Module):
    """Attention to channels and to places (Woo et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.shared = nn.Sequential(nn.Conv2d(64, 4, 1), nn.ReLU(), nn.Conv2d(4, 64, 1))
        self.places = nn.Conv2d(2, 1, 7, padding=3)
        self.head = nn.Linear(64, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        mean = self.shared(functional.adaptive_avg_pool2d(x, 1))
        x = x * torch.sigmoid(mean + self.shared(functional.adaptive_max_pool2d(x, 1)))
        facts = torch.cat((x.mean(1, keepdim=True), x.amax(1, keepdim=True)), 1)
        return self.head((x * torch.sigmoid(self.places(facts))).mean((2, 3)))


class ConvMixer(nn.Module):
    """Depthwise and pointwise convolutions of patches (Trockman and Kolter, 2022)."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.patches = nn.Sequential(nn.Conv2d(3, width, 7, 7), nn.GELU(), nn.BatchNorm2d(width))
        depthwise = nn.Conv2d(width, width, 9, padding=4, groups=width)
        self.mix = Residual(nn.Sequential(depthwise, nn.GELU(), nn.BatchNorm2d(width)))
        self.point = nn.Sequential(nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width))
        self.head = nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.point(self.mix(self.patches(x))).mean((2, 3)))


class InceptionResidual(nn.Module):
    """Branches with a scaled residual (Szegedy et al., 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 32, 3, 2), convolution(32, 128, 3, 2))
        self.one = convolution(128, 32, 1)
        self.two = nn.Sequential(convolution(128, 32, 1), convolution(32, 48), convolution(48, 64))
        self.join, self.head = nn.Conv2d(96, 128, 1), nn.Linear(128, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.join(torch.cat((self.one(x), self.two(x)), 1))
        return self.head(functional.relu(x + 0.17 * y).mean((2, 3)))


class Pyramid(nn.Module):
    """Features of several sizes, fused by weights (BiFPN; Tan et al., 2020)."""

    def __init__(self) -> None:
        super().__init__()
        swish = nn.SiLU
        self.stem = convolution(3, 40, 3, 4, activation=swish())
        self.down = nn.ModuleList(convolution(40, 40, 3, 2, activation=swish()) for _ in range(2))
        self.weights = nn.Parameter(torch.rand(2, 2))
        self.fuse = nn.ModuleList(
            nn.Sequential(nn.Conv2d(40, 40, 3, 1, 1, groups=40), nn.Conv2d(40, 64, 1))
            for _ in range(2)
        )
        self.boxes = nn.Conv2d(64, 36, 3, 1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        levels = [self.stem(x)]
        for down in self.down:
            levels.append(down(levels[-1]))
        results: list[Tensor] = []
        for i, fuse in enumerate(self.fuse):
            weights = functional.relu(self.weights[i])
            weights = weights / (weights.sum() + 1e-4)
            above = functional.interpolate(levels[i + 1], scale_factor=2.0, mode="nearest")
            y = fuse(functional.silu(levels[i] * weights[0] + above * weights[1]))
            results.append(torch.sigmoid(self.boxes(y)))
        return tuple(results)


class Detr(nn.Module):
    """Queries that attend to an image (Carion et al., 2020)."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 64, 7, 4), convolution(64, width, 3, 4))
        self.encoder = nn.TransformerEncoderLayer(width, 8, 512, 0.0, batch_first=True)
        self.queries = nn.Parameter(torch.rand(1, 100, width))
        self.decoder = nn.TransformerDecoderLayer(width, 8, 512, 0.0, batch_first=True)
        self.classes, self.boxes = nn.Linear(width, 92), nn.Linear(width, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.encoder(self.stem(x).flatten(2).transpose(1, 2))
        y = self.decoder(self.queries, memory)
        return self.classes(y), self.boxes(y).sigmoid()


class MobileVit(nn.Module):
    """Convolutions around attention between patches (Mehta and Rastegari, 2022)."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        swish = nn.SiLU
        self.stem = nn.Sequential(
            convolution(3, 32, 3, 4, activation=swish()),
            convolution(32, 48, 3, 2, activation=swish()),
        )
        self.enter = nn.Sequential(convolution(48, 48, activation=swish()), nn.Conv2d(48, width, 1))
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, 4)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 192), nn.SiLU(), nn.Linear(192, width)
        )
        self.leave, self.head = convolution(width, 48, 1, activation=swish()), nn.Linear(96, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.enter(x)
        tokens = y.flatten(2).transpose(1, 2)
        tokens = tokens + self.attention(self.norm(tokens))
        tokens = tokens + self.mlp(tokens)
        y = self.leave(tokens.transpose(1, 2).reshape(y.shape))
        return self.head(torch.cat((x, y), 1).mean((2, 3)))


class GroupedShuffle(nn.Module):
    """Grouped convolutions and channel shuffles (ShuffleNet; Zhang et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1))
        self.grow = nn.Conv2d(24, 240, 1)
        self.first = convolution(240, 60, 1, groups=3)
        self.depthwise = nn.Conv2d(60, 60, 3, 1, 1, groups=60)
        self.second, self.head = nn.Conv2d(60, 240, 1, groups=3), nn.Linear(240, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.grow(self.stem(x))
        y = functional.channel_shuffle(self.first(x), 3)
        return self.head(functional.relu(x + self.second(self.depthwise(y))).mean((2, 3)))


class PoolFormer(nn.Module):
    """Pooling in place of attention, with group normalisation and layer scale (Yu et al., 2022)."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 7, 4, 2)
        self.norms = nn.ModuleList(nn.GroupNorm(1, width) for _ in range(2))
        self.scales = nn.Parameter(torch.rand(2, width, 1, 1))
        self.mlp = nn.Sequential(
            nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1)
        )
        self.pool, self.head = nn.AvgPool2d(3, 1, 1), nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x)
        y = self.norms[0](x)
        x = x + self.scales[0] * (self.pool(y) - y)
        x = x + self.scales[1] * self.mlp(self.norms[1](x))
        return self.head(x.mean((2, 3)))
