"""Embeddings of bags, and images of blocks, of exported modules compared with PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn
from torch.nn import functional

from tests.helpers.pytorch.exported import compare


class Bags(nn.Module):
    """All modes, with bags of one size and bags that offsets tell, of which one is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(9, 5))

    def forward(self, rows: Any, items: Any, offsets: Any, weights: Any) -> Any:
        bag: Any = functional.embedding_bag
        found: list[Any] = []
        for mode in ("sum", "mean", "max"):
            found += [
                bag(rows, self.weight, mode=mode),
                bag(items, self.weight, offsets, mode=mode, padding_idx=3),
                bag(items, self.weight, offsets, mode=mode, include_last_offset=True),
            ]
        return (
            *found,
            bag(rows, self.weight, mode="sum", per_sample_weights=weights.reshape(3, 4)),
            bag(items, self.weight, offsets, mode="sum", per_sample_weights=weights),
        )


def test_embeddings_of_bags() -> None:
    torch.manual_seed(0)
    items = torch.tensor([3, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 3])
    offsets = torch.tensor([0, 1, 5, 5, 11, 12])
    compare(Bags(), (items.reshape(3, 4), items, offsets, torch.randn(12)))


class Blocks(nn.Module):
    def forward(self, x: Any) -> Any:
        columns = functional.unfold(x, (3, 2), dilation=(1, 2), padding=(1, 2), stride=(2, 1))
        whole = functional.fold(columns, (6, 7), (3, 2), (1, 2), (1, 2), (2, 1))
        single = functional.unfold(x[0], 2)
        return columns, whole, single, functional.fold(single, (6, 7), 2)


def test_blocks_of_images() -> None:
    torch.manual_seed(0)
    compare(Blocks(), (torch.randn(2, 3, 6, 7),))
