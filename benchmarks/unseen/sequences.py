"""Networks for text, sound and tables."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.unseen.layers import Attention, RmsNorm


class WaveNet(nn.Module):
    """Dilated convolutions with gates (van den Oord et al., 2016)."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.enter = nn.Conv1d(1, width, 1)
        self.filters, self.gates = (
            nn.ModuleList(nn.Conv1d(width, width, 2, dilation=2**i) for i in range(3))
            for _ in range(2)
        )
        self.skips = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(3))
        self.leave = nn.Conv1d(width, 256, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for i, (each, gate, skip) in enumerate(zip(self.filters, self.gates, self.skips)):
            padded = functional.pad(x, (2**i, 0))
            x = x + skip(torch.tanh(each(padded)) * torch.sigmoid(gate(padded)))
        return self.leave(functional.relu(x))


class Conformer(nn.Module):
    """Attention and a gated depthwise convolution (Gulati et al., 2020)."""

    def __init__(self, width: int = 144) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(width, 576), nn.SiLU(), nn.Linear(576, width))
        self.attention = Attention(width, 4)
        self.enter = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, 31, padding=15, groups=width)
        self.batch, self.leave = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.mlp(self.norms[0](x))
        x = x + self.attention(self.norms[1](x))
        y = functional.glu(self.enter(self.norms[2](x).transpose(1, 2)), 1)
        y = self.leave(functional.silu(self.batch(self.depthwise(y))))
        return self.norms[3](x + y.transpose(1, 2))


class SpeechFeatures(nn.Module):
    """The feature encoder of wav2vec 2.0 (Baevski et al., 2020)."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv1d(1, width, 10, 5, bias=False), nn.GroupNorm(width, width)
        self.others = nn.ModuleList(nn.Conv1d(width, width, k, 2, bias=False) for k in (3, 3, 2))
        self.layer_norm, self.project = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.gelu(self.norm(self.first(x)))
        for each in self.others:
            x = functional.gelu(each(x))
        return self.project(self.layer_norm(x.transpose(1, 2)))


class Tagger(nn.Module):
    """A bidirectional LSTM over words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(2000, 96)
        self.lstm = nn.LSTM(96, 80, 2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(160, 17)

    def forward(self, ids: Tensor) -> Tensor:
        return functional.log_softmax(self.tags(self.lstm(self.words(ids))[0]), -1)


class Gemma(nn.Module):
    """Normalisation with 1 + weight, and gates by GELU (Gemma Team, 2024)."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.tokens = nn.Embedding(2000, width)
        self.norms = nn.ModuleList(RmsNorm(width, 1.0) for _ in range(3))
        self.attention = Attention(width, 4, causal=True, bias=False)
        self.gate, self.up = (nn.Linear(width, 1024, bias=False) for _ in range(2))
        self.down, self.head = (
            nn.Linear(1024, width, bias=False),
            nn.Linear(width, 2000, bias=False),
        )

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) * 16.0
        x = x + self.attention(self.norms[0](x))
        y = self.norms[1](x)
        x = x + self.down(functional.gelu(self.gate(y), approximate="tanh") * self.up(y))
        return 30.0 * torch.tanh(self.head(self.norms[2](x)) / 30.0)


class Parallel(nn.Module):
    """Attention and a perceptron side by side (GPT-NeoX; Black et al., 2022)."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.tokens, self.norms = (
            nn.Embedding(2000, width),
            nn.ModuleList(nn.LayerNorm(width) for _ in range(3)),
        )
        self.attention = Attention(width, 4, causal=True)
        self.up, self.down = nn.Linear(width, 1024), nn.Linear(1024, width)
        self.head = nn.Linear(width, 2000, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        y = self.down(functional.gelu(self.up(self.norms[1](x))))
        return self.head(self.norms[2](x + self.attention(self.norms[0](x)) + y))


class Recommender(nn.Module):
    """Products of embedded features (DLRM; Naumov et al., 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(500, 32) for _ in range(4))
        self.dense = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(57, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())

    def forward(self, numbers: Tensor, ids: Tensor) -> Tensor:
        x = self.dense(numbers)
        features = torch.stack([x, *(table(ids[:, i]) for i, table in enumerate(self.tables))], 1)
        products = features @ features.transpose(1, 2)
        return self.top(torch.cat((x, products.flatten(1)), 1))


class GraphAttention(nn.Module):
    """Attention along the edges of a graph (Velickovic et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(64, 32, bias=False)
        self.source, self.target = nn.Linear(32, 1), nn.Linear(32, 1)
        self.head = nn.Linear(32, 7)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        h = self.project(x)
        scores = functional.leaky_relu(self.source(h) + self.target(h).transpose(0, 1), 0.2)
        scores = torch.softmax(torch.where(edges > 0, scores, -1e9), 1)
        return self.head(functional.elu(scores @ h))


class Forecast(nn.Module):
    """A GRU over measurements, normalised by their mean and deviation."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 64, batch_first=True)
        self.head = nn.Sequential(nn.Linear(64, 48), nn.Mish(), nn.Linear(48, 24))

    def forward(self, x: Tensor) -> Tensor:
        mean, deviation = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5
        return self.head(self.gru((x - mean) / deviation)[0][:, -1])


class Tables(nn.Module):
    """Attention between columns of a table (Gorishniy et al., 2021)."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.weights, self.offsets = (nn.Parameter(torch.rand(20, width)) for _ in range(2))
        self.attention, self.norms = (
            Attention(width, 8),
            nn.ModuleList(nn.LayerNorm(width) for _ in range(3)),
        )
        self.enter, self.leave = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, numbers: Tensor) -> Tensor:
        x = numbers[:, :, None] * self.weights + self.offsets
        x = x + self.attention(self.norms[0](x))
        value, gate = self.enter(self.norms[1](x)).chunk(2, -1)
        x = x + self.leave(value * functional.relu(gate))
        return self.head(functional.relu(self.norms[2](x)[:, 0]))
