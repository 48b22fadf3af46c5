"""A sentence encoder: BERT of transformers with random weights, and the mean of its last states.

`nnefc.pytorch.compile` makes one model for batches of any size and sentences of any length.  It is
saved, and the file is run without PyTorch.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (transformers may be missing, and is not typed)

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from comparison import milliseconds, report
from torch import nn
from torch.export import Dim
from transformers import BertConfig, BertModel

import nnefc
import nnefc.pytorch


class Encoder(nn.Module):
    """Vectors of length 1 for sentences `ids` [batch, length]; `keep` is 0 beyond their ends."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        config = BertConfig(
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=layers,
            num_attention_heads=width // 32,
            vocab_size=8000,
        )
        self.bert: Any = BertModel(config, add_pooling_layer=False)

    def forward(self, ids: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        states = self.bert(input_ids=ids, attention_mask=keep).last_hidden_state
        weights = keep[:, :, None].to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1)
        return nn.functional.normalize(mean, dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    torch.manual_seed(0)
    network = Encoder(options.width, options.layers).eval()

    def sentences(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Random sentences of some lengths, and where they are."""
        longest = max(lengths)
        ids = torch.randint(1, 8000, (len(lengths), longest))
        keep = (torch.arange(longest)[None, :] < torch.tensor(lengths)[:, None]).long()
        return ids * keep, keep

    axes = {0: Dim("batch"), 1: Dim("length", max=512)}
    shapes = {"ids": axes, "keep": axes}
    model = nnefc.pytorch.compile(network, sentences(9, 5), dynamic_shapes=shapes)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        for lengths in ((16,), (40, 30, 20, 10)):
            given = sentences(*lengths)
            found, want = model(*given), network(*given)
            times = milliseconds(
                lambda x=given: model(*x), lambda x=given: network(*x), seconds=options.seconds
            )
            report(f"sentences of {', '.join(map(str, lengths))} tokens", found, want, *times)
        path = Path(folder) / "encoder.nnefc"
        model.save(path)
        arrays = [x.numpy() for x in given]
        report("the file, without PyTorch", nnefc.load(path)(*arrays), want, *times)


if __name__ == "__main__":
    main()
