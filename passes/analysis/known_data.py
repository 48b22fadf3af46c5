"""Values known at compile time: constants, variables that are never updated, views of both."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ir import Graph, Location, Op, TensorType, Value
from nnefc.ops.standard.external_constant_variable import constant
from nnefc.passes.op_queries import is_view, splat_op
from nnefc.symbolic.integers import is_symbolic

Array = np.ndarray[Any, Any]


class KnownValues:
    """The items of values that are equal in every run; `value in known` is cheap.

    Known are constants, variables without `update`, and their views and widening conversions.
    """

    def __init__(self, graph: Graph) -> None:
        updated = {
            op.inputs[0].op.attributes["label"].lower()
            for op in graph.ops
            if op.name == "update" and op.inputs[0].op is not None
        }
        self._variables = {
            key: variable.data
            for key, variable in graph.variables.items()
            if variable.data is not None and key not in updated
        }

    def items(self, value: Value) -> Array | None:
        """The items of `value` in its shape; None if they are not known.

        Items of a constant may have a wider type than `value`.  Widening conversions are computed
        at every call.
        """
        op = value.op
        if op is None:
            return None
        if op.name == "constant":
            return constant(**op.attributes)
        if op.name == "variable":
            return self._variables.get(op.attributes["label"].lower())
        stored = self.items(op.inputs[0]) if _passes_on(op) else None
        if stored is None:
            return None
        if is_widening(op):
            return stored.astype(value.type.dtype.numpy)
        return stored.reshape(value.type.dims)

    def __contains__(self, value: Value) -> bool:
        op = value.op
        if op is None:
            return False
        if op.name == "variable":
            return op.attributes["label"].lower() in self._variables
        return op.name == "constant" or (_passes_on(op) and op.inputs[0] in self)


def _passes_on(op: Op) -> bool:
    """Whether `op` is a widening conversion, or a view with a known shape."""
    if is_widening(op):
        return True
    return is_view(op) and not is_symbolic(op.output.type.shape or ())


def is_widening(op: Op) -> bool:
    """Whether `op` converts to a wider type that represents all items exactly."""
    if op.name != "cast":
        return False
    stored, wide = op.inputs[0].type.dtype, op.output.type.dtype
    if stored.is_float:
        return wide.is_float and stored.itemsize < wide.itemsize
    # floats with twice the bits represent all integers, and logicals
    return wide.is_float and 0 < 2 * stored.itemsize <= wide.itemsize


def constant_op(items: Array, type_: TensorType, location: Location | None) -> Op:
    """A constant of `items`, broadcast and rounded to `type_`; it is not inserted into a graph."""
    data = np.array(np.broadcast_to(items, type_.dims), type_.dtype.numpy, order="C")
    if data.size == 1:
        return splat_op(type_, data.item(), location)
    data.flags.writeable = False
    return Op("constant", (), {"shape": type_.dims, "value": data}, [type_], location=location)
