"""Finds values that share memory: operands of concatenations, and contiguous slices.

A concatenation is free if its operands are contiguous in the result and computed there.  Contiguous
chunks of a tensor are views of it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import accumulate

from nnefc.ir import Graph, Op, Value
from nnefc.ops.core.traits import Slices
from nnefc.ops.standard.slice_pad_tile_gather import slice_ranges
from nnefc.ops.tools.cost import is_data, is_stored, largest_live_bytes
from nnefc.ops.tools.table import traits_of
from nnefc.symbolic.integers import hint


@dataclass(frozen=True, slots=True)
class BufferAlias:
    """A value that occupies the bytes of `whole` from `offset` on; `whole` is no alias itself."""

    whole: Value
    offset: int


def find_aliases(graph: Graph, excluded: Container[Value]) -> dict[Value, BufferAlias]:
    """Values that can be computed within the result of a concatenation.

    The first concatenation that reads a value aliases it; others copy.  Values that no launch
    computes (inputs, constants, variables, chunks of other values) are copied too, and so are
    `excluded` ones, which have memory already.
    """
    aliases: dict[Value, BufferAlias] = {}
    for op in graph.ops:
        if traits_of(op).slices is not Slices.OPERANDS:
            continue
        for index, operand in enumerate(op.inputs):
            value, offset = underlying(operand), concat_offset(op, index)
            if offset is None or value in aliases or value in excluded or not _is_computed(value):
                continue
            aliases[value] = BufferAlias(op.output, offset)
    for value, alias in reversed(aliases.items()):
        # an outer concatenation comes after the inner one
        if outer := aliases.get(alias.whole):
            aliases[value] = BufferAlias(outer.whole, outer.offset + alias.offset)
    return aliases


def underlying(value: Value) -> Value:
    """The value whose memory `value` shares, through any number of reshapes and copies."""
    while value.op is not None and (index := traits_of(value.op).aliased) is not None:
        value = value.op.inputs[index]
    return value


def _is_computed(value: Value) -> bool:
    """Whether launches write the value to memory of our choice."""
    op = value.op
    if op is None or is_data(op):
        return False
    return view_offset(op, value.index) is None


# -- offsets of chunks


def concat_offset(op: Op, index: int) -> int | None:
    """Byte offset of operand `index` in the result of a concatenation; None if not contiguous."""
    if traits_of(op).slices is not Slices.OPERANDS:
        return None
    return _chunk_offset(op.output, op.inputs, index, op.attributes["axis"])


def view_offset(op: Op, index: int) -> int | None:
    """Byte offset of result `index` in the operand of a slice or split; None if not contiguous."""
    match traits_of(op).slices:
        case Slices.RESULTS:
            return _chunk_offset(op.inputs[0], op.outputs, index, op.attributes["axis"])
        case Slices.RANGES:
            return _slice_offset(op)
        case _:
            return None


def _chunk_offset(whole: Value, chunks: tuple[Value, ...], index: int, axis: int) -> int | None:
    """Byte offset of chunk `index` in `whole`; None unless extents before `axis` are all 1."""
    if any(extent != 1 for extent in whole.type.dims[:axis]):
        return None
    if not _chunks_are_contiguous(whole, chunks[: index + 1], axis):
        return None
    return sum(value.type.nbytes for value in chunks[:index])


def _chunks_are_contiguous(whole: Value, chunks: tuple[Value, ...], axis: int) -> bool:
    """Whether chunks, from the first one on, have the memory layout of their range of the whole.

    Blocked chunks must consist of whole channel blocks; only the very last block may be padded.
    """
    layout = whole.type.layout
    if any(value.type.layout != layout for value in chunks):
        return False
    if layout is None:
        return True
    ends = list(accumulate(value.type.dims[1] for value in chunks))
    return axis == 1 and all(e % layout.block == 0 or e == whole.type.dims[1] for e in ends)


def _slice_offset(op: Op) -> int | None:
    """Byte offset of a slice in its operand; None if it is not contiguous."""
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
    # kernels read whole entries: behind the last channel there must be padding, not channels
    end = last.start + (last.count - 1) * last.step + 1
    fits = end % layout.entry == 0 or end == shape[1]
    if cut != [1] or last.start % layout.block or not fits:
        return None
    return type_.nbytes // layout.blocks(shape) * (last.start // layout.block)


def occupied_bytes(graph: Graph, aliases: Mapping[Value, BufferAlias]) -> dict[Op, int]:
    """Bytes in use while each operation runs, its operands and results included.

    As `nnefc.ops.tools.cost.largest_live_bytes`, but aliases and views share the memory of their
    base value, which lives from the first of them computed to the last one read.
    """
    memory: dict[Value, Value] = {}
    """The base value, which owns the memory, of every value computed so far."""
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for position, op in enumerate(graph.ops):
        for value in op.inputs:
            last[memory.get(value, value)] = position
        for value in op.outputs:
            base = _container(value, aliases)
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


def _container(value: Value, aliases: Mapping[Value, BufferAlias]) -> Value:
    """The value that `value` is an alias or a view of, perhaps one itself; else `value`."""
    op = value.op
    assert op is not None
    if alias := aliases.get(value):
        return alias.whole
    if (index := traits_of(op).aliased) is not None:
        return op.inputs[index]
    return value if view_offset(op, value.index) is None else op.inputs[0]
