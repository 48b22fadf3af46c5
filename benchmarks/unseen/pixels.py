"""Networks whose results are images, fields or codes."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.unseen.layers import Attention, Residual, convolution


class SuperResolution(nn.Module):
    """The generator of SRGAN: PReLU and pixel shuffles (Ledig et al., 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 64, 9, padding=4), nn.PReLU())
        block = (
            *(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.PReLU()),
            *(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64)),
        )
        self.block = Residual(nn.Sequential(*block))
        self.grow = nn.Sequential(nn.Conv2d(64, 256, 3, padding=1), nn.PixelShuffle(2), nn.PReLU())
        self.last = nn.Conv2d(64, 3, 9, padding=4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return torch.tanh(self.last(self.grow(x + self.block(x))))


class Translation(nn.Module):
    """The generator of CycleGAN (Zhu et al., 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Sequential(
            *(nn.ReflectionPad2d(3), nn.Conv2d(3, 32, 7), nn.InstanceNorm2d(32), nn.ReLU()),
            *(nn.Conv2d(32, 64, 3, 2, 1), nn.InstanceNorm2d(64), nn.ReLU()),
        )
        branch = (nn.ReflectionPad2d(1), nn.Conv2d(64, 64, 3), nn.InstanceNorm2d(64))
        self.middle = Residual(nn.Sequential(*branch))
        self.leave = nn.Sequential(
            *(nn.ConvTranspose2d(64, 32, 3, 2, 1, 1), nn.InstanceNorm2d(32), nn.ReLU()),
            *(nn.ReflectionPad2d(3), nn.Conv2d(32, 3, 7), nn.Tanh()),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(self.middle(self.enter(x)))


class Diffusion(nn.Module):
    """A block of the network of latent diffusion, with time, text and attention."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.enter = nn.Conv2d(4, width, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(32, width) for _ in range(3))
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.own, self.cross = Attention(width, 4, bias=False), Attention(width, 4, bias=False)
        self.layer_norm = nn.LayerNorm(width)
        self.gate, self.out = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.leave = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        x = self.enter(x)
        y = self.first(functional.silu(self.norms[0](x)))
        y = y + self.time(time)[:, :, None, None]
        x = x + self.second(functional.silu(self.norms[1](y)))
        tokens = x.flatten(2).transpose(1, 2)
        tokens = tokens + self.own(self.layer_norm(tokens))
        tokens = tokens + self.cross(self.layer_norm(tokens), text)
        value, gate = self.gate(self.layer_norm(tokens)).chunk(2, -1)
        tokens = tokens + self.out(value * functional.gelu(gate))
        x = x + tokens.transpose(1, 2).reshape(x.shape)
        return self.leave(functional.silu(self.norms[2](x)))


class Radiance(nn.Module):
    """A radiance field with encoded places (NeRF; Mildenhall et al., 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.frequencies = nn.Buffer(2.0 ** torch.arange(6))
        self.first, self.second = nn.Linear(39, 128), nn.Linear(128 + 39, 128)
        self.density, self.color = nn.Linear(128, 1), nn.Linear(128, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        angles = (x[:, :, None] * self.frequencies).flatten(1)
        x = torch.cat((x, angles.sin(), angles.cos()), 1)
        y = functional.relu(self.first(x))
        y = functional.relu(self.second(torch.cat((y, x), 1)))
        return functional.softplus(self.density(y)), torch.sigmoid(self.color(y))


class Quantizer(nn.Module):
    """An encoder whose codes are the nearest of a table (VQ-VAE; van den Oord et al., 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 4, 2, 1), nn.ReLU()),
            Residual(
                nn.Sequential(nn.Conv2d(64, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 1))
            ),
        )
        self.table = nn.Parameter(torch.rand(512, 64))
        self.decoder = nn.Sequential(
            *(nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1))
        )

    def forward(self, x: Tensor) -> Tensor:
        z = self.encoder(x).permute(0, 2, 3, 1)
        rows = z.reshape(-1, 64)
        distances = rows.pow(2).sum(1, keepdim=True) + self.table.pow(2).sum(1)
        codes = (distances - 2 * rows @ self.table.t()).argmin(1)
        z = self.table[codes].reshape(z.shape).permute(0, 3, 1, 2)
        return self.decoder(z)


class Segmenter(nn.Module):
    """Features of two resolutions, fused in both directions (HRNet; Wang et al., 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = convolution(3, 32, 3, 2)
        self.down, self.high, self.low = (
            convolution(32, 64, 3, 2),
            Residual(convolution(32, 32)),
            Residual(convolution(64, 64)),
        )
        self.up, self.again = nn.Conv2d(64, 32, 1), nn.Conv2d(32, 64, 3, 2, 1)
        self.last = nn.Conv2d(96, 19, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        high, low = self.high(x), self.low(self.down(x))
        above = functional.interpolate(self.up(low), scale_factor=2.0, mode="bilinear")
        fused = functional.relu(high + above)
        low = functional.relu(low + self.again(high))
        grown = functional.interpolate(low, scale_factor=2.0, mode="bilinear")
        return self.last(torch.cat((fused, grown), 1))
