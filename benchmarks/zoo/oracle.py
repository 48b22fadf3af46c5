"""Networks computed by PyTorch in float64, without a file between."""

# pyright: reportUnknownMemberType=false
# (torch is typed in part)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.convert.torch_functions import FUNCTIONS
from benchmarks.zoo.builder import Array, Builder, Network, Shape, Variable


class TorchBuilder(Builder):
    """Computes with PyTorch."""

    def __init__(self, data: Mapping[str, Array], batch: int = 1) -> None:
        super().__init__(batch)
        self._data = data

    def make_input(self, name: str, shape: Shape) -> Any:
        assert self._data[name].shape == shape
        return torch.from_numpy(self._data[name].astype(np.float64))

    def make_variable(self, variable: Variable) -> Any:
        return torch.from_numpy(variable.data().astype(np.float64))

    def make(self, op: str, operands: Sequence[Any], attributes: dict[str, Any], count: int) -> Any:
        if op == "concat":
            (operands,) = operands
        return FUNCTIONS[op](*operands, **attributes)


def torch_outputs(network: Network, data: Mapping[str, Array], batch: int = 1) -> dict[str, Array]:
    """What the network gives in float64, for inputs by name.

    On one thread, for good: the operations of small networks are shorter than waking others takes.
    """
    torch.set_num_threads(1)
    with torch.no_grad():
        outputs = network(TorchBuilder(data, batch))
        return {name: node.value.numpy() for name, node in outputs.items()}
