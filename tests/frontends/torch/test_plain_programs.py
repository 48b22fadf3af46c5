"""Programs as PyTorch exports them: where nnefc has all operators, none is decomposed."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import exported_program

import nnefc.pytorch
from nnefc.frontends.torch.check_operators import VIEWS
from nnefc.frontends.torch.registry import find
from nnefc.pytorch.decompositions import keeping_composite_operators, kept_table
from nnefc.pytorch.export_program import export_program
from tests.helpers.pytorch.exported import compare


class Called(nn.Module):
    """A module of a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def _view_is_returned(x: Tensor) -> Any:
    y = x * 2
    row = y[0]
    y.relu_()
    return row, y


def _view_is_changed(x: Tensor) -> Any:
    y = x * 2
    y[:, 1].add_(3.0)
    return y


def _result_is_changed(x: Tensor) -> Any:
    y = x * 2
    return y.add_(1.0).relu_() @ torch.einsum("ij->ji", x)


X = torch.randn(4, 6)


@pytest.mark.parametrize(
    ("function", "is_decomposed"),
    [
        (_view_is_returned, True),
        (_view_is_changed, True),
        (lambda x: torch.einsum("ij->ji", x * 2).t().add_(1.0) + x, True),
        (lambda x: torch.special.xlog1py(x, x), True),
        (_result_is_changed, False),
        (lambda x: torch.tile(x, (2, 1, 3)), False),
        (lambda x: torch.diff(x, n=2, dim=0, append=x[:1]), False),
        (lambda x: torch.diff(x > 0) | torch.diff(x > 0.5), False),
        (lambda x: torch.meshgrid(x[0], x[:, 0], x[1, :2], indexing="xy"), False),
        (lambda x: torch.linspace(-1, 3.5, 7).to(torch.float64, copy=True) + x[0, 0], False),
        (lambda x: x.reshape(-1).view_as(x) + torch.linspace(2, 9, 1), False),
        (lambda x: torch.ops.aten._weight_norm(x, x[:, :1], 0), False),
        (lambda x: torch.ops.aten._weight_norm(x, x[:1, 0], -1), False),
        (lambda x: torch.ops.aten._safe_softmax(torch.where(x < 0.1, -torch.inf, x), 0), False),
    ],
)
def test_programs_are_decomposed_where_that_is_needed(function: Any, is_decomposed: bool) -> None:
    module = Called(function)
    assert export_program(module, (X,), {}, None).is_decomposed == is_decomposed
    compare(module, (X,))


def test_views_are_those_of_the_schemas() -> None:
    """The results of other operators would be changed, but not the memory that they share."""
    aten: Any = torch.ops.aten
    packets = [getattr(aten, name) for name in dir(aten)]
    packets = [each for each in packets if hasattr(each, "overloads")]
    overloads = [getattr(each, name) for each in packets for name in each.overloads()]
    found = {
        str(each)
        for each in overloads
        if find(str(each)) is not None
        and any(x.alias_info and not x.alias_info.is_write for x in each._schema.arguments)
    }
    assert len(found) > 30
    assert found <= VIEWS
    assert all(find(name) for name in VIEWS)


def test_arguments_that_an_operator_lacks_are_decomposed() -> None:
    """The second result of the pooling is computed by its decomposition alone."""
    module = nn.AdaptiveMaxPool1d(3, return_indices=True)
    x = torch.randn(2, 3, 9)
    assert not export_program(module, (x,), {}, None).is_decomposed
    for found, want in zip(nnefc.pytorch.compile(module, (x,))(x), module(x), strict=True):
        np.testing.assert_array_equal(found, want)


def test_composite_operators_stay_whole_as_in_the_exporter() -> None:
    """The same operators are changed as by PyTorch's function, which searches for all of them."""
    exporter: Any = exported_program
    changed: dict[Any, Any] = {}
    want, others = exporter._split_decomp_table_to_cia_and_python_decomp(kept_table())

    def spy(table: dict[Any, Any]) -> Any:
        return nullcontext(changed.update(table))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporter, "_override_composite_implicit_decomp", spy)
        with keeping_composite_operators() as table:
            pass
    preserved = {
        op
        for op, f in want.items()  # other tests may define operators of other packages
        if f is exporter._special_op_to_preserve_cia and op.namespace == "aten"
    }
    assert len(preserved) > 40
    assert {op for op in changed if op.namespace == "aten"} == preserved
    assert {op: table[op] for op in others} == dict(others)
