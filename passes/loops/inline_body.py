"""Insert the operations of a body into the graph around it."""

from __future__ import annotations

from collections.abc import Sequence

from nnefc.ir import Graph, Op, Value


def inline_body(graph: Graph, body: Graph, operands: Sequence[Value], before: Op) -> list[Value]:
    """The results of a body for `operands`; its operations are moved before an operation."""
    for key, variable in body.variables.items():
        graph.variables.setdefault(key, variable)
    twins = dict(zip(body.inputs, operands, strict=True))
    for inner in body.ops:
        copy = Op(
            inner.name,
            [twins[v] for v in inner.inputs],
            inner.attributes,
            [v.type for v in inner.outputs],
            location=inner.location,
        )
        graph.insert(copy, before)
        twins.update(zip(inner.outputs, copy.outputs, strict=True))
    return [twins[v] for v in body.outputs]
