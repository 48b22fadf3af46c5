"""Guards of exported programs are conditions on the shapes of a call."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn
from torch.export import Dim

import nnefc
import nnefc.pytorch
from nnefc.frontends.torch.program import Input, InputKind, Range
from nnefc.frontends.torch.shape_guards import conditions_of
from nnefc.support.errors import NnefError

X, Y = "L['x'].size()[0]", "L['pair'][1].size()[0]"


@pytest.mark.parametrize(
    ("guard", "conditions"),
    [
        (f"((2 + {X}) // 3) == 2", ("s0 >= 4", "s0 <= 6")),
        (f"(1 + (((-1) + {X}) // 4)) != 1", ("s0 >= 5",)),
        (f"{X} > 1 and 5 >= {X}", ("(5 >= s0)",)),
        (f"{X} <= 9", ("s0 <= 9",)),
        (f"({X} % 2) == 0", ("((s0 - 2 * (s0 / 2)) == 0)",)),
        (f"{X} != 7", ("(s0 != 7)",)),
        (f"({X}*{Y}) != 1", ()),
        (f"{X} < {X}*{Y}", ()),
        (f"{X}*{Y} < 9", ("((s0 * (2 * s1)) < 9)",)),
        (f"{X} > {Y} or not {X} == 3", ("((s0 > (2 * s1)) + ((s0 == 3) == 0) >= 1)",)),
        ("L['flat_args'][1].size()[0] >= 9", ("s1 >= 5",)),
        *((each, ()) for each in ("__import__('os').system('x')", "L['x'].size()[9] > 1", "((")),
    ],
)
def test_conditions(guard: str, conditions: tuple[str, ...]) -> None:
    """Bounds, if the guard is of one symbol and grows with it; nothing if ranges imply it."""
    inputs = [
        Input("x", InputKind.USER, "x", "float32", ("s0", "5")),
        Input("pair_1", InputKind.USER, "pair_1", "float32", ("2 * s1",)),
    ]
    found = conditions_of([guard], inputs, {"s0": Range(2), "s1": Range(2)})
    assert found == conditions


class Branches(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        rows, *_ = x.split(3)
        return rows.sum(0) * 2 + y.sum(0) if y.shape[0] % 2 else rows.sum(0) - y.sum(0)


def test_a_call_that_would_take_another_branch_is_refused(tmp_path: Path) -> None:
    """Also by the model of a stored program."""
    module, x, y = Branches().eval(), torch.randn(5, 4), torch.randn(7, 4)
    shapes = ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})
    path = tmp_path / "branches.pt2"
    torch.export.save(torch.export.export(module, (x, y), dynamic_shapes=shapes), path)
    compiled, stored = (
        nnefc.pytorch.compile(module, (x, y), dynamic_shapes=shapes),
        nnefc.compile(path),
    )
    for rows, others in ((5, 7), (6, 3)):
        x, y = torch.randn(rows, 4), torch.randn(others, 4)
        for found in (compiled(x, y), stored(x.numpy(), y.numpy())):
            np.testing.assert_allclose(found, module(x, y), 1e-5, 1e-5)
    for rows, others in ((5, 4), (7, 7)):
        x, y = torch.randn(rows, 4), torch.randn(others, 4)
        with pytest.raises(NnefError, match="does not hold"):
            compiled(x, y)
        with pytest.raises(NnefError, match="does not hold"):
            stored(x.numpy(), y.numpy())
