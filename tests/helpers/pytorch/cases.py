"""Test cases: PyTorch modules with inputs, and the tensors that cases share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Case:
    """A module and its inputs; `more` holds inputs of further calls if axes are dynamic.

    `dynamic` maps the number of an input to the symbols of its axes.
    """

    name: str
    module: Callable[[], nn.Module]
    inputs: tuple[Tensor, ...]
    more: tuple[tuple[Tensor, ...], ...] = ()
    dynamic: dict[int, dict[int, str]] | None = None
    options: dict[str, Any] | None = None
    tolerance: float = 1e-4


class Function(nn.Module):
    """A module whose forward method is a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


Functions = dict[str, tuple[Callable[..., Any], *tuple[Tensor, ...]]]
"""(function, arguments...) by case name."""


def named(home: Any, names: str, *inputs: Tensor, prefix: str = "", suffix: str = "") -> Functions:
    """Case entries for attributes of `home`: `names` separates them by spaces."""
    return {f"{prefix}{name}{suffix}": (getattr(home, name), *inputs) for name in names.split()}


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def positive(*shape: int, seed: int = 0) -> Tensor:
    """Random items between 0.05 and 0.95."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator) * 0.9 + 0.05


def whole(*shape: int, below: int = 5, seed: int = 0) -> Tensor:
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


def image(*, seed: int = 0) -> Tensor:
    return random(2, 3, 7, 9, seed=seed)


def matrix(*, seed: int = 0) -> Tensor:
    return random(4, 6, seed=seed)


A = matrix()
B = matrix(seed=1)
P = positive(4, 6)
Q = positive(4, 6, seed=1)
C = random(2, 5, 6)
M = A > 0
N = B > 0
U = whole(4, 6)
J = whole(4, 6, seed=1) + 1
X = image()
V = random(6)
SQUARE = random(5, 5)
TABLE = random(7, 3)
WEIGHT, BIAS = random(3, 6), random(3)
FILTER, TRANSPOSED, FORMS = random(4, 3, 3, 3), random(3, 4, 3, 3, seed=1), random(3, 6, 6)
WINDOW = torch.hann_window(16)
EDGES = torch.tensor([-float("inf"), -2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, float("inf")])
ODD = torch.tensor([float("nan"), 1.0, -float("inf"), float("inf"), 0.0, -2.0])


def statistics(norm: Any) -> Any:
    """The batch normalization, with random parameters and statistics instead of initial ones."""
    for each in (norm.running_mean, norm.weight, norm.bias):
        each.data.normal_()
    norm.running_var.uniform_(0.5, 2.0)
    return norm


def of_functions(kind: str, functions: Functions) -> Iterator[Case]:
    """One case per function, named KIND-NAME."""
    for name, (function, *inputs) in functions.items():
        yield Case(f"{kind}-{name}", lambda f=function: Function(f), tuple(inputs))
