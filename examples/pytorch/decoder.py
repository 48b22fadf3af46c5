"""A decoder as Llama's, with random weights, that writes tokens one by one.

Its caches of keys and values are inputs and outputs: what a call returns the next one takes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from comparison import difference
from torch import Tensor, nn
from torch.nn import functional as F

import nnefc
import nnefc.pytorch

WORDS, WIDTH, HEADS, SHARED, SIZE = 2000, 256, 8, 2, 32
"""Tokens, items of each, heads of queries and of keys, items of a head."""


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def turned(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.key, self.value = (nn.Linear(WIDTH, SHARED * SIZE, bias=False) for _ in range(2))
        self.out = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)
        self.first, self.second = RMSNorm(), RMSNorm()

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, shape = self.first(x), (x.size(0), x.size(1), -1, SIZE)
        q = self.query(y).view(shape).transpose(1, 2)
        k = self.key(y).view(shape).transpose(1, 2)
        v = self.value(y).view(shape).transpose(1, 2)
        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        k, v = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


class Decoder(nn.Module):
    """`ids` [1, S] after P others, of which `cache` has keys and values [1, heads, P, size]."""

    frequencies: Tensor

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm = RMSNorm()
        self.register_buffer("frequencies", 1e4 ** -(torch.arange(0, SIZE, 2) / SIZE))

    def forward(self, ids: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        past, count = cache[0].shape[2], ids.shape[1]
        places = torch.arange(past, past + count)
        angles = places[:, None].float() * self.frequencies[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        mask = torch.arange(past + count)[None, :] <= places[:, None]
        x, kept = self.words(ids), []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, cos, sin, mask, cache[2 * i], cache[2 * i + 1])
            kept += [k, v]
        return F.linear(self.norm(x), self.words.weight), *kept


def written(step: Callable[..., Any], prompt: Any, cache: list[Any], count: int) -> Any:
    """The tokens that follow a prompt, scores of the last one, milliseconds for the prompt and
    for each token (their median).
    """
    ids, tokens, times = prompt, [], []
    for _ in range(count + 1):
        start = time.perf_counter()
        scores, *cache = step(ids, *cache)
        best = int(scores[0, -1].argmax())
        times.append(1e3 * (time.perf_counter() - start))
        tokens.append(best)
        ids = prompt[:, :1] * 0 + best
    return tokens, scores[0, -1], times[0], float(np.median(times[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=50)
    options = parser.parse_args()
    torch.manual_seed(0)
    network = Decoder(options.layers).eval()
    names = [f"{what}_{i}" for i in range(options.layers) for what in ("keys", "values")]
    cache = [torch.randn(1, SHARED, 4, SIZE) for _ in names]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "decoder.nnef.tgz"
        nnefc.pytorch.export(
            network,
            (torch.randint(WORDS, (1, 3)), *cache),
            path,
            input_names=["ids", *names],
            output_names=["scores", *(f"next_{name}" for name in names)],
            dynamic_axes={"ids": {1: "S"}, **{name: {2: "P"} for name in names}},
            assertions=["S >= 1", "P >= 0"],
        )
        model = nnefc.compile(path)

        prompt = torch.randint(WORDS, (1, 16))
        empty = [torch.zeros(1, SHARED, 0, SIZE) for _ in names]
        arrays = [x.numpy() for x in empty]
        with torch.inference_mode():
            for run in ("first", "second"):
                tokens, scores, *ours = written(model, prompt.numpy(), arrays, options.tokens)
                wanted, known, *theirs = written(network, prompt, empty, options.tokens)
                assert tokens == wanted, "other tokens than PyTorch's"
                far = difference(scores, known)
                print(f"{run} time, {len(tokens)} tokens as PyTorch's: difference {far:.1e}")
                made = " (plans and kernels are made)" if run == "first" else ""
                print(f"  prompt: nnefc {ours[0]:.2f} ms{made}, PyTorch {theirs[0]:.2f} ms")
                print(f"  token: nnefc {ours[1]:.2f} ms, PyTorch {theirs[1]:.2f} ms")


if __name__ == "__main__":
    main()
