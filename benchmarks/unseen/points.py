"""Networks for poses, clouds of points, depth, and lines of text."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.unseen.layers import Residual, convolution


class Pose(nn.Module):
    """Heat maps of joints by deconvolutions behind a residual network (Xiao et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.body = Residual(nn.Sequential(convolution(64, 64), convolution(64, 64)))
        self.down = convolution(64, 128, 3, 2)
        layers: list[nn.Module] = []
        for inputs in (128, 64):
            layers += [
                nn.ConvTranspose2d(inputs, 64, 4, 2, 1, bias=False),
                nn.BatchNorm2d(64),
                nn.ReLU(),
            ]
        self.up, self.maps = nn.Sequential(*layers), nn.Conv2d(64, 17, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.maps(self.up(self.down(self.body(self.stem(x)))))


class Cloud(nn.Module):
    """A class for a set of points, the maximum over them (PointNet, Qi et al., 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(
            *(self._layer(a, b) for a, b in ((3, 64), (64, 64), (64, 128), (128, 512)))
        )
        self.head = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 40))

    @staticmethod
    def _layer(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return functional.log_softmax(self.head(self.points(x).amax(2)), 1)


class Depth(nn.Module):
    """Depth of an image, with reflected borders and exponential units (Godard et al., 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = convolution(3, 32, 7, 2), convolution(32, 64, 3, 2)
        self.wide, self.narrow, self.last = (
            nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(inputs, outputs, 3), activation)
            for inputs, outputs, activation in (
                (96, 32, nn.ELU()),
                (32, 16, nn.ELU()),
                (16, 1, nn.Sigmoid()),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        half = self.first(x)
        x = functional.interpolate(self.second(half), scale_factor=2.0, mode="nearest")
        x = self.wide(torch.cat((x, half), 1))
        x = self.narrow(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return 1 / (0.01 + 10 * self.last(x))


class Reader(nn.Module):
    """Letters of a line of text by convolutions and an LSTM (CRNN, Shi et al., 2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            convolution(1, 32),
            nn.MaxPool2d(2),
            convolution(32, 64),
            nn.MaxPool2d((2, 1)),
            convolution(64, 128),
            nn.MaxPool2d((8, 1)),
        )
        self.lstm = nn.LSTM(128, 96, bidirectional=True, batch_first=True)
        self.head = nn.Linear(192, 80)

    def forward(self, x: Tensor) -> Tensor:
        columns = self.features(x).squeeze(2).transpose(1, 2)
        return functional.log_softmax(self.head(self.lstm(columns)[0]), 2)
