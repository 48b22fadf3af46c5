"""Cases of small transformers and recurrent networks, and of spectrograms."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.helpers.pytorch.cases import Case, Function, random, statistics, whole


class Attention(nn.Module):
    """Attention written with matrix products and softmax, as in many models."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(c // self.heads)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))


class ViT(nn.Module):
    """A vision transformer with PyTorch's encoder layer (`own`) or with `Attention`."""

    def __init__(self, *, own: bool = True) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.positions = nn.Parameter(torch.randn(1, 17, 32) * 0.1)
        if own:
            layer = nn.TransformerEncoderLayer(
                32, 4, 64, activation="gelu", batch_first=True, norm_first=True
            )
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        else:
            self.layers = Attention(32, 4)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.positions
        return self.head(self.layers(x)[:, 0])


class Bert(nn.Module):
    """A text encoder that attends to tokens whose `mask` is 1."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.words, self.positions = nn.Embedding(50, width), nn.Embedding(64, width)
        self.types = nn.Embedding(2, width)
        self.norm, self.q = nn.LayerNorm(width, eps=1e-12), nn.Linear(width, width)
        self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 64), nn.Linear(64, width)
        self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.pool, self.head = nn.Linear(width, width), nn.Linear(width, 3)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(ids.size(1)).unsqueeze(0)
        x = self.words(ids) + self.positions(places) + self.types(torch.zeros_like(ids))
        x = self.norm(x)
        added = (1.0 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        added = added.expand(-1, -1, ids.size(1), -1)
        y = F.scaled_dot_product_attention(
            self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x)), attn_mask=added
        )
        x = self.norm2(x + self.o(y.transpose(1, 2).reshape(x.shape)))
        x = self.norm3(x + self.down(F.gelu(self.up(x))))
        return self.head(torch.tanh(self.pool(x[:, 0]))), x


class RMSNorm(nn.Module):
    """Llama's normalisation: division by the root mean square, in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = x.to(torch.float32)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


def turned(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Llama(nn.Module):
    """A decoder layer with rotary positions, grouped key heads, and a cache as input."""

    inverse: Tensor

    def __init__(self, *, grouped: bool = False, added: bool = False) -> None:
        super().__init__()
        width, self.size = 32, 8
        self.grouped, self.added = grouped, added
        self.words = nn.Embedding(40, width)
        self.q, self.k = nn.Linear(width, 32, bias=False), nn.Linear(width, 16, bias=False)
        self.v, self.o = nn.Linear(width, 16, bias=False), nn.Linear(32, width, bias=False)
        self.gate, self.up = nn.Linear(width, 48, bias=False), nn.Linear(width, 48, bias=False)
        self.down = nn.Linear(48, width, bias=False)
        self.first, self.second, self.last = RMSNorm(width), RMSNorm(width), RMSNorm(width)
        inverse = 1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8))
        self.register_buffer("inverse", inverse)

    def forward(self, ids: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.words(ids)
        b, s, past = ids.shape[0], ids.shape[1], keys.shape[2]
        y = self.first(x)
        q = self.q(y).view(b, s, 4, self.size).transpose(1, 2)
        k = self.k(y).view(b, s, 2, self.size).transpose(1, 2)
        v = self.v(y).view(b, s, 2, self.size).transpose(1, 2)
        places = torch.arange(past, past + s)
        angles = places[:, None].float() * self.inverse[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos()[None, None], angles.sin()[None, None]
        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        k, v = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        later = torch.arange(past + s)[None, :] > places[:, None]
        mask = torch.zeros(s, past + s).masked_fill(later, -1e9) if self.added else ~later
        if self.grouped:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        else:
            shape = (b, 2, 2, past + s, self.size)
            wide = [t[:, :, None].expand(shape).reshape(b, 4, past + s, self.size) for t in (k, v)]
            y = F.scaled_dot_product_attention(q, *wide, attn_mask=mask)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, 32))
        y = self.second(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return F.linear(self.last(x), self.words.weight), k, v


class Multihead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x, x, x)


class Conformer(nn.Module):
    """The convolution module of a conformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.widen = nn.LayerNorm(16), nn.Conv1d(16, 32, 1)
        self.depthwise = nn.Conv1d(16, 16, 5, padding=2, groups=16)
        self.batch = statistics(nn.BatchNorm1d(16))
        self.narrow = nn.Conv1d(16, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.glu(self.widen(self.norm(x).transpose(1, 2)), dim=1)
        return x + self.narrow(F.silu(self.batch(self.depthwise(y)))).transpose(1, 2)


class Recurrent(nn.Module):
    """A recurrent layer; with `state`, it also returns its last state."""

    def __init__(self, layer: nn.Module, *, state: bool = False) -> None:
        super().__init__()
        self.layer = layer
        self.state = state

    def forward(self, x: Tensor) -> Any:
        y, state = self.layer(x)
        return (y, state) if self.state else y


class Streaming(nn.Module):
    """A recurrent layer whose initial state is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.lstm(x, (h, c))
        return self.head(y), h, c


class LSTMCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(6, 8)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return self.cell(x, (h, c))


class LogMel(nn.Module):
    """A log-mel spectrogram."""

    window: Tensor
    filters: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.register_buffer("filters", torch.rand(10, 17))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.stft(x, 32, 16, window=self.window, return_complex=True)
        power = torch.view_as_real(spectrum).pow(2).sum(-1)
        return torch.log(torch.matmul(self.filters, power) + 1e-6)


