"""Weights of a graph are constants while they are the same tensors with the same items."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn

from nnefc.pytorch import native_piece, weight_sets
from nnefc.pytorch.backend import nnefc
from nnefc.pytorch.compile_module import compile as compile_module
from nnefc.pytorch.weight_sets import WeightSets
from nnefc.support.errors import NnefError


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """Dynamo compiles here, unlike in the other tests of this folder."""
    torch.compiler.reset()
    with torch.compiler.set_stance("default"), torch.no_grad():
        yield


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that has an item for each model that is compiled."""
    models: list[int] = []
    compile_program = native_piece.compile_program

    def count(*args: Any) -> Any:
        models.append(1)
        return compile_program(*args)

    monkeypatch.setattr(native_piece, "compile_program", count)
    return models


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.linear(x))


def assert_same(found: Any, want: Any) -> None:
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5)


def test_modules_with_one_code_object_have_weights_of_their_own(compiled: list[int]) -> None:
    """Each is compiled once for its weights, and again when it gets others."""
    torch.manual_seed(0)
    layers = [Layer().eval() for _ in range(3)]
    graphs: list[Any] = [torch.compile(each, backend=nnefc) for each in layers]
    x = torch.randn(3, 4)

    def compare() -> int:
        for layer, graph in zip(layers, graphs, strict=True):
            assert_same(graph(x), layer(x))
        return len(compiled)

    assert [compare(), compare()] == [3, 3]
    weight: Any = layers[0].linear.weight
    layers[0].linear.weight = nn.Parameter(torch.randn(4, 4))
    assert compare() == 4
    layers[1].linear.weight.data = torch.randn(4, 4)
    assert compare() == 5
    layers[2].load_state_dict(layers[0].state_dict())
    assert compare() == 6
    layers[0].linear.weight = weight
    assert [compare(), compare()] == [6, 6]


class Reassigning(nn.Module):
    """A module that replaces a buffer and an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("decayed", torch.zeros(4))
        self.last = torch.zeros(4)

    def forward(self, x: Any) -> Any:
        self.decayed = self.decayed * 0.5 + x + self.last
        self.last = x * 2
        return self.decayed * 1


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_tensors_that_a_module_replaces_are_followed(compiled: list[int], mode: Any) -> None:
    """They are inputs after some calls."""
    module = Reassigning().eval()
    other = copy.deepcopy(module)
    graph: Any = torch.compile(module, backend=nnefc)
    with mode():
        counts: list[int] = []
        for i in range(8):
            x = torch.full((4,), float(i))
            assert_same(graph(x), other(x))
            counts.append(len(compiled))
        assert counts[-1] == counts[-3]


def test_changes_without_versions_are_followed() -> None:
    """Fused steps of optimizers, `p.data` in place, and writes through NumPy."""
    torch.manual_seed(0)
    module, x = Layer(), torch.randn(3, 4)
    run: Any = torch.compile(module, backend=nnefc)
    model = compile_module(module, (x,))
    weight = module.linear.weight
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1, fused=True)

    def step() -> None:
        weight.grad = torch.ones_like(weight)
        optimizer.step()

    def write() -> None:
        weight.numpy()[...] = 0.5

    for change in (step, lambda: weight.data.add_(1.0), write):
        torch.testing.assert_close(run(x), module(x))
        change()
        torch.testing.assert_close(run(x), module(x))
        with pytest.raises(NnefError, match=r"linear\.weight"):
            model(x)


def test_a_set_is_forgotten_with_its_parameters() -> None:
    sets = WeightSets([0])
    x = torch.ones(3)
    for _ in range(2 * weight_sets._MAX_SETS):  # pyright: ignore[reportPrivateUsage]
        parameter = nn.Parameter(torch.randn(2))
        found = sets.of((parameter, x))
        assert set(found.constants) == {0}
        assert sets.of((parameter, x)) is found
        del parameter, found
    gc.collect()
    assert sets._present is sets._inputs_only and not sets._sets  # pyright: ignore[reportPrivateUsage]


def test_further_modules_and_ever_new_parameters_are_inputs() -> None:
    most = weight_sets._MAX_SETS  # pyright: ignore[reportPrivateUsage]
    sets = WeightSets([0, 1])
    buffer = torch.ones(3)
    many = [nn.Parameter(torch.ones(2)) for _ in range(most + 1)]
    for _ in range(2):
        sizes = [len(sets.of((each, buffer)).constants) for each in many]
        assert sizes == [2] * most + [0]
    several = WeightSets([0])
    sizes = [len(several.of((nn.Parameter(torch.ones(2)),)).constants) for _ in range(most + 2)]
    assert sizes == [1] * most + [0, 0]


def test_changes_of_buffers_without_versions_are_noticed() -> None:
    """Large ones are inputs."""
    sets = WeightSets([0, 1, 2])
    with torch.inference_mode():
        parameter, buffer, large = nn.Parameter(torch.ones(2)), torch.ones(2), torch.ones(1 << 17)
        first = sets.of((parameter, buffer, large))
        assert set(first.constants) == {0, 1}
        first.compiled = "for ones"
        assert sets.of((parameter, buffer, large)).compiled == "for ones"
        buffer.add_(1)
        assert sets.of((parameter, buffer, large)).compiled is None
