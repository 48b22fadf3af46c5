"""Insert variables into a graph, and drop unused ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ir.graph import Variable
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.support.names import unused_name

Array = np.ndarray[Any, Any]


def add_variable(graph: Graph, name: str, items: Array, before: Op) -> Value:
    """A new variable in front of an operation, with `name` or with a number behind it.

    The items are kept, and cannot be written to any more.
    """
    label = unused_name(name, graph.variables, ignore_case=True)
    items.flags.writeable = False
    type_ = TensorType(DType(items.dtype.name), items.shape)
    graph.variables[label.lower()] = Variable(label, type_, items)
    attributes = {"shape": items.shape, "label": label}
    return graph.insert(Op("variable", (), attributes, [type_], [label]), before).output


def drop_unused(graph: Graph) -> None:
    """Remove unused operations of a graph, and variables that nothing reads."""
    EliminateDeadCode().run(graph)
    used = set(_labels(graph))
    graph.variables = {key: value for key, value in graph.variables.items() if key in used}


def _labels(graph: Graph) -> Iterator[str]:
    """The labels of the variables that a graph and its bodies read, in lower case."""
    for op in graph.ops:
        if op.name == "variable":
            yield str(op.attributes["label"]).lower()
        for body in op.bodies:
            yield from body.variables