class Swin(nn.Module):
    """Shifted-window attention of a Swin transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        x = torch.roll(x, (-2, -2), (1, 2))
        x = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        x = self.attention(x).view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5)
        return torch.roll(x.reshape(b, h, w, c), (2, 2), (1, 2))


def transformers() -> Iterator[Case]:
    x = random(1, 3, 16, 16)
    more = ((random(3, 3, 16, 16),),)
    ids, mask = whole(2, 9, below=50), torch.arange(9)[None, :] < torch.tensor([[9], [4]])
    mask = mask.long()
    dynamic = {0: {1: "S"}, 1: {1: "S"}}
    longer = ((whole(2, 13, below=50), torch.ones(2, 13).long()), (ids[:, :1], mask[:, :1]))
    fragment = {"reify_sdpa_operator": False}
    yield Case("vit", ViT, (x,))
    yield Case("vit-batch", ViT, (x,), more, {0: {0: "B"}})
    yield Case("vit-by_hand", lambda: ViT(own=False), (x,))
    yield Case("vit-by_hand-batch", lambda: ViT(own=False), (x,), more, {0: {0: "B"}})
    yield Case("vit-fragment", ViT, (x,), options=fragment)
    yield Case("bert", Bert, (ids, mask))
    yield Case("bert-length", Bert, (ids, mask), longer, dynamic)
    both = {i: {0: "B", 1: "S"} for i in range(2)}
    batch = (whole(3, 5, below=50), torch.ones(3, 5).long())
    yield Case("bert-batch-length", Bert, (ids, mask), (*longer, batch), both)
    yield Case("bert-fragment", Bert, (ids, mask), longer, dynamic, fragment)
    steps = {0: {1: "S"}, 1: {2: "P"}, 2: {2: "P"}}
    cache = random(1, 2, 4, 8), random(1, 2, 4, 8, seed=1)
    one = (whole(1, 1), random(1, 2, 7, 8), random(1, 2, 7, 8, seed=1))
    for name, make, options in (
        ("llama", Llama, None),
        ("llama-fragment", lambda: Llama(added=True), fragment),
        ("llama-added", lambda: Llama(added=True), None),
        ("llama-grouped", lambda: Llama(grouped=True), None),
    ):
        yield Case(name, make, (whole(1, 3, below=40), *cache), options=options)
        yield Case(f"{name}-length", make, (whole(1, 3, below=40), *cache), (one,), steps, options)
    half = random(1, 5, 16).half()
    yield Case("attention-f16", lambda: Attention(16, 2).half(), (half,), tolerance=5e-3)
    yield Case("swin", Swin, (random(1, 8, 8, 16),))
    yield Case("multihead", Multihead, (random(1, 5, 16),))
    decoder = lambda: nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)  # noqa: E731
    yield Case("decoder", decoder, (random(1, 5, 16), random(1, 7, 16)))
    yield Case("conformer", Conformer, (random(1, 9, 16),))
    yield Case(
        "conformer-length", Conformer, (random(1, 9, 16),), ((random(1, 14, 16),),), {0: {1: "S"}}
    )


def recurrent() -> Iterator[Case]:
    x = random(2, 5, 6)
    lengths = ((random(2, 9, 6),), (random(2, 1, 6),))
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        name = kind.__name__.lower()
        for more, options in (
            ("", {}),
            ("-bidirectional", {"bidirectional": True}),
            ("-two", {"num_layers": 2}),
            ("-two-bidirectional", {"num_layers": 2, "bidirectional": True}),
            ("-plain", {"bias": False}),
        ):
            make = lambda k=kind, o=options: Recurrent(k(6, 8, batch_first=True, **o), state=True)  # noqa: E731
            yield Case(name + more, make, (x,))
        make = lambda k=kind: Recurrent(k(6, 8, batch_first=True))  # noqa: E731
        yield Case(f"{name}-length", make, (x,), lengths, {0: {1: "S"}})
        yield Case(f"{name}-time_first", lambda k=kind: Recurrent(k(6, 8)), (x,))
    projected = lambda: Recurrent(nn.LSTM(6, 8, batch_first=True, proj_size=3), state=True)  # noqa: E731
    yield Case("lstm-projected", projected, (x,))
    relu = lambda: Recurrent(nn.RNN(6, 8, nonlinearity="relu", batch_first=True))  # noqa: E731
    yield Case("rnn-relu", relu, (x,))
    h = random(1, 2, 8)
    yield Case("streaming", Streaming, (x, h, h * 0.5))
    yield Case(
        "streaming-length", Streaming, (x, h, h * 0.5), ((random(2, 1, 6), h, h),), {0: {1: "S"}}
    )
    cell = random(2, 8)
    yield Case("lstm_cell", LSTMCell, (x[:, 0], cell, cell * 0.5))
    yield Case("gru_cell", lambda: nn.GRUCell(6, 8), (x[:, 0], cell))
    yield Case("rnn_cell", lambda: nn.RNNCell(6, 8), (x[:, 0], cell))
    yield Case("logmel", LogMel, (random(1, 160),))
    yield Case("cumulative", lambda: Function(lambda a: a.cumsum(1)), (x,), lengths, {0: {1: "S"}})


def cases() -> Iterator[Case]:
    yield from transformers()
    yield from recurrent()
