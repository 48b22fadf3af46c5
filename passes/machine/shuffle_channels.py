"""Fuse channel shuffles, which networks write as reshape, transpose, reshape (ShuffleNet)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar, Final

from nnefc.ir import Graph, Op, Value
from nnefc.ops.core.blocked_rules import has_blocked_kernels
from nnefc.ops.standard.slice_pad_tile_gather import slice_ranges
from nnefc.passes.op_queries import only_user, producer


@dataclass(frozen=True)
class ShuffleChannels:
    """Fuse a channel shuffle with the concatenation before it and the split after it.

        %0: float32[1,6,9,9] = concat(%a, %b) {axis = 1}
        %1: float32[1,2,3,9,9] = reshape(%0) {shape = [1, 2, 3, 9, 9], ...}
        %2: float32[1,3,2,9,9] = transpose(%1) {axes = [0, 2, 1, 3, 4]}
        %3: float32[1,6,9,9] = reshape(%2) {shape = [1, 6, 9, 9], ...}
        %y: float32[1,3,9,9], %z: float32[1,3,9,9] = split(%3) {axis = 1, ratios = [1, 1]}

    becomes

        %y: float32[1,3,9,9] = shuffle_channels(%a, %b) {source = [0, 3, 1]}
        %z: float32[1,3,9,9] = shuffle_channels(%a, %b) {source = [4, 2, 5]}

    Channel c of the result is channel source[c] of the concatenated operands.  Slices of channels
    serve as a split does.
    """

    name: ClassVar[str] = "shuffle_channels"
    enters_loops: ClassVar[bool] = False

    def run(self, graph: Graph) -> bool:
        reshapes = [op for op in graph.ops if op.name == "reshape"]
        return sum(_rewrite(graph, op) for op in reshapes) > 0


def _rewrite(graph: Graph, op: Op) -> bool:
    """Replace the shuffle that ends with the reshape `op`; returns whether it was one."""
    shuffle = _shuffle(op)
    if shuffle is None:
        return False
    x, source = shuffle
    for value, first in _chunks(graph, op.output) or [(op.output, 0)]:
        taken = source[first : first + value.type.dims[1]]
        _insert_shuffle(graph, op, value, _pieces(graph, x), taken)
    _erase_unused(graph, [*op.output.users, op])
    return True


def _shuffle(op: Op) -> tuple[Value, tuple[int, ...]] | None:
    """(operand, source of each channel of the result) of the shuffle that ends with `op`."""
    transpose = producer(op.inputs[0], "transpose")
    grouped = None if transpose is None else producer(transpose.inputs[0], "reshape")
    if transpose is None or grouped is None:
        return None
    x, groups = grouped.inputs[0], grouped.output.type.dims
    if x.type != op.output.type or not has_blocked_kernels(x.type.dtype) or x.type.rank < 3:
        return None
    batch, channels, *extents = x.type.dims
    if len(groups) < 3 or groups != (batch, groups[1], channels // groups[1], *extents):
        return None
    if tuple(transpose.attributes["axes"]) != (0, 2, 1, *range(3, len(groups))):
        return None
    each = channels // groups[1]
    return x, tuple(g * each + c for c in range(each) for g in range(groups[1]))


def _pieces(graph: Graph, x: Value) -> tuple[Value, ...]:
    """The operands of the concatenation `x` if only the shuffle uses it; else `x` itself."""
    concat = producer(x, "concat")
    if concat is None or only_user(graph, x) is None:
        return (x,)
    return concat.inputs if concat.attributes["axis"] == 1 else (x,)


def _chunks(graph: Graph, value: Value) -> list[tuple[Value, int]]:
    """The chunks of channels that a split or slices take, with their first channels.

    Empty if `value` has other uses.
    """
    split = only_user(graph, value, "split")
    if split is not None and split.attributes["axis"] == 1:
        ends = itertools.accumulate(each.type.dims[1] for each in split.outputs)
        return [(each, end - each.type.dims[1]) for each, end in zip(split.outputs, ends)]
    slices = [op for op in value.users if op.name == "slice"]
    firsts = [_first_channel(op) for op in slices]
    if graph.is_output(value) or len(slices) < len(value.users) or None in firsts:
        return []
    return [(op.output, first) for op, first in zip(slices, firsts) if first is not None]


def _first_channel(op: Op) -> int | None:
    """The first of the adjacent channels that a slice takes; None if it takes something else."""
    a, dims = op.attributes, op.inputs[0].type.dims
    ranges = slice_ranges(dims, a["axes"], a["begin"], a["end"], a["stride"])
    others = all(r.take_all(n) for d, (r, n) in enumerate(zip(ranges, dims)) if d != 1)
    return ranges[1].start if others and ranges[1].step == 1 else None


def _insert_shuffle(
    graph: Graph, before: Op, value: Value, inputs: tuple[Value, ...], source: tuple[int, ...]
) -> None:
    """Replace `value` by a shuffle of the channels of `inputs`."""
    attributes = {"source": source}
    new = Op("shuffle_channels", inputs, attributes, [value.type], [value.name], before.location)
    graph.insert(new, before)
    graph.replace_value(value, new.output)


def _erase_unused(graph: Graph, ops: list[Op]) -> None:
    """Erase unused operations, and the operations of the shuffle that only they used."""
    while ops:
        op = ops.pop(0)
        if any(v.users or graph.is_output(v) for v in op.outputs):
            continue
        operands = [v.op for v in op.inputs]
        graph.erase(op)
        ops += [o for o in operands if o is not None and o.name in _PATTERN and o not in ops]


_PATTERN: Final = ("reshape", "transpose", "concat")
"""The operations of the pattern of a shuffle."""
