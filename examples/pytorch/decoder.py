"""A decoder like Llama with random weights, which generates tokens one by one.

The caches of keys and values are inputs and outputs.  Each call returns extended caches, which are
passed to the next call.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import torch
from comparison import difference
from torch import Tensor, nn
from torch.nn import functional as F

import nnefc
import nnefc.pytorch

VOCABULARY: Final = 2000
"""Number of different tokens."""
WIDTH: Final = 256
"""Size of the vector of a token."""
QUERY_HEADS: Final = 8
KEY_HEADS: Final = 2
"""Heads of keys and values; each is shared by several heads of queries."""
HEAD_SIZE: Final = 32
"""Size of a vector of a head."""


class RMSNorm(nn.Module):
    """Divides vectors by their root mean square."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def rotate_half(x: Tensor) -> Tensor:
    """(-b, a) for vectors (a, b): the sine terms of rotary positions."""
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Layer(nn.Module):
    """Attention over the cached and the new tokens, then a gated linear unit."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, QUERY_HEADS * HEAD_SIZE, bias=False)
        self.key, self.value = (
            nn.Linear(WIDTH, KEY_HEADS * HEAD_SIZE, bias=False) for _ in range(2)
        )
        self.out = nn.Linear(QUERY_HEADS * HEAD_SIZE, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)
        self.attention_norm, self.mlp_norm = RMSNorm(), RMSNorm()

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x [batch, S, WIDTH] -> (the same shape, extended keys, extended values)"""
        y, shape = self.attention_norm(x), (x.size(0), x.size(1), -1, HEAD_SIZE)
        q = self.query(y).view(shape).transpose(1, 2)
        k = self.key(y).view(shape).transpose(1, 2)
        v = self.value(y).view(shape).transpose(1, 2)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k, v = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


class Decoder(nn.Module):
    """Scores [1, S, VOCABULARY] of the token that follows each of the tokens `ids` [1, S].

    `cache`: keys and values [1, KEY_HEADS, P, HEAD_SIZE] of every layer for the P tokens before.
    Further results are the caches for all P + S tokens.
    """

    frequencies: Tensor

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm = RMSNorm()
        self.register_buffer("frequencies", 1e4 ** -(torch.arange(0, HEAD_SIZE, 2) / HEAD_SIZE))

    def forward(self, ids: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        past, count = cache[0].shape[2], ids.shape[1]
        positions = torch.arange(past, past + count)
        angles = positions[:, None].float() * self.frequencies[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        mask = torch.arange(past + count)[None, :] <= positions[:, None]
        x: Tensor = self.embedding(ids)
        extended: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, cos, sin, mask, cache[2 * i], cache[2 * i + 1])
            extended += [k, v]
        return F.linear(self.norm(x), self.embedding.weight), *extended


class Generation(NamedTuple):
    """The result of `generate`."""

    tokens: list[int]
    scores: Any
    """Scores of the last token."""
    prompt_ms: float
    """Milliseconds of the call with the prompt."""
    token_ms: float
    """Median milliseconds of a call with one token."""


def generate(step: Callable[..., Any], prompt: Any, cache: list[Any], count: int) -> Generation:
    """Generate `count` + 1 tokens after a prompt; the most likely one is always chosen.

    `step(ids, *cache)` returns scores and caches.  Arrays of NumPy and tensors of PyTorch work.
    """
    scores, *cache, prompt_ms = timed(step, prompt, *cache)
    tokens, times = [best(scores)], list[float]()
    for _ in range(count):
        ids = prompt[:, :1] * 0 + tokens[-1]
        scores, *cache, ms = timed(step, ids, *cache)
        tokens.append(best(scores))
        times.append(ms)
    return Generation(tokens, scores[0, -1], prompt_ms, median(times))


def timed(step: Callable[..., Any], *inputs: Any) -> tuple[Any, ...]:
    """The results of a call, then its milliseconds."""
    start = time.perf_counter()
    results = step(*inputs)
    return *results, 1e3 * (time.perf_counter() - start)


def best(scores: Any) -> int:
    """The most likely token after the last one."""
    return int(scores[0, -1].argmax())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=50)
    options = parser.parse_args()
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    network = Decoder(options.layers).eval()
    names = [f"{kind}_{i}" for i in range(options.layers) for kind in ("keys", "values")]
    cache = [torch.randn(1, KEY_HEADS, 4, HEAD_SIZE) for _ in names]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "decoder.nnef.tgz"
        nnefc.pytorch.export(
            network,
            (torch.randint(VOCABULARY, (1, 3)), *cache),
            path,
            exporter="torch_to_nnef",
            input_names=["ids", *names],
            output_names=["scores", *(f"next_{name}" for name in names)],
            dynamic_axes={"ids": {1: "S"}, **{name: {2: "P"} for name in names}},
            assertions=["S >= 1", "P >= 0"],
        )
        model = nnefc.compile(path)

        prompt = torch.randint(VOCABULARY, (1, 16))
        empty = [torch.zeros(1, KEY_HEADS, 0, HEAD_SIZE) for _ in names]
        arrays = [x.numpy() for x in empty]
        with torch.inference_mode():
            for run in ("first run, which compiles plans and kernels", "second run"):
                ours = generate(model, prompt.numpy(), arrays, options.tokens)
                theirs = generate(network, prompt, empty, options.tokens)
                assert ours.tokens == theirs.tokens, "the tokens differ from PyTorch's"
                far = difference(ours.scores, theirs.scores)
                print(f"{run}: {len(ours.tokens)} equal tokens; difference {far:.1e}")
                for what, *times in (
                    ("prompt", ours.prompt_ms, theirs.prompt_ms),
                    ("token", ours.token_ms, theirs.token_ms),
                ):
                    print(f"  {what}: nnefc {times[0]:.2f} ms, PyTorch {times[1]:.2f} ms")


if __name__ == "__main__":
    main()
