"""Lowering of operations that compute nothing: constants, variables, views, updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnefc.ir import Op
from nnefc.lower.context import Lowering, lowering

if TYPE_CHECKING:
    import numpy as np


@lowering("constant")
def constant(lower: Lowering, op: Op) -> None:
    """Known data; a single value is broadcast (NNEF 1.0.2 section 4.1.2)."""
    lower.set_data(op.output, constant_data(op))


def constant_data(op: Op) -> np.ndarray[Any, Any]:
    """The items of a `constant` operation, of its shape and type."""
    import numpy as np

    type_ = op.output.type
    value = op.attributes["value"]
    items = np.asarray(value, dtype=type_.dtype.numpy).reshape(-1)
    if items.size == 1:
        return np.broadcast_to(items.reshape((1,) * type_.rank), type_.dims)
    return items.reshape(type_.dims)


@lowering("reshape", "squeeze", "unsqueeze")
def view(lower: Lowering, op: Op) -> None:
    """The same bytes with another shape."""
    lower.alias(op.output, op.inputs[0])


@lowering("update")
def update(lower: Lowering, op: Op) -> None:
    """The result is the new value; the variable itself changes at the end of the cycle."""
    lower.alias(op.output, op.inputs[1])
