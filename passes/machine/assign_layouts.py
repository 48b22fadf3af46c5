"""Assign channel-blocked layouts to values and insert conversions (NeoCPU, Liu et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nnefc.ir import Blocked, Graph, Op, Value
from nnefc.ir.convolution_algorithm import Direct
from nnefc.ops.core.blocked_rules import WORD_CODES
from nnefc.ops.core.window_arithmetic import Padding, convolution_groups
from nnefc.ops.tools.convolution import is_blocked_convolution, is_code_convolution
from nnefc.ops.tools.table import traits_of
from nnefc.passes.analysis.blocked_support import (
    blocked_operands,
    blocked_operations,
    fill_needed,
    halo_needed,
    in_reach,
)
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.cost.convolution import FEW_CHANNELS


@dataclass(frozen=True)
class AssignLayouts:
    """Assign blocked layouts to convolutions and the operations between them.

        %0: float32[1,32,16,16] = fused_conv(%x, %w, %b) {..., algorithm = direct}
        %y: float32[1,32,8,8] = max_pool(%0) {...}

    becomes

        %1: float32[1,3,16,16] blocked(1, [1, 1], [1, 1]) = layout(%x)
        %0: float32[1,32,16,16] blocked(8, [0, 0], [0, 0]) = fused_conv(%1, %w, %b)
          {..., algorithm = direct}
        %2: float32[1,32,8,8] blocked(8, [0, 0], [0, 0]) = max_pool(%0) {...}
        %y: float32[1,32,8,8] = layout(%2)

    Convolutions always compute on blocked tensors, poolings where that is faster, and other
    operations with a blocked rule if an operand is blocked.  The halo of a value is the union of
    the halos that its users need.  Where that would be far too large (users that are wide in
    different dimensions), some users read a copy; so do users of codes with other zero points.
    """

    name: ClassVar[str] = "assign_layouts"
    enters_loops: ClassVar[bool] = False
    block: int = 8
    """Channels in a block."""
    half_block: int = 0
    """Channels in a block of bfloat16 between convolutions; 0 for `block`."""

    def run(self, graph: Graph) -> bool:
        known = KnownValues(graph)
        chosen = blocked_operations(graph, known, self.block)
        if not chosen:
            return False
        halos, fills = _halos(chosen, known, self.block), _fills(chosen, known)
        for op in chosen:
            for value in op.outputs:
                block = self.half_block if self._has_half_blocks(op, value) else self.block
                layout = _layout(value, block, halos[value], fills.get(value, 0))
                value.type = value.type.with_layout(layout)
        _Converter(graph, chosen, self.block, halos, known).run()
        return True

    def _has_half_blocks(self, op: Op, value: Value) -> bool:
        """Whether a convolution of bfloat16, or maxima of one, write `value` for others."""
        x = op.inputs[0].type
        if not (self.half_block and x.dtype.is_half and value.type.dtype.is_half):
            return False
        if op.name == "max_pool":
            return x.layout is not None and x.layout.block == self.half_block
        return is_blocked_convolution(op)


def _halos(chosen: dict[Op, None], known: KnownValues, block: int) -> dict[Value, Padding]:
    """The halo of every blocked value: the union of the halos that its users need.

    Operands and results that are slices of each other get equal halos, which avoids copies.  A halo
    is widened only while int32 offsets reach all pixels and the halo is small.
    """
    halos: dict[Value, Padding] = {}
    channels: dict[Value, int] = {}
    """The most channels over which a user sums, by value."""
    for op in chosen:
        for value in (*op.outputs, *(op.inputs[i] for i in blocked_operands(op, known))):
            halos[value] = ((0, 0),) * (value.type.rank - 2)
        if is_blocked_convolution(op) or is_code_convolution(op):
            x = op.inputs[0]
            group = x.type.dims[1] // convolution_groups(x.type.dims, op.attributes)
            channels[x] = max(channels.get(x, 1), group)

    def widen(value: Value, needed: Padding) -> bool:
        wider = _union(halos[value], needed)
        plane, summed = value.type.dims[2:], channels.get(value, 1)
        if wider == halos[value] or not in_reach(plane, summed, _layout(value, block, wider)):
            return False
        halos[value] = wider
        return True

    for op in chosen:
        for index in blocked_operands(op, known):
            widen(op.inputs[index], halo_needed(op, index))
    slices = [op for op in chosen if traits_of(op).slices is not None]
    changed = True
    while changed:
        changed = False
        for op in slices:
            connected = [*op.outputs, *(op.inputs[i] for i in blocked_operands(op, known))]
            for value in connected:
                for other in connected:
                    changed |= widen(value, halos[other])
    return halos


def _fills(chosen: dict[Op, None], known: KnownValues) -> dict[Value, int]:
    """The item of the halo of a blocked value that its first user with a halo needs."""
    fills: dict[Value, int] = {}
    for op in chosen:
        for index in blocked_operands(op, known):
            fill = fill_needed(op, index, known)
            if fill is not None:
                fills.setdefault(op.inputs[index], fill)
    return fills


def _layout(value: Value, block: int, halo: Padding, fill: int = 0) -> Blocked:
    """The blocked layout with a halo for the items of `value`."""
    has_halo = any(map(any, halo))
    return Blocked(block, halo, value.type.dtype.itemsize, fill if has_halo else 0)


def _union(x: Padding, y: Padding) -> Padding:
    """The smallest halo that covers both."""
    return tuple((max(a, c), max(b, d)) for (a, b), (c, d) in zip(x, y, strict=True))


class _Converter:
    """Inserts a `layout` operation where an operation needs a value in another layout."""

    def __init__(
        self,
        graph: Graph,
        chosen: dict[Op, None],
        block: int,
        halos: dict[Value, Padding],
        known: KnownValues,
    ) -> None:
        self._graph, self._chosen, self._block = graph, chosen, block
        self._halos, self._known = halos, known
        self._twins: dict[tuple[Value, Blocked | None], Value] = {}

    def run(self) -> None:
        for op in list(self._graph.ops):
            if op in self._chosen:
                for index in blocked_operands(op, self._known):
                    self._block_operand(op, index)
            else:
                for index, value in enumerate(op.inputs):
                    if value.type.layout is not None:
                        op.set_input(index, self._twin(value, None, op))
        outputs = [
            v if v.type.layout is None else self._twin(v, None, None) for v in self._graph.outputs
        ]
        self._graph.outputs = outputs

    def _block_operand(self, op: Op, index: int) -> None:
        """Convert operand `index` of a blocked operation to a blocked layout, if necessary."""
        value, halo = op.inputs[index], self._halos[op.inputs[index]]
        needed = halo_needed(op, index)
        fill = fill_needed(op, index, self._known)
        before = value.type.layout
        if before is not None and fill is None:
            fill = before.fill
        elif before is not None and before.fill != fill:
            halo = needed
        if _union(halo, needed) != halo:
            halo = needed
        block = before.block if before is not None else self._first_block(op, index)
        op.set_input(index, self._twin(value, _layout(value, block, halo, fill or 0), op))

    def _first_block(self, op: Op, index: int) -> int:
        """Channels in a block of an operand that is row-major: fewer for few channels."""
        channels = op.inputs[index].type.dims[1]
        if is_code_convolution(op) and index == 0:
            one_group = convolution_groups(op.inputs[index].type.dims, op.attributes) == 1
            return WORD_CODES if channels <= WORD_CODES and one_group else self._block
        is_first = index == 0 and op.attributes.get("algorithm") == Direct()
        if is_first and op.inputs[0].type.dtype.is_half:
            return FEW_CHANNELS if channels <= FEW_CHANNELS else self._block
        few = is_first and channels <= FEW_CHANNELS and op.attributes["groups"] == 1
        return 1 if few else self._block

    def _twin(self, value: Value, layout: Blocked | None, before: Op | None) -> Value:
        """`value` in `layout`, converted before an operation if it has another layout."""
        if value.type.layout == layout:
            return value
        twin = self._twins.get((value, layout))
        if twin is None:
            op = Op("layout", [value], {}, [value.type.with_layout(layout)])
            self._graph.insert(op, before)
            twin = self._twins[value, layout] = op.output
        return twin
