"""An exported file as the engines of the benchmarks take it."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from benchmarks.artifacts import Network as Files
from benchmarks.pytorch_onnx.export import Variant, exported
from benchmarks.pytorch_onnx.network import Network

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ExportedFiles(Files):
    """An exported file, and the inputs that engines are measured with."""

    samples: tuple[tuple[str, Array], ...] = ()

    def arrays(self, seed: int = 1) -> dict[str, Array]:
        """The inputs by name, in the order of the file."""
        return dict(self.samples)


def files_of(
    name: str, network: Network, variant: Variant, folder: Path, *, small: bool
) -> ExportedFiles:
    """The exported file of a network and its inputs, as `benchmarks.measure.compare` takes them."""
    path = exported(name, network, variant, folder, small=small)
    torch.manual_seed(2)
    made = network.inputs(variant.extents(network))
    graph = onnx.load(path, load_external_data=False).graph
    samples = tuple((each.name, made[each.name].numpy()) for each in graph.input)
    return ExportedFiles(
        name=path.parent.name,
        title=f"{name} ({variant.title})",
        batch=1,
        folder=path.parent,
        archive=path,
        inputs={key: array.shape for key, array in samples},
        outputs=tuple(each.name for each in graph.output),
        samples=samples,
    )
