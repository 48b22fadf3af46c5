"""Cases of patterns from well-known models, each in a few lines."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.helpers.pytorch.cases import Case, Function, random, whole


class GPT(nn.Module):
    """A causal block whose mask is a slice of a buffer; returns the scores of the last token."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30, 16), nn.Embedding(32, 16)
        self.norm, self.attend, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.register_buffer("mask", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32))

    def forward(self, ids: Tensor) -> Tensor:
        b, s = ids.shape
        x = self.words(ids) + self.places(torch.arange(s))
        q, k, v = (
            t.view(b, s, 4, 4).transpose(1, 2) for t in self.attend(self.norm(x)).split(16, dim=2)
        )
        scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(4))
        scores = scores.masked_fill(self.mask[:, :, :s, :s] == 0, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(b, s, 16)
        return (x + self.out(y))[:, -1:] @ self.words.weight.t()


class T5(nn.Module):
    """T5's attention, with relative position biases in logarithmic buckets."""

    def __init__(self) -> None:
        super().__init__()
        self.bias, self.qkv = nn.Embedding(8, 2), nn.Linear(8, 24, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        places = torch.arange(n)
        far = places[None, :] - places[:, None]
        side, far = (far > 0).long() * 4, far.abs()
        wide = 2 + (torch.log(far.float() / 2 + 1e-6) / math.log(8 / 2) * 2).long()
        bucket = side + torch.where(far < 2, far, wide.clamp(max=3))
        bias = self.bias(bucket).permute(2, 0, 1).unsqueeze(0)
        q, k, v = self.qkv(x).view(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return ((q @ k.transpose(-1, -2) + bias).softmax(-1) @ v).transpose(1, 2).reshape(b, n, c)


class Interleaved(nn.Module):
    """Rotary embedding of adjacent pairs."""

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1]).float()[:, None] * torch.tensor([1.0, 0.1, 0.01])
        even, odd = x[..., 0::2], x[..., 1::2]
        cos, sin = angles.cos(), angles.sin()
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class Mixture(nn.Module):
    """A mixture of experts: each token uses the best two of four."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.up, self.down = (
            nn.Parameter(torch.randn(4, 8, 16)),
            nn.Parameter(torch.randn(4, 16, 8)),
        )

    def forward(self, x: Tensor) -> Tensor:
        scores, chosen = self.gate(x).softmax(-1).topk(2, dim=-1)
        weights = torch.zeros(*x.shape[:-1], 4).scatter(-1, chosen, scores / scores.sum(-1, True))
        y = torch.einsum("bsd,edh->besh", x, self.up).relu()
        return torch.einsum("besh,ehd,bse->bsd", y, self.down, weights)


def experts(activation: str, *, normalized: bool) -> nn.Module:
    """A mixture of experts that exports as a single operator."""
    from torch_to_nnef.op.custom_extractors.moe import MoEFFN

    return MoEFFN(6, 8, 16, 2, activation, normalized)


class Packed(nn.Module):
    """Causal attention within packed sequences; position 0 begins a sequence."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        sequence = (positions == 0).cumsum(1)
        same = sequence[:, None, :, None] == sequence[:, None, None, :]
        causal = torch.ones(x.size(1), x.size(1)).tril() > 0
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        scores = heads @ heads.mT
        scores = scores.masked_fill(~(same & causal), -float("inf"))
        return (scores.softmax(-1) @ heads).transpose(1, 2).flatten(2)


class Padded(nn.Module):
    """Attention with a padding mask shared by all queries."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        mask = keep[:, None, None, :] > 0
        y = nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)
        return y.transpose(1, 2).flatten(2)


class Future(nn.Module):
    """Attention with a causal mask that is created for each text length."""

    def forward(self, x: Tensor) -> Tensor:
        count = x.size(1)
        mask = torch.zeros(count, count).float().fill_(-torch.inf).triu(1)
        return (x @ x.mT + mask).softmax(-1) @ x


class Newest(nn.Module):
    """The scores of the last `count` tokens; `count` is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 11)

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        y = self.head(x)
        start: Any = x.shape[1] - count
        return y.index_select(1, torch.arange(start, x.shape[1]))


