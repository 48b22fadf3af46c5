"""Items of values that do not depend on the inputs of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ir import Value
from nnefc.ops.core.arrays import Array
from nnefc.symbolic.integers import is_symbolic


def known_items(value: Value) -> Array | None:
    """The items of a constant, of a variable without `update`, or of a reshaped one; else None.

    A constant of equal items may give a single one.
    """
    op = value.op
    if op is None:
        return None
    if op.name == "constant":
        stored: Any = op.attributes["value"]
        items = np.asarray(stored)
        return items.reshape(() if items.size == 1 else value.type.dims)
    if op.name == "reshape" and not is_symbolic(value.type.dims):
        source = known_items(op.inputs[0])
        return source if source is None or not source.ndim else source.reshape(value.type.dims)
    if op.name != "variable" or op.graph is None:
        return None
    if any(user.name == "update" for user in value.users):
        return None
    variable = op.graph.variables.get(str(op.attributes["label"]).lower())
    return None if variable is None else variable.data
