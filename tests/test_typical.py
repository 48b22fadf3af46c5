"""The graphs whose kernels are compiled ahead."""

from __future__ import annotations

from functools import cache

from nnefc import typical
from nnefc.api import lowered
from nnefc.ir import Graph
from nnefc.ir.verify import verify


@cache
def graphs() -> tuple[Graph, ...]:
    return tuple(typical.graphs())


def test_they_are_valid_and_have_names_of_their_own() -> None:
    for graph in graphs():
        verify(graph)
        assert graph.inputs, graph.name
        assert graph.outputs, graph.name
    assert len({graph.name for graph in graphs()}) == len(graphs())


def test_they_reach_the_families_that_networks_need() -> None:
    """So that a family is noticed here that lowering no longer uses for them."""
    reached = {kernel.family for graph in graphs() for kernel in lowered(graph, threads=1).kernels}
    assert reached >= {
        "attention.rows",
        "depthwise.convolution",
        "direct.convolution",
        "elementwise.expression",
        "matmul.gemm",
        "normalization.windowed",
        "pooling.plane",
        "pooling.window",
        "reduce.rows",
        "runs.expression",
        "softmax.rows",
        "upsample.nearest",
        "winograd.multiply",
    }
