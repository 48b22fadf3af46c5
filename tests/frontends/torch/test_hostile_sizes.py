"""Sizes and nodes of hostile programs take neither memory nor time."""

from __future__ import annotations

from typing import Any

import pytest

from nnefc.frontends.torch.check_operators import shared_changes
from nnefc.frontends.torch.program import (
    Graph,
    Input,
    InputKind,
    Node,
    Output,
    Program,
    Ref,
)
from nnefc.frontends.torch.source import TorchSource
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits

HUGE = 10**12
X = Ref("x")
CORNERS: dict[str, Any] = {"align_corners": True, "scale_factors": None}


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("as_strided.default", {"self": X, "size": (HUGE, 2), "stride": (0, 0)}),
        ("as_strided.default", {"self": X, "size": (2,), "stride": (1,), "storage_offset": -1}),
        ("eye.m", {"n": 3, "m": HUGE}),
        ("tril_indices.default", {"row": HUGE, "col": 4}),
        ("unfold.default", {"self": X, "dimension": 0, "size": -HUGE, "step": 1}),
        ("unfold.default", {"self": X, "dimension": 0, "size": HUGE, "step": 1}),
        ("adaptive_avg_pool2d.default", {"self": X, "output_size": (HUGE, 3)}),
        ("split.Tensor", {"self": X, "split_size": -1, "dim": -1}),
        (
            "_upsample_bilinear2d_aa.default",
            {"self": X, "output_size": (HUGE, 2), **CORNERS},
        ),
    ],
)
def test_sizes(target: str, arguments: dict[str, Any]) -> None:
    node = Node("y", f"aten.{target}", arguments, ("float32",))
    graph = Graph(("x",), (node,), (Ref("y"),))
    x = Input("x", InputKind.USER, "x", "float32", ("1", "2", "5", "7"))
    source = TorchSource(Program("net", "net", graph, (x,), (Output(Ref("y"), "y"),)), {}, Limits())
    with pytest.raises(NnefError):
        source.graph({})


def test_many_changes_in_place() -> None:
    """50,000 nodes: the tensor that a later node uses again is the only one that is shared."""
    nodes = [Node("n0", "aten.relu.default", {"self": X})]
    for i in range(50_000):
        nodes.append(Node(f"n{i + 1}", "aten.relu_.default", {"self": Ref(f"n{i}")}))
    last = Node("last", "aten.add.Tensor", {"self": Ref("n7"), "other": Ref("n50000")})
    graph = Graph(("x",), (*nodes, last), (Ref("last"),))
    assert [each.name for each in shared_changes(graph)] == ["n8"]
