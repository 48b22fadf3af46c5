"""Exported modules, evaluated by the references of operations and compared with PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

from nnefc.frontends.torch.signature import user_inputs
from nnefc.frontends.torch.source import TorchSource
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from nnefc.pytorch.export_program import export_program
from nnefc.support.limits import Limits


def graph_of(module: torch.nn.Module, given: Sequence[Any], shapes: Any = None) -> Graph:
    """The graph of an exported module for the example arguments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger("torch.__trace"), "handlers", [])  # of traced tensors
        found = export_program(module.eval(), given, {}, shapes)
    source = TorchSource(found.program, found.arrays, Limits())
    tensors = [x for x in given if isinstance(x, torch.Tensor)]
    names = [each.label for each in user_inputs(found.program)]
    return source.graph({n: tuple(x.shape) for n, x in zip(names, tensors, strict=True)})


def compare(
    module: torch.nn.Module, given: Sequence[Any], *, shapes: Any = None, tolerance: float = 1e-5
) -> Graph:
    """Require results of the module's graph that are those of PyTorch; returns the graph."""
    graph = graph_of(module, given, shapes)
    compare_graph(graph, module, given, tolerance)
    return graph


def compare_graph(
    graph: Graph, module: torch.nn.Module, given: Sequence[Any], tolerance: float = 1e-5
) -> None:
    """Require that a graph computes for some arguments what the module does."""
    tensors = [x for x in given if isinstance(x, torch.Tensor)]
    named = zip((x.name for x in graph.inputs), tensors, strict=True)
    found = [
        np.asarray(y) for y in evaluate(graph, {n: x.numpy() for n, x in named}).outputs.values()
    ]
    for count in graph.counts:
        number = int(found[count.output].reshape(()))
        found[count.of] = np.take(found[count.of], range(number), count.axis)
    with torch.no_grad():
        results = pytree.tree_leaves(module(*given))
    want = [x.resolve_conj().numpy() for x in results if isinstance(x, torch.Tensor)]
    found = found[: len(want)]
    for y, expected, value in zip(found, want, graph.outputs, strict=False):
        assert value.type.dtype.value == expected.dtype.name
        assert y.shape == expected.shape
        np.testing.assert_allclose(y.astype("f8"), expected.astype("f8"), tolerance, tolerance)
    assert len(found) == len(want)
