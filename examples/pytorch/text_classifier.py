"""An encoder of text as BERT's, with random weights, for texts of any length and in batches.

Tokens beyond the end of a text are masked. The mask is expanded to [batch, 1, length, length]
where the module makes it, since the exporter writes an extent of 1 that attention would broadcast
as the length that it has seen.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from comparison import milliseconds, report
from torch import Tensor, nn
from torch.nn import functional as F

import nnefc
import nnefc.pytorch


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.attended, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (self.split(f(x)) for f in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.attended(x + self.out(y.transpose(1, 2).reshape(x.shape)))
        return self.norm(x + self.down(F.gelu(self.up(x))))


class Classifier(nn.Module):
    """Scores of three classes for texts `ids` [batch, length]; `keep` is 0 beyond their ends."""

    def __init__(self, layers: int, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(8000, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.pool, self.head = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        x = self.norm(self.words(ids) + self.positions(torch.arange(ids.size(1))))
        mask = (1.0 - keep[:, None, None, :].float()) * -1e9
        mask = mask.expand(-1, -1, ids.size(1), -1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(torch.tanh(self.pool(x[:, 0])))


def texts(*lengths: int) -> tuple[Tensor, Tensor]:
    """Random texts of some lengths, and where they are."""
    longest = max(lengths)
    ids = torch.randint(1, 8000, (len(lengths), longest))
    keep = (torch.arange(longest)[None, :] < torch.tensor(lengths)[:, None]).long()
    return ids * keep, keep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    network = Classifier(options.layers).eval()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.nnef.tgz"
        nnefc.pytorch.export(
            network,
            texts(9, 5),
            path,
            exporter="torch_to_nnef",
            input_names=["ids", "keep"],
            dynamic_axes={name: {0: "B", 1: "S"} for name in ("ids", "keep")},
            assertions=["S <= 512"],
        )
        model = nnefc.compile(path)

        with torch.inference_mode():
            for lengths in ((16,), (128,), (100, 80, 60, 40)):
                inputs = texts(*lengths)
                arrays = [x.numpy() for x in inputs]
                scores, wanted = model(*arrays), network(*inputs)
                times = milliseconds(
                    lambda x=arrays: model(*x),
                    lambda x=inputs: network(*x),
                    seconds=options.seconds,
                )
                listed = ", ".join(map(str, lengths))
                report(f"texts of {listed} tokens", scores, wanted, *times)


if __name__ == "__main__":
    main()
