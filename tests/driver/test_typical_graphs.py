"""The graphs whose kernels are compiled ahead."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import pytest

from benchmarks.zoo import ZOO
from benchmarks.zoo.nnef import nnef_document
from nnefc import import_model
from nnefc.driver import typical_graphs
from nnefc.driver.lower_graph import lower_graph
from nnefc.ir import Graph
from nnefc.ir.verify import verify
from nnefc.kernels.family import Kernel
from nnefc.ops.tools.verify import rule_problems
from nnefc.options.compile_config import CompileConfig


@cache
def graphs() -> tuple[Graph, ...]:
    return tuple(typical_graphs.graphs())


@pytest.mark.slow
def test_graphs_are_valid_and_have_unique_names() -> None:
    for graph in graphs():
        assert verify(graph, rule_problems) == []
        assert graph.inputs, graph.name
        assert graph.outputs, graph.name
    assert len({graph.name for graph in graphs()}) == len(graphs())


@pytest.mark.slow
def test_graphs_cover_the_kernel_families_of_networks() -> None:
    """Fails for a family that lowering no longer uses."""
    reached = {
        kernel.family
        for graph in graphs()
        for kernel in lower_graph(graph, CompileConfig(1)).kernels
    }
    assert reached >= {
        "product.attention.rows",
        "convolution.depthwise.convolution",
        "convolution.direct.convolution",
        "elementwise.map.expression",
        "product.matmul.gemm",
        "reduce.local_response.windowed",
        "window.plane_reduction.plane",
        "window.pooling.window",
        "reduce.reduction.rows",
        "tile.pixel_runs.expression",
        "reduce.softmax.rows",
        "window.upsample.nearest",
        "convolution.winograd.multiply",
    }


@cache
def usual_kernels() -> frozenset[Kernel]:
    found = (
        lower_graph(graph, CompileConfig(1)).kernels for graph in typical_graphs.usual_graphs()
    )
    return frozenset(kernel for kernels in found for kernel in kernels)


@pytest.mark.slow
def test_the_usual_graphs_are_few() -> None:
    names = [graph.name for graph in typical_graphs.usual_graphs()]
    assert names == [graph.name for graph in graphs()][: len(names)]
    assert len(usual_kernels()) < 70  # each takes a quarter of a second


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nnefc.NnefWarning")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("squeezenet", {}),
        ("mobilenet_v2", {}),
        ("shufflenet_v2", {}),
        ("efficientnet_b0", {}),
        ("unet", {"channels": 32}),
        ("vit", {"depth": 1}),
        ("bert", {"depth": 1}),
        ("lstm", {}),
    ],
)
def test_networks_need_few_kernels_beside_those_of_the_usual_graphs(
    name: str, options: dict[str, int], tmp_path: Path
) -> None:
    """A quarter of the kernels at most; the three functions that are not kernels are left out."""
    document = nnef_document(partial(ZOO[name].network(), **options), name)
    (tmp_path / "graph.nnef").write_text(document.text)
    graph = import_model(tmp_path / "graph.nnef", random_weights=1)
    kernels = set(lower_graph(graph, CompileConfig(1)).kernels)
    assert len(kernels - usual_kernels()) <= len(kernels) / 4
