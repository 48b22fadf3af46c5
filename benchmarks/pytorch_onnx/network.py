"""What a network is: a module, its inputs, and the axes whose extents vary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

Extents = Mapping[str, int]
"""Extents of the variable axes, by the name of their symbol."""


@dataclass(frozen=True, slots=True)
class Network:
    """A module with random weights.

    `inputs` makes the inputs by name, in the order of the module's parameters, for given extents.
    """

    module: nn.Module
    inputs: Callable[[Extents], dict[str, Tensor]]
    outputs: tuple[str, ...]
    axes: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    """The symbols of variable axes, for each input that has some."""
    extents: dict[str, int] = field(default_factory=dict[str, int])
    """The extents that the network is exported with."""
    others: dict[str, int] = field(default_factory=dict[str, int])
    """Other extents, to check an export with variable axes."""
    fixed_by_dynamo: frozenset[str] = frozenset()
    """Symbols whose extents PyTorch's newer exporter writes as constants, although they vary."""


class Entry(NamedTuple):
    """A network of the list: `make(small)` builds it."""

    title: str
    packages: tuple[str, ...]
    make: Callable[[bool], Network]


NETWORKS: dict[str, Entry] = {}
"""By name; `networks` fills it."""


def entry(
    name: str, title: str, *packages: str
) -> Callable[[Callable[[bool], Network]], Callable[[bool], Network]]:
    """Adds a function that builds a network; `packages` are those it needs beside PyTorch."""

    def add(make: Callable[[bool], Network]) -> Callable[[bool], Network]:
        NETWORKS[name] = Entry(title, packages, make)
        return make

    return add


@torch.no_grad()
def randomise(module: nn.Module) -> nn.Module:
    """The module for inference, with weights that keep magnitudes and leave no parameter at 0 or 1.

    Biases, scales and statistics of normalisations differ from item to item, so that results show
    a mistake in any of them.
    """
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.kaiming_uniform_(parameter, nonlinearity="linear")
        else:
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            assert layer.running_mean is not None
            assert layer.running_var is not None
            nn.init.normal_(layer.running_mean, std=0.1)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
    return module.eval()


def images(channels: int, height: int, width: int) -> Callable[[Extents], dict[str, Tensor]]:
    """Makes one input `x`: [batch, channels, height, width], normally distributed."""
    return lambda extents: {"x": torch.randn(extents["batch"], channels, height, width)}


def of_images(
    module: nn.Module,
    height: int,
    width: int | None = None,
    *,
    channels: int = 3,
    outputs: tuple[str, ...] = ("y",),
    batch: bool = True,
) -> Network:
    """A network for images; `batch`: whether their number may vary."""
    return Network(
        randomise(module),
        images(channels, height, width or height),
        outputs,
        {"x": {0: "batch"}} if batch else {},
        {"batch": 1},
        {"batch": 3} if batch else {},
    )
