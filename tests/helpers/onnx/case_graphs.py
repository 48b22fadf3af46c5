"""Graphs of the cases of `onnx.backend.test`, for the shapes and values of their inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from onnx import ModelProto
from onnx.numpy_helper import from_array

from nnefc.ir import Graph
from nnefc.support.errors import NnefError
from tests.helpers.onnx.backend_cases import NODE, BackendCase, backend_cases
from tests.helpers.onnx.evaluate import source_of

Array = np.ndarray[Any, Any]


def single_nodes() -> Iterator[tuple[str, BackendCase]]:
    """The operator and the case, for cases of one node whose inputs and results are arrays."""
    for case in backend_cases().values():
        arrays = [x for ends in case.data_sets[0] for x in ends]
        if case.kind == NODE and all(isinstance(x, np.ndarray) for x in arrays):
            kinds = [node.op_type for node in case.proto.graph.node]
            if len(kinds) == 1 and sum(x.size for x in arrays) < 100_000:
                yield kinds[0], case


def first_of_each_operator() -> list[BackendCase]:
    """A case for each operator, all of whose inputs and results are arrays."""
    first: dict[str, BackendCase] = {}
    for kind, case in single_nodes():
        first.setdefault(kind, case)
    return list(first.values())


def graph_of_case(case: BackendCase) -> tuple[Graph, list[Array]]:
    """(graph, its inputs); raises NnefError for what the front end does not have.

    Short inputs behind the first become initializers where their values must be known.
    """
    inputs, _ = case.data_sets[0]
    names = [value.name for value in case.proto.graph.input]
    given = dict(zip(names, inputs, strict=False))
    try:
        return _graph_of(case.proto, given)
    except NnefError:
        proto = case.proto
        short = {name for name in names[1:] if name in given and given[name].size <= MAX_SHORT}
        kept = [value for value in proto.graph.input if value.name not in short]
        del proto.graph.input[:]
        proto.graph.input.extend(kept)
        proto.graph.initializer.extend(from_array(given[name], name) for name in short)
        return _graph_of(proto, {name: x for name, x in given.items() if name not in short})


MAX_SHORT: Final = 8
"""The most items of an input that may be a parameter of an operator."""


def _graph_of(proto: ModelProto, given: dict[str, Array]) -> tuple[Graph, list[Array]]:
    source = source_of(proto)
    shapes = {
        name: tuple(given[name].reshape(-1).tolist())
        if name in source.value_inputs
        else given[name].shape
        for name in source.inputs
    }
    graph = source.graph(shapes)
    return graph, [given[value.name] for value in graph.inputs]
