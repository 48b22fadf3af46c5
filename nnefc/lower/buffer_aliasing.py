"""Values that are parts of others: what is concatenated is computed right where it belongs.

A concatenation whose operands lie one after the other in its result costs nothing if they are
computed there, and chunks of a tensor that lie in it without gaps are views of it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from nnefc.ir import Graph, Op, Value
from nnefc.ops.standard.slicing import slice_ranges
from nnefc.ops.tools.cost import is_stored, largest_live_bytes
from nnefc.symbolic.integers import hint

VIEWS: Final = {"reshape": 0, "squeeze": 0, "unsqueeze": 0, "copy_n": 0, "update": 1}
"""Operations whose results are the memory of the operand with this index."""


@dataclass(frozen=True, slots=True)
class BufferAlias:
    """A value whose bytes are those of `whole`, itself no part, from `offset` on."""

    whole: Value
    offset: int


def find_aliases(graph: Graph, elsewhere: Container[Value]) -> dict[Value, BufferAlias]:
    """Values that can be computed within others, with the bytes from where on.

    A value is in one place: the first concatenation has it, others copy.  What is not computed
    (inputs, constants, variables, chunks of other values) and what is computed `elsewhere` is
    copied, too.
    """
    parts: dict[Value, BufferAlias] = {}
    for op in graph.ops:
        if op.name not in ("concat", "stack"):
            continue
        for index, operand in enumerate(op.inputs):
            value, offset = source(operand), joined_at(op, index)
            if offset is None or value in parts or value in elsewhere or not _is_computed(value):
                continue
            parts[value] = BufferAlias(op.output, offset)
    for value, part in reversed(parts.items()):
        # what takes in the whole stands after it
        if outer := parts.get(part.whole):
            parts[value] = BufferAlias(outer.whole, outer.offset + part.offset)
    return parts


def source(value: Value) -> Value:
    """The value in whose memory `value` is as a whole."""
    while value.op is not None and value.op.name in VIEWS:
        value = value.op.inputs[VIEWS[value.op.name]]
    return value


def _is_computed(value: Value) -> bool:
    """Whether launches write the value where they are told."""
    op = value.op
    if op is None or op.name in ("constant", "variable"):
        return False
    return taken_at(op, value.index) is None


# -- where a part lies in the whole


def joined_at(op: Op, index: int) -> int | None:
    """Bytes into the result where all of operand `index` lies; None if it is not in one piece."""
    if op.name not in ("concat", "stack"):
        return None
    return _chunk(op.output, op.inputs, index, op.attributes["axis"])


def taken_at(op: Op, index: int) -> int | None:
    """Bytes into the operand where all of result `index` lies; None if it is not in one piece."""
    if op.name in ("split", "unstack"):
        return _chunk(op.inputs[0], op.outputs, index, op.attributes["axis"])
    return _slice(op) if op.name == "slice" else None


def _chunk(whole: Value, chunks: tuple[Value, ...], index: int, axis: int) -> int | None:
    """Where chunk `index` of `whole` starts, if all that is before `axis` is singular."""
    if any(extent != 1 for extent in whole.type.dims[:axis]):
        return None
    if not _blocks_fit(whole, chunks[: index + 1], axis):
        return None
    return sum(value.type.nbytes for value in chunks[:index])


def _blocks_fit(whole: Value, chunks: tuple[Value, ...], axis: int) -> bool:
    """Whether chunks, from the first one on, lie in memory as their part of the whole does.

    Blocked ones are whole blocks of channels; the last block of all may be filled up.
    """
    layout = whole.type.layout
    if any(value.type.layout != layout for value in chunks):
        return False
    if layout is None:
        return True
    ends = list(accumulate(value.type.dims[1] for value in chunks))
    return axis == 1 and all(e % layout.block == 0 or e == whole.type.dims[1] for e in ends)


def _slice(op: Op) -> int | None:
    """Where the result of a slice starts, if all before the last dimension it cuts is singular."""
    type_, a = op.inputs[0].type, op.attributes
    shape, layout = type_.dims, type_.layout
    ranges = slice_ranges(shape, a["axes"], a["begin"], a["end"], a.get("stride", ()))
    cut = [d for d, taken in enumerate(ranges) if not taken.take_all(shape[d])]
    if op.output.type.layout != layout:
        return None
    if not cut:
        return 0
    last = ranges[cut[-1]]
    if any(r.count != 1 for r in ranges[: cut[-1]]) or (last.step != 1 and last.count > 1):
        return None
    if layout is None:
        items = sum(r.start * math.prod(shape[d + 1 :]) for d, r in enumerate(ranges))
        return items * type_.dtype.itemsize
    # what follows the last channel is read, too, where it fills up an entry
    fits = last.stop % layout.entry == 0 or last.stop == shape[1]
    if cut != [1] or last.start % layout.block or not fits:
        return None
    return type_.nbytes // layout.blocks(shape) * (last.start // layout.block)


def occupied_bytes(graph: Graph, parts: Mapping[Value, BufferAlias]) -> dict[Op, int]:
    """The memory that is in use while an operation runs: what it takes and gives included.

    As `nnefc.ops.tools.cost.largest_live_bytes`, but the memory of a value is all of that which it
    is a part or a view of, from the first of these that is computed to the last one that is read.
    """
    memory: dict[Value, Value] = {}
    """Of what was computed before, the value that has memory of its own, in which it is."""
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for position, op in enumerate(graph.ops):
        for value in op.inputs:
            last[memory.get(value, value)] = position
        for value in op.outputs:
            base = _within(value, parts)
            memory[value] = memory.get(base, base)
            first.setdefault(memory[value], position)
    for value in graph.outputs:
        last[memory.get(value, value)] = len(graph)
    changes = [0] * (len(graph) + 2)
    for value, position in first.items():
        if value in last and not is_stored(value) and value.op is not None:
            nbytes = hint(value.type.nbytes)
            changes[position] += nbytes
            changes[last[value] + 1] -= nbytes
    return {
        op: occupied + max(map(largest_live_bytes, op.bodies), default=0)
        for op, occupied in zip(graph.ops, accumulate(changes), strict=False)
    }


def _within(value: Value, parts: Mapping[Value, BufferAlias]) -> Value:
    """What a computed value is a part or a view of, perhaps itself one; else the value."""
    op = value.op
    assert op is not None
    if part := parts.get(value):
        return part.whole
    if op.name in VIEWS:
        return op.inputs[VIEWS[op.name]]
    return value if taken_at(op, value.index) is None else op.inputs[0]
