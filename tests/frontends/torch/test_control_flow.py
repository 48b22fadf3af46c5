"""Branches and loops of exported modules compute the same as in PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn
from torch._higher_order_ops.map import map as map_items
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import nnefc.pytorch
from nnefc.support.errors import NnefError
from tests.helpers.pytorch.exported import compare, compare_graph, graph_of


class Branches(nn.Module):
    """Branches with weights, constants and branches of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.offset = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x: Any, y: Any) -> Any:
        def inner(x: Any, y: Any) -> Any:
            first = torch.cond(y[0, 0] > 0, lambda x: x * 3, lambda x: x - 4, (x,))
            return first + self.offset, x.sum(0)

        def other(x: Any, y: Any) -> Any:
            first = torch.cond(y[0, 0] > 1, lambda x: x * 5, lambda x: x - 6, (x,))
            return first + self.linear(y) + 1, x[0] + 0

        return torch.cond(x.sum() > 0, inner, other, (x, y))


def test_one_of_two_branches_runs() -> None:
    torch.manual_seed(0)
    module = Branches().eval()
    x, y = torch.rand(3, 4), torch.rand(3, 4)
    graph = graph_of(module, (x, y))
    assert any(op.name == "if" for op in graph.ops)
    for factor in (1, -1):
        for other in (1, -1, 9):
            compare_graph(graph, module, (factor * x, other * y))


class Turns(nn.Module):
    """A loop whose turns are counted by a run, and loops over items with states and without."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any, h: Any, w: Any) -> Any:
        def goes_on(i: Any, x: Any) -> Any:
            return (i < 7) & (x.sum() < 100)

        def body(i: Any, x: Any) -> Any:
            return i + 1, self.linear(x).abs() * w.sum() + x

        def step(h: Any, x: Any) -> Any:
            after = torch.tanh(self.linear(h) + x)
            return after, (after * 2)[:2]

        counted = while_loop(goes_on, body, (torch.tensor(0), x))
        final, rows = scan(step, h, x, reverse=True)
        products = map_items(lambda x, w: (w @ x, x + 1), x, w)
        return counted, final, rows, products


def test_loops_run_until_their_condition_fails() -> None:
    torch.manual_seed(0)
    module = Turns()
    given = torch.rand(5, 4), torch.rand(4), torch.rand(3, 4)
    graph = graph_of(module, given)
    assert sum(op.name == "scan" for op in graph.ops) == 3
    for factor in (0.01, 1, 100):
        x, *rest = given
        compare_graph(graph, module, (factor * x, *rest))
    model = nnefc.pytorch.compile(module, given)
    for found, want in zip(model(*given)[0], module(*given)[0], strict=True):
        torch.testing.assert_close(found, want)


def test_loops_over_varying_extents() -> None:
    class Rows(nn.Module):
        def forward(self, x: Any, h: Any) -> Any:
            return scan(lambda h, x: (h + x, h * x), h, x)

    shapes = ({0: torch.export.Dim("n")}, None)
    compare(Rows(), (torch.rand(4, 3), torch.rand(3)), shapes=shapes)


def test_errors_in_bodies_have_their_places() -> None:
    class Wrong(nn.Module):
        def forward(self, x: Any) -> Any:
            def body(x: Any) -> Any:
                return torch.special.i0(x)

            return torch.cond(x.sum() > 0, body, lambda x: x + 1, (x,))

    with pytest.raises(NnefError, match="special function") as caught:
        nnefc.pytorch.compile(Wrong(), (torch.randn(3),))
    (error,) = caught.value.errors
    assert error.place
    assert error.place.file == __file__