class CausalConvolution(nn.Module):
    """A streaming convolution: it takes and returns the last samples."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 6, 3, dilation=2)

    def forward(self, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.cat((before, x), -1)
        return self.conv(x), x[..., -4:]


class Yolo(nn.Module):
    """Two joined scales, and boxes decoded on a grid."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)
        self.head = nn.Conv2d(16, 2 * 7, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = F.silu(self.first(x))
        b = F.interpolate(F.silu(self.second(a)), scale_factor=2.0, mode="nearest")
        y = self.head(torch.cat((a, b), 1))
        b, _, h, w = y.shape
        y = y.view(b, 2, 7, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        rows, columns = torch.arange(h)[:, None].expand(h, w), torch.arange(w)[None].expand(h, w)
        grid = torch.stack((columns, rows), -1).float()
        xy, wh, rest = y.split((2, 2, 3), -1)
        return torch.cat(((xy * 2 - 0.5 + grid) * 4, (wh * 2) ** 2, rest), -1).view(b, -1, 7)


class Decoder(nn.Module):
    """The last layers of a variational autoencoder."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3, padding=1)
        self.out = nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.conv(F.silu(self.norm(x)))
        return torch.tanh(self.out(F.interpolate(y, scale_factor=2.0, mode="nearest")))


class StateSpace(nn.Module):
    """A selective scan, unrolled over time."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = nn.Parameter(-torch.rand(6, 4))
        self.project = nn.Linear(6, 6 + 4 + 4)

    def forward(self, x: Tensor) -> Tensor:
        steps, b, c = self.project(x).split((6, 4, 4), -1)
        steps = F.softplus(steps)
        state, found = torch.zeros(x.shape[0], 6, 4), []
        for t in range(x.shape[1]):
            decay = torch.exp(steps[:, t, :, None] * self.rates)
            state = decay * state + steps[:, t, :, None] * b[:, t, None] * x[:, t, :, None]
            found.append((state * c[:, t, None]).sum(-1))
        return torch.stack(found, 1)


class Points(nn.Module):
    """A point cloud network: layers per point, then the maximum over all points."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x).max(dim=2)[0])


class Graph(nn.Module):
    """A graph convolution by a normalised adjacency matrix."""

    loops: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 4)
        self.register_buffer("loops", torch.eye(6))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        edges = edges + self.loops
        scale = edges.sum(1).rsqrt()
        return F.elu(scale[:, None] * edges * scale[None, :] @ self.linear(x))


class Masked(nn.Module):
    """PyTorch's attention with a padding mask, and the mean over tokens that are not padding."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: Tensor, absent: Tensor) -> Tensor:
        y, _ = self.attention(x, x, x, key_padding_mask=absent, need_weights=False)
        here = (~absent).unsqueeze(-1).float()
        return (y * here).sum(1) / here.sum(1)


def cases() -> Iterator[Case]:
    ids, x = whole(2, 6, below=30), random(2, 6, 8)
    length = {0: {1: "S"}}
    yield Case("gpt", GPT, (ids,))
    yield Case("gpt-length", GPT, (ids,), ((ids[:, :4],), (ids.repeat(1, 3),)), length)
    yield Case("t5", T5, (x,))
    yield Case("t5-length", T5, (x,), ((x.repeat(1, 2, 1),),), length)
    yield Case("rotary-interleaved", Interleaved, (random(2, 5, 6),))
    yield Case("mixture", Mixture, (x,))
    tokens, newer = random(7, 8), {"version": "0.23.9"}
    for name in ("silu", "gelu", "relu"):
        yield Case(
            f"experts-{name}", lambda name=name: experts(name, normalized=name != "relu"),
            (tokens,), ((tokens[:1],), (tokens.repeat(3, 1),)), {0: {0: "S"}}, newer,
        )  # fmt: skip
    more = ((x, torch.tensor(6)), (x.repeat(1, 2, 1), torch.tensor(3)))
    yield Case("newest", Newest, (x, torch.tensor(1)), more, {0: {1: "S"}})
    keep = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    more = ((x[:1, :3], keep[:1, :3]), (x.repeat(1, 2, 1), keep.repeat(1, 2)))
    yield Case("padded", Padded, (x, keep), more, {0: {0: "B", 1: "S"}, 1: {0: "B", 1: "S"}})
    more = ((x[:1, :3],), (x.repeat(1, 2, 1),))
    yield Case("future", Future, (x,), more, {0: {0: "B", 1: "S"}})
    turned = (lambda: Function(lambda x: x.roll(1, 2) + x.roll(-2, -1)), (random(2, 5, 6),))
    yield Case("rolled", *turned, ((random(1, 9, 6),),), {0: {0: "B", 1: "S"}})
    places = torch.tensor([[0, 1, 2, 3, 4, 5], [0, 1, 0, 1, 2, 0]])
    longer = (x.repeat(1, 2, 1), places.repeat(1, 2))
    both = {0: {1: "S"}, 1: {1: "S"}}
    yield Case("packed", Packed, (x, places), (longer,), both)
    yield Case("causal_convolution", CausalConvolution, (random(1, 4, 5), random(1, 4, 4)))
    yield Case(
        "causal_convolution-length", CausalConvolution, (random(1, 4, 5), random(1, 4, 4)),
        ((random(1, 4, 1), random(1, 4, 4)),), {0: {2: "S"}},
    )  # fmt: skip
    yield Case("yolo", Yolo, (random(1, 3, 16, 24),))
    size = {0: {2: "H", 3: "W"}}
    yield Case("yolo-size", Yolo, (random(1, 3, 16, 24),), ((random(1, 3, 8, 32),),), size)
    yield Case("autoencoder", Decoder, (random(1, 8, 5, 6),))
    yield Case("state_space", StateSpace, (random(2, 5, 6),))
    yield Case("points", Points, (random(2, 3, 20),))
    yield Case("points-count", Points, (random(2, 3, 20),), ((random(2, 3, 33),),), {0: {2: "P"}})
    yield Case("graph", Graph, (random(6, 5), (random(6, 6) > 0).float()))
    absent = torch.arange(6)[None, :] >= torch.tensor([[6], [3]])
    yield Case("masked", Masked, (random(2, 6, 16), absent))
    for name, layer in (
        ("encoder_layer", nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)),
        ("transformer", nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32), 2, enable_nested_tensor=False)),
    ):  # fmt: skip
        yield Case(name, lambda layer=layer: layer, (random(2, 6, 16),))
