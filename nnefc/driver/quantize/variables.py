"""Variables of a graph: insert, drop and check them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ir.graph import Variable
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.support.errors import NnefError
from nnefc.support.names import plain_label, unused_name

Array = np.ndarray[Any, Any]


def add_variable(graph: Graph, name: str, items: Array, before: Op) -> Value:
    """A new variable in front of an operation, with `name` or with a number behind it.

    `_` replaces characters that labels do not have.  The items are kept, and cannot be written to
    any more.
    """
    label = unused_name(plain_label(name), graph.variables, ignore_case=True)
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


def label_of(value: Value) -> str:
    """The label of a variable; "" for other values."""
    is_variable = value.op is not None and value.op.name == "variable"
    return str(value.op.attributes["label"]) if value.op is not None and is_variable else ""


def require_finite(value: Value, items: Array) -> None:
    """Raise NnefError `quantization/finite` for a weight with NaN or infinities."""
    require_finite_items(label_of(value) or value.name, items)


def require_finite_items(name: str, items: Array) -> None:
    """Raise NnefError `quantization/finite` for a weight with NaN or infinities."""
    wrong = items[~np.isfinite(items)]
    if wrong.size:
        message = f"weight '{name}' has {wrong[0]} among its items"
        raise NnefError.of("quantization/finite", message, hint="train it with finite values")
