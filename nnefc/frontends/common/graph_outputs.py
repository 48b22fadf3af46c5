"""Outputs of a graph: results of the document, and counts of their valid items."""

from __future__ import annotations

from nnefc.frontends.common.graph_names import count_name
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.ir import Count, Graph, Value
from nnefc.support.names import unused_name


def add_output(graph: Graph, value: Value, name: str) -> None:
    """Add an output, whose name is numbered if a result repeats it."""
    graph.add_output(value, unused_name(name, graph.output_names))


def add_counts(make: OpBuilder) -> None:
    """Add an output with the number of valid items for each output that has room for more."""
    graph = make.graph
    outputs = list(zip(graph.outputs, graph.output_names, strict=True))
    for of, (value, name) in enumerate(outputs):
        if value in make.counted:
            axis, count = make.counted[value]
            graph.counts.append(Count(len(graph.outputs), of, axis))
            graph.add_output(count, count_name(name, axis))
