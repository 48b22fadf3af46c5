"""Broadcasting (4.2.2), aligned at dimension 0: shapes in shape rules, arrays in references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnefc.ir import DType, Shape, TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.spec import Call
from nnefc.ops.core.value_text import enumeration, listing


def broadcast(call: Call, *operands: str) -> Shape:
    """The shape that operands broadcast to (4.2.2), aligned at dimension 0."""
    shapes = {name: call.shape(name) for name in operands}
    return broadcast_shapes(call, shapes)


def broadcast_shapes(call: Call, shapes: dict[str, Shape]) -> Shape:
    """The shape that named shapes broadcast to; records a problem if they do not."""
    first, *others = shapes.values() or [()]
    if all(shape == first for shape in others):
        return first
    rank = max(map(len, shapes.values()))
    result: list[int] = []
    for dimension in range(rank):
        extents = [s[dimension] for s in shapes.values() if dimension < len(s)]
        common = next((extent for extent in extents if extent != 1), 1)
        if any(extent not in (1, common) for extent in extents):
            named = ", ".join(f"{name}.shape = {listing(s)}" for name, s in shapes.items())
            call.require(
                False,
                f"extents of {enumeration(shapes)} must be equal or singular: "
                f"{named} differ in dimension {dimension}",
            )
        result.append(common)
    return tuple(result)


def broadcasting(*operands: str, dtype: DType | None = None) -> Callable[[Call], TensorType]:
    """The shape rule of operations that broadcast their operands.

    The result has the item type `dtype`, or that of the last operand.
    """

    def rule(call: Call) -> TensorType:
        return TensorType(dtype or call.dtype(operands[-1]), broadcast(call, *operands))

    return rule


def same(operand: str) -> Callable[[Call], TensorType]:
    """The shape rule of operations whose result has the type and shape of `operand`."""

    def rule(call: Call) -> TensorType:
        return TensorType(call.dtype(operand), call.shape(operand))

    return rule


def align(*arrays: Array) -> list[Array]:
    """The arrays with trailing singular dimensions added: NumPy then broadcasts as NNEF does."""
    rank = max(a.ndim for a in arrays)
    return [a.reshape(a.shape + (1,) * (rank - a.ndim)) for a in arrays]


def aligned(function: Callable[..., Any]) -> Callable[..., Array]:
    """`function`, applied to arrays that `align` has prepared for broadcasting."""

    def reference(*arrays: Array) -> Array:
        return np.asarray(function(*align(*arrays)))

    return reference
