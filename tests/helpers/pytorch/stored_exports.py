"""Writes exports with inputs and results of PyTorch, for tests without PyTorch.

`python -m tests.helpers.pytorch.stored_exports [NAME...]` rewrites all exports, or the named ones.
"""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from tests.helpers.pytorch import (
    arithmetic,
    networks,
    patterns,
    sequences,
    tensors,
)
from tests.helpers.pytorch.exports import array, export, results

FOLDER = Path(__file__).parents[2] / "pytorch" / "data"
STORED = (
    "resnet-size unet-size detector layer-deconv-grouped images-max_pool_indices "
    "images-grid_sample vit-by_hand-batch bert-length llama-length llama-fragment-length "
    "lstm-two-bidirectional lstm-projected gru-length streaming-length logmel codes-uint8 "
    "mlp-f16 mlp-q40 experts-silu packed truths-cumsum newest "
    "products-attention_without_keys padded rolled mlp-i8-channels cnn-i8-each"
)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    modules = (
        arithmetic, networks, patterns, sequences, tensors
    )  # fmt: skip
    cases = {case.name: case for module in modules for case in module.cases()}
    for name in sys.argv[1:] or STORED.split():
        case = cases[name]
        torch.manual_seed(0)
        module = case.module().eval()
        calls = (case.inputs, *case.more)
        wanted = [results(module, inputs) for inputs in calls]
        kept = {"tolerance": np.float64(case.tolerance)}
        for i, (inputs, outputs) in enumerate(zip(calls, wanted, strict=True)):
            kept |= {f"{i}/x{j}": array(x) for j, x in enumerate(inputs)}
            kept |= {f"{i}/y{j}": y for j, y in enumerate(outputs)}
        np.savez_compressed(FOLDER / f"{name}.npz", allow_pickle=False, **kept)
        with tempfile.TemporaryDirectory() as folder:
            path = export(case, module, len(wanted[0]), Path(folder) / "model.nnef.tgz")
            (FOLDER / f"{name}.nnef.tgz").write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
