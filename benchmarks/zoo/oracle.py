"""Compute networks with PyTorch in float64, without a file."""

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
    """A builder that computes with PyTorch."""

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
    """The float64 results of a network by name, for inputs by name.

    Limits PyTorch to one thread for the process: small networks finish before other threads wake.
    """
    torch.set_num_threads(1)
    with torch.no_grad():
        outputs = network(TorchBuilder(data, batch))
        return {name: node.value.numpy() for name, node in outputs.items()}
