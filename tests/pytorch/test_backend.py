"""Graphs of `torch.compile(module, backend="nnefc")` compute what eager mode computes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
import torch._dynamo
from torch import nn

from nnefc.pytorch.backend import nnefc
from nnefc.support.errors import NnefError, NnefWarning


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """Dynamo compiles here, unlike in the other tests of this folder, and reports errors."""
    torch.compiler.reset()
    reported: Any = torch._dynamo.config.patch(suppress_errors=False)  # pyright: ignore[reportPrivateUsage]
    with torch.compiler.set_stance("default"), torch.no_grad(), reported:
        yield


class Counting(nn.Module):
    """A module that changes a buffer and its input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.count += 1
        y = self.linear(x)
        x.mul_(2)
        return y + self.count, x.shape[0], x[1:]


def assert_same(found: Any, want: Any) -> None:
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5)


def test_results_buffers_and_changed_inputs_are_those_of_eager_mode() -> None:
    """Also for other extents, and after a change of the weights."""
    torch.manual_seed(0)
    module = Counting().eval()
    other = copy.deepcopy(module)
    compiled: Any = torch.compile(module, backend=nnefc)
    for rows in (5, 5, 7, 4):
        x = torch.randn(rows, 3)
        y = x.clone()
        assert_same(compiled(x), other(y))
        assert_same((x, module.count), (y, other.count))
        for each in (module, other):
            each.linear.weight.add_(1)


def test_graphs_with_unknown_operators_are_run_by_pytorch() -> None:
    def function(x: Any) -> Any:
        return torch.special.i0(x) + 1

    x = torch.randn(4)
    compiled: Any = torch.compile(function, backend=nnefc)
    with pytest.warns(NnefWarning, match=r"test_backend.*aten.i0"):
        found = compiled(x)
    assert_same(found, function(x))


def test_training_is_refused() -> None:
    compiled: Any = torch.compile(nn.Linear(3, 4), backend=nnefc)
    with torch.enable_grad(), pytest.raises(NnefError, match=r"(?s)no gradients.*no_grad"):
        compiled(torch.randn(2, 3))


def test_unknown_options_are_refused() -> None:
    compiled: Any = torch.compile(nn.Linear(3, 4), backend=nnefc, options={"thread": 2})
    with pytest.raises(Exception, match="threads"):
        compiled(torch.randn(2, 3))


def test_pytorch_finds_the_backend_by_its_name() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    found = project["project"]["entry-points"]["torch_dynamo_backends"]
    assert found == {"nnefc": f"{nnefc.__module__}:{nnefc.__name__}"}
