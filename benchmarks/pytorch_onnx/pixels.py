"""Networks whose results are pictures."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.pytorch_onnx.layers import Attention, convolution
from benchmarks.pytorch_onnx.network import Extents, Network, entry, of_images, randomise


class UNet(nn.Module):
    """U-Net with transposed convolutions (Ronneberger et al., 2015)."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(levels)]
        self.down = nn.ModuleList(
            self._pair(widths[i - 1] if i else 3, widths[i]) for i in range(levels)
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(widths[i + 1], widths[i], 2, 2) for i in range(levels - 1)
        )
        self.merge = nn.ModuleList(self._pair(2 * widths[i], widths[i]) for i in range(levels - 1))
        self.head = nn.Conv2d(width, 2, 1)

    @staticmethod
    def _pair(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            convolution(inputs, outputs, activation=nn.ReLU),
            convolution(outputs, outputs, activation=nn.ReLU),
        )

    def forward(self, x: Tensor) -> Tensor:
        skips: list[Tensor] = []
        for down in self.down:
            x = down(functional.max_pool2d(x, 2) if skips else x)
            skips.append(x)
        for i in reversed(range(len(self.up))):
            x = self.merge[i](torch.cat((skips[i], self.up[i](x)), 1))
        return self.head(x)


@entry("unet", "U-Net")
def unet(small: bool) -> Network:
    return of_images(UNet(8, 3), 32) if small else of_images(UNet(32, 5), 256)


class SuperResolution(nn.Module):
    """EDSR: scaled residuals, then pixel shuffles (Lim et al., 2017)."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1),
            )
            for _ in range(blocks)
        )
        grow = (nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2))
        more = (nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2))
        self.grow = nn.Sequential(*grow, *more, nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        x = y = self.first(x)
        for block in self.blocks:
            y = y + 0.1 * block(y)
        return self.grow(x + y)


@entry("super_resolution", "super-resolution")
def super_resolution(small: bool) -> Network:
    return of_images(SuperResolution(8, 2), 12) if small else of_images(SuperResolution(64, 8), 64)


class TimedBlock(nn.Module):
    """Two convolutions after group normalisation; a time step is added between them."""

    def __init__(self, inputs: int, outputs: int, time: int, groups: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, inputs), nn.GroupNorm(groups, outputs)
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.first(functional.silu(self.norm1(x)))
        y = y + self.time(functional.silu(time))[:, :, None, None]
        return self.skip(x) + self.second(functional.silu(self.norm2(y)))


class SpatialTransformer(nn.Module):
    """Attention between pixels and to the text, then a gated product, as a residual."""

    def __init__(self, width: int, heads: int, context: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, width, 1e-6)
        self.enter, self.leave = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, heads), Attention(width, heads, context)
        self.gate, self.result = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        batch, width, height, columns = x.shape
        y = self.enter(self.norm(x))
        y = y.permute(0, 2, 3, 1).reshape(batch, height * columns, width)
        y = y + self.own(self.norms[0](y))
        y = y + self.cross(self.norms[1](y), text)
        value, gate = self.gate(self.norms[2](y)).chunk(2, -1)
        y = y + self.result(value * functional.gelu(gate))
        y = y.reshape(batch, height, columns, width).permute(0, 3, 1, 2).contiguous()
        return x + self.leave(y)


class Diffusion(nn.Module):
    """Blocks down, between and up of the U-Net of latent diffusion (Rombach et al., 2022)."""

    def __init__(self, width: int, heads: int, context: int, groups: int) -> None:
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(4, width, 3, padding=1)
        self.down = TimedBlock(width, width, time, groups)
        self.down_attention = SpatialTransformer(width, heads, context, groups)
        self.shrink = nn.Conv2d(width, width, 3, 2, 1)
        self.middle = TimedBlock(width, 2 * width, time, groups)
        self.middle_attention = SpatialTransformer(2 * width, heads, context, groups)
        self.grow = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.up = TimedBlock(3 * width, width, time, groups)
        self.up_attention = SpatialTransformer(width, heads, context, groups)
        self.norm = nn.GroupNorm(groups, width)
        self.leave = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x: Tensor, step: Tensor, text: Tensor) -> Tensor:
        half = self.width // 2
        rates = torch.exp(torch.arange(half, dtype=torch.float32) * (-math.log(10000) / half))
        angles = step.float()[:, None] * rates
        time = self.time(torch.cat((angles.cos(), angles.sin()), -1))
        x = self.enter(x)
        x = skip = self.down_attention(self.down(x, time), text)
        x = self.middle_attention(self.middle(self.shrink(x), time), text)
        x = self.grow(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        x = self.up_attention(self.up(torch.cat((x, skip), 1), time), text)
        return self.leave(functional.silu(self.norm(x)))


@entry("diffusion", "stable-diffusion U-Net block")
def diffusion(small: bool) -> Network:
    size, context, tokens = (8, 12, 6) if small else (64, 768, 77)
    module = Diffusion(16, 2, context, 4) if small else Diffusion(320, 8, context, 32)

    def inputs(extents: Extents) -> dict[str, Tensor]:
        batch = extents["batch"]
        return {
            "x": torch.randn(batch, 4, size, size),
            "step": torch.randint(1000, (batch,)),
            "text": torch.randn(batch, tokens, context),
        }

    axes = {name: {0: "batch"} for name in ("x", "step", "text")}
    extents, others = {"batch": 2}, {"batch": 1}
    return Network(randomise(module), inputs, ("y",), axes, extents, others)
