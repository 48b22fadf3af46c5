"""Recurrent and convolutional networks for sequences."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from benchmarks.pytorch_onnx.network import Extents, Network, entry, randomise


class CausalBlock(nn.Module):
    """Two dilated causal convolutions with normalised weights, and a residual."""

    def __init__(self, inputs: int, outputs: int, size: int, dilation: int) -> None:
        super().__init__()
        self.padding = (size - 1) * dilation
        self.first = self._convolution(inputs, outputs, size, dilation)
        self.second = self._convolution(outputs, outputs, size, dilation)
        self.skip = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else None

    def _convolution(self, inputs: int, outputs: int, size: int, dilation: int) -> nn.Module:
        layer = nn.Conv1d(inputs, outputs, size, padding=self.padding, dilation=dilation)
        return parametrizations.weight_norm(layer)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.first(x)[..., : -self.padding])
        y = functional.relu(self.second(y)[..., : -self.padding])
        return functional.relu(y + (x if self.skip is None else self.skip(x)))


class Tcn(nn.Module):
    """A temporal convolutional network (Bai et al., 2018)."""

    def __init__(self, inputs: int, width: int, blocks: int, size: int, classes: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(CausalBlock(width if i else inputs, width, size, 2**i) for i in range(blocks))
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(x)[..., -1])


class Recurrent(nn.Module):
    """A recurrent layer in both directions, then one forwards; returns its last states, too."""

    def __init__(self, layer: type[nn.LSTM | nn.GRU], inputs: int, width: int) -> None:
        super().__init__()
        self.both = layer(inputs, width, batch_first=True, bidirectional=True)
        self.forwards = layer(2 * width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y, _ = self.both(x)
        y, state = self.forwards(y)
        states = state if isinstance(state, tuple) else (state,)
        return self.head(y), *states


@entry("tcn", "TCN")
def tcn(small: bool) -> Network:
    module = Tcn(4, 8, 3, 3, 10) if small else Tcn(64, 128, 8, 7, 10)

    def inputs(extents: Extents) -> dict[str, Tensor]:
        return {"x": torch.randn(extents["batch"], 4 if small else 64, extents["steps"])}

    steps = 30 if small else 512
    return Network(
        randomise(module),
        inputs,
        ("y",),
        {"x": {0: "batch", 2: "steps"}},
        {"batch": 2, "steps": steps},
        {"batch": 3, "steps": steps + 7},
    )


def _recurrent(layer: type[nn.LSTM | nn.GRU], small: bool) -> Network:
    width, steps = (8, 9) if small else (256, 200)

    def inputs(extents: Extents) -> dict[str, Tensor]:
        return {"x": torch.randn(extents["batch"], extents["steps"], width)}

    outputs = ("y", "state", "cell") if layer is nn.LSTM else ("y", "state")
    return Network(
        randomise(Recurrent(layer, width, width)),
        inputs,
        outputs,
        {"x": {0: "batch", 1: "steps"}},
        {"batch": 2, "steps": steps},
        {"batch": 3, "steps": steps + 4},
        frozenset({"steps"}),
    )


@entry("lstm", "LSTM")
def lstm(small: bool) -> Network:
    return _recurrent(nn.LSTM, small)


@entry("gru", "GRU")
def gru(small: bool) -> Network:
    return _recurrent(nn.GRU, small)
