"""append: writes items into the memory of an input, behind the items that it holds."""

from __future__ import annotations

import numpy as np

from nnefc.ir import TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.axes import axis_attribute, axis_within
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import STORAGE
from nnefc.ops.core.value_text import listing

NAME = "append"


def _append(call: Call) -> TensorType:
    memory, items = call.shape("memory"), call.shape("items")
    axis = axis_attribute(call)
    begin: int = call["begin"]
    axis_within(call, axis, len(memory), "memory")
    call.stop_if_wrong()
    others = [(*shape[:axis], *shape[axis + 1 :]) for shape in (memory, items)]
    call.require(
        len(memory) == len(items) and others[0] == others[1],
        f"memory and items must have equal extents except along axis {axis}: "
        f"memory.shape = {listing(memory)}, items.shape = {listing(items)}",
    )
    call.stop_if_wrong()
    call.require(
        0 <= begin <= memory[axis] - items[axis],
        f"there must be room for items: begin = {begin}, "
        f"memory.shape = {listing(memory)}, items.shape = {listing(items)}",
    )
    return TensorType(call.dtype("items"), items)


def append(memory: Array, items: Array, *, axis: int, begin: int) -> Array:
    """The items, which the interpreter writes into the memory."""
    room = memory[(*(slice(None),) * axis, slice(begin, begin + items.shape[axis]))]
    return np.broadcast_to(items, room.shape)


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name=NAME,
        signature="fragment append<?>( memory: tensor<?>, items: tensor<?>, axis: integer, "
        "begin: integer ) -> ( result: tensor<?> )",
        section="tract",
        summary="Writes items into the memory of an input, from `begin` on; no other operation "
        "reads them there.",
        infer=_append,
        reference=append,
        traits=STORAGE,
        pure=False,
        samples=(
            Sample(inputs=((2, 5, 3), (2, 2, 3)), attributes={"axis": 1, "begin": 3}),
            Sample(inputs=((2, 5, 3), (2, 5, 1)), attributes={"axis": 2, "begin": 0}),
            Sample(inputs=((4,), (1,)), attributes={"axis": 0, "begin": 2}, data="logical"),
        ),
    ),
)
