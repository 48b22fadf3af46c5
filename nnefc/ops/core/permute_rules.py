"""Permute rules: the attributes of an operation on transposed operands.

An operation has a permute rule if it gives the transposed result of transposed operands, perhaps
with other attributes.
"""

from __future__ import annotations

from collections.abc import Callable

from nnefc.ir import Attribute, Op

PermuteRule = Callable[[Op, tuple[int, ...]], dict[str, Attribute]]
"""`rule(op, order)` returns the attributes of `op` for operands before a transpose by `order`.

Dimension k of an operand of `op` is dimension order[k] before the transpose.
"""


def unchanged(op: Op, order: tuple[int, ...]) -> dict[str, Attribute]:
    """No attribute refers to dimensions."""
    del order
    return dict(op.attributes)


def axes(op: Op, order: tuple[int, ...]) -> dict[str, Attribute]:
    """The attribute `axes` lists dimensions; the result has the dimensions of the operand."""
    listed: tuple[int, ...] = op.attributes["axes"]
    return {**op.attributes, "axes": tuple(order[axis] for axis in listed)}


def axis(op: Op, order: tuple[int, ...]) -> dict[str, Attribute]:
    """The attribute `axis` is a dimension."""
    return {**op.attributes, "axis": order[op.attributes["axis"]]}


def padding(op: Op, order: tuple[int, ...]) -> dict[str, Attribute]:
    """The attribute `padding` has an item for every dimension."""
    by_axis: dict[int, tuple[int, int]] = dict(zip(order, op.attributes["padding"]))
    return {**op.attributes, "padding": tuple(by_axis[k] for k in range(len(order)))}
