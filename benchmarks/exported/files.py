"""The files of an exported network: NNEF with fixed and with symbolic shapes, and ONNX."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.exported.networks import Exported


@dataclass(frozen=True, slots=True)
class Files:
    """Paths of the exported files of a network."""

    nnef: Path
    symbolic: Path
    """The extent of its variable axis is the symbol S."""
    onnx: Path

    @classmethod
    def of(cls, name: str, folder: Path) -> Files:
        return cls(
            folder / f"{name}.nnef.tgz", folder / f"{name}_S.nnef.tgz", folder / f"{name}.onnx"
        )


def module(network: Exported) -> torch.nn.Module:
    """The module with seeded random weights."""
    torch.manual_seed(0)
    model = network.make().eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:  # equal layers would share their weights in a file
            torch.nn.init.xavier_uniform_(parameter)
    return model


def write(network: Exported, files: Files) -> None:
    """Export a network to those of its files that do not exist."""
    import nnefc.pytorch

    model, x = module(network), network.inputs(network.extent)
    files.nnef.parent.mkdir(parents=True, exist_ok=True)
    if not files.nnef.exists():
        nnefc.pytorch.export(model, x, files.nnef, exporter="torch_to_nnef")
    if not files.symbolic.exists():
        several = network.inputs(
            max(network.extent, 2)
        )  # an extent of 1 would be exported as fixed
        axes = {"input": {network.axis: "S"}}
        nnefc.pytorch.export(
            model, several, files.symbolic, dynamic_axes=axes, exporter="torch_to_nnef"
        )
    if not files.onnx.exists():
        with warnings.catch_warnings(), torch.no_grad(), _without_fused_layers():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (x,), files.onnx, dynamo=False, opset_version=17)


@contextmanager
def _without_fused_layers() -> Generator[None]:
    """Disable the fused encoder layer, which the ONNX exporter does not support."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
