"""What a model of a suite is: a module with arguments of a call."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn


@dataclass(frozen=True, slots=True)
class Case:
    """A module with random weights and the arguments of a call."""

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    in_place: bool = False
    """Whether `torch.compile` compiles the module, with the backend nnefc."""
    exact: bool = False
    """Whether results must agree with those in float64, too."""


class Suite(NamedTuple):
    """Models of a package."""

    names: Callable[[], list[str]]
    """The names of the models, small ones first."""
    make: Callable[[str], Case]
    """Builds the model of a name."""
    generates: bool = False
    """Whether the models generate tokens by `generate()` of transformers."""


Make = Callable[[str, Mapping[str, Any]], Case]
"""Builds the model of a class by changes of its configuration."""


def configured_suite(
    models: Mapping[Make, Mapping[str, Mapping[str, Any]]], *, generates: bool = False
) -> Suite:
    """A suite of networks: changes of configurations by the name of the class, for each kind."""
    makers = {name: make for make, entries in models.items() for name in entries}

    def make(name: str) -> Case:
        maker = makers[name]
        return maker(name, models[maker][name])

    return Suite(lambda: list(makers), make, generates)


def image_case(module: nn.Module, sizes: Sequence[int], *leading: int) -> Case:
    """A module for one picture [1, *leading, size, size], of the least size that it takes."""
    *small, largest = sizes
    for size in small:
        x = torch.randn(1, *leading, size, size)
        with suppress(Exception), torch.inference_mode():
            module(x)
            return Case(module, (x,))
    return Case(module, (torch.randn(1, *leading, largest, largest),))
