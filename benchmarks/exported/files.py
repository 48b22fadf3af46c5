"""The files that engines read: NNEF with a fixed shape and with a symbol, and ONNX."""

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
    """Paths of what a network is exported to; those that are there are not written again."""

    nnef: Path
    symbolic: Path
    """Its axis that varies is the symbol S."""
    onnx: Path

    @classmethod
    def of(cls, name: str, folder: Path) -> Files:
        return cls(
            folder / f"{name}.nnef.tgz", folder / f"{name}_S.nnef.tgz", folder / f"{name}.onnx"
        )


def module(network: Exported) -> torch.nn.Module:
    """The module with its random weights, the same ones each time."""
    torch.manual_seed(0)
    made = network.make().eval()
    for parameter in made.parameters():
        if parameter.dim() > 1:  # layers are copies of one, which a file would hold once
            torch.nn.init.xavier_uniform_(parameter)
    return made


def write(network: Exported, files: Files) -> None:
    """Export a network to the files that are not there yet."""
    import nnefc.pytorch

    made, x = module(network), network.inputs(network.extent)
    files.nnef.parent.mkdir(parents=True, exist_ok=True)
    if not files.nnef.exists():
        nnefc.pytorch.export(made, x, files.nnef)
    if not files.symbolic.exists():
        several = network.inputs(max(network.extent, 2))  # 1 is taken for one that does not vary
        axes = {"input": {network.axis: "S"}}
        nnefc.pytorch.export(made, several, files.symbolic, dynamic_axes=axes)
    if not files.onnx.exists():
        with warnings.catch_warnings(), torch.no_grad(), _operator_by_operator():
            warnings.simplefilter("ignore")
            torch.onnx.export(made, (x,), files.onnx, dynamo=False, opset_version=17)


@contextmanager
def _operator_by_operator() -> Generator[None]:
    """Keep PyTorch from the one operator for a whole layer, which the exporter does not know."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
