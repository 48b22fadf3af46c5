"""Concatenation, splitting, slicing and shuffling of the channels of blocked tensors.

Whole blocks are copied, unless they are in place already (`lower.buffer_aliasing`).  Lane shuffles
assemble other blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby

import numpy as np

from nnefc.ir import Op
from nnefc.kernels.movement import channels as kernels
from nnefc.kernels.movement.channels import NO_SOURCE, Pattern, channels_layout
from nnefc.lower.blocked.layout import copy
from nnefc.lower.blocked.tensors import Tensor, read_blocked, write_blocked, write_halo
from nnefc.lower.buffer_aliasing import view_offset
from nnefc.lower.context import Lowering, blocked_lowering, lowering
from nnefc.lower.partition import band_count, ceil_div, units_per_tile
from nnefc.ops.standard.slice_pad_tile_gather import slice_ranges
from nnefc.program.program import Ref
from nnefc.program.tables.planes import common_runs
from nnefc.support.machine_model import VECTOR_ITEMS_PER_NS
from nnefc.symbolic.integers import hint
from nnefc.symbolic.traced_array import length, traced_call

MAX_PATTERNS = 24
"""With more distinct shuffles than this, items are moved one by one."""
PATTERN_BYTES = 4
"""Bytes of a lane of a pattern."""
SHUFFLE_UNIT_PIXELS = 512
"""Approximate pixels of a unit of a shuffle."""

Channel = tuple[int, int]
"""(index of a source, channel of the source)"""


@blocked_lowering("concat")
def concat(lower: Lowering, op: Op) -> None:
    """Copy the operands that were not computed in place."""
    y = Tensor.whole(lower.write(op.output), op.output.type)
    sources = [read_blocked(lower, value) for value in op.inputs]
    firsts = accumulate((x.channels for x in sources), initial=0)
    in_place = {i for i, (x, first) in enumerate(zip(sources, firsts)) if _is_in_place(x, y, first)}
    if len(in_place) == len(sources):
        return
    if y.layout.has_halo:
        write_halo(lower, y)
    channels = [(i, c) for i, x in enumerate(sources) for c in range(x.channels)]
    map_channels(lower, sources, y, channels, in_place)


def _is_in_place(x: Tensor, y: Tensor, first: int) -> bool:
    """Whether x occupies the memory of the channels of y from `first` on."""
    if x.layout != y.layout or first % y.layout.block or y.batch > 1:
        return False
    return replace(x.at, writes=True) == y.channel_slice(first, x.channels).at


@blocked_lowering("split")
def split(lower: Lowering, op: Op) -> None:
    """Chunks of whole blocks are views; others are copied."""
    first = 0
    for index, value in enumerate(op.outputs):
        at, count = view_offset(op, index), value.type.dims[1]
        if at is not None:
            lower.alias(value, op.inputs[0], at)
        else:
            x = read_blocked(lower, op.inputs[0])
            channels = [(0, c) for c in range(first, first + count)]
            map_channels(lower, [x], write_blocked(lower, value), channels)
        first += count


@blocked_lowering("slice")
def slice_(lower: Lowering, op: Op) -> None:
    """A slice along channels; whole blocks are a view."""
    at, a = view_offset(op, 0), op.attributes
    if at is not None:
        lower.alias(op.output, op.inputs[0], at)
        return
    shape = op.inputs[0].type.dims
    taken = slice_ranges(shape, a["axes"], a["begin"], a["end"], a.get("stride", ()))[1]
    x = read_blocked(lower, op.inputs[0])
    map_channels(lower, [x], write_blocked(lower, op.output), [(0, c) for c in taken.all])


@lowering("shuffle_channels")
@blocked_lowering("shuffle_channels")
def shuffle_channels(lower: Lowering, op: Op) -> None:
    """Channel c of the result is channel source[c] of the concatenated operands."""
    sources = [read_blocked(lower, value) for value in op.inputs]
    everything = [(i, c) for i, x in enumerate(sources) for c in range(x.channels)]
    order: tuple[int, ...] = op.attributes["source"]
    channels = [everything[c] for c in order]
    y = write_blocked(lower, op.output)
    if y.layout.block > 1:
        map_channels(lower, sources, y, channels)
    else:
        lanes = [[channel] for channel in channels]
        _LaneShuffle(sources, y, range(y.channels), lanes).launch(lower)


def map_channels(
    lower: Lowering,
    sources: Sequence[Tensor],
    y: Tensor,
    channels: Sequence[Channel],
    in_place: set[int] | frozenset[int] = frozenset(),
) -> None:
    """Set channel c of y to `channels[c]`; sources `in_place` are in the memory of y already."""
    size = y.layout.block
    lanes: list[list[Channel | None]] = []
    for first in range(0, y.channels, size):
        some: list[Channel | None] = list(channels[first : first + size])
        lanes.append(some + [None] * (size - len(some)))
    whole = [_whole_block(sources, some) for some in lanes]
    rest: list[int] = []
    for (source, _), run in groupby(enumerate(whole), key=lambda item: _copy_key(*item)):
        numbers = [number for number, _ in run]
        block = whole[numbers[0]]
        if block is None:
            rest += numbers
        elif source not in in_place:
            count = min(len(numbers) * size, y.channels - numbers[0] * size)
            x = sources[source].channel_slice(block[1] * size, count)
            copy(lower, x, y.channel_slice(numbers[0] * size, count))
    if rest:
        _LaneShuffle(sources, y, rest, [lanes[number] for number in rest]).launch(lower)


def _whole_block(
    sources: Sequence[Tensor], lanes: Sequence[Channel | None]
) -> tuple[int, int] | None:
    """(source, block) if the lanes are all lanes of a block in order, padding included."""
    first = lanes[0]
    assert first is not None
    source, channel = first
    x = sources[source]
    if channel % x.layout.block:
        return None
    count = min(x.channels - channel, x.layout.block)
    in_place = [(source, channel + i) if i < count else None for i in range(x.layout.block)]
    return (source, channel // x.layout.block) if list(lanes) == in_place else None


def _copy_key(number: int, block: tuple[int, int] | None) -> tuple[int, int]:
    """A key that is equal for consecutive blocks that one copy can move."""
    return (-1, 0) if block is None else (block[0], block[1] - number)


@dataclass(frozen=True, slots=True)
class _LaneShuffle:
    """Blocks of y, given by `numbers`, that are assembled from lanes of several blocks."""

    sources: Sequence[Tensor]
    y: Tensor
    numbers: Sequence[int]
    lanes: Sequence[Sequence[Channel | None]]

    def launch(self, lower: Lowering) -> None:
        y, count = self.y, len(self.sources)
        item, size = str(y.dtype), y.layout.block
        patterns: dict[Pattern, int] = {}
        steps = [self._shuffles(some, patterns) for some in self.lanes]
        table, kernel = np.array(list(patterns), np.int32), kernels.shuffle(item, size)
        if len(patterns) > MAX_PATTERNS:
            steps = [[self._item(lane) for lane in some] for some in self.lanes]
            table, kernel = table[:1], kernels.lanes(item, size)
        pixels = math.prod(y.spatial)
        parts = band_count(hint(pixels), lower.threads)
        (runs,) = traced_call(common_runs, tuple(each.plane for each in (y, *self.sources)), parts)
        parts *= max(hint(pixels) // (parts * SHUFFLE_UNIT_PIXELS), 1)
        run_count = length(runs)
        run_block = ceil_div(run_count, parts)
        units = y.batch * len(self.numbers) * ceil_div(run_count, run_block)
        items = pixels * run_block / run_count * size
        unit_block = units_per_tile(units, items / VECTOR_ITEMS_PER_NS, lower.threads)
        words = channels_layout(count).pack(
            y=y.at,
            **{f"x{i}": Ref(x.at.buffer, x.at.offset) for i, x in enumerate(self.sources)},
            runs=lower.table(runs),
            y_batch=y.batch_bytes,
            y_plane=y.plane_bytes,
            batches=[x.batch_bytes for x in self.sources],
            run_count=run_count,
            run_block=run_block,
            count=len(self.numbers),
            blocks=self.numbers,
            starts=accumulate(map(len, steps), initial=0),
            steps=chain.from_iterable(chain.from_iterable(steps)),
            units=units,
            unit_block=unit_block,
            patterns=lower.table(table),
            sources=count,
        )
        lower.launch(kernel, words, ceil_div(units, unit_block))

    def _shuffles(
        self, lanes: Sequence[Channel | None], patterns: dict[Pattern, int]
    ) -> list[tuple[int, ...]]:
        """The steps that assemble a block: shuffle two source blocks, then the result and one more
        source block at a time.
        """
        size = self.y.layout.block
        blocks = list(dict.fromkeys((c[0], c[1] // size) for c in lanes if c is not None))
        steps: list[tuple[int, ...]] = []
        first, second, *others = blocks if len(blocks) > 1 else blocks * 2
        for low, high in [(first, second), *((None, other) for other in others)]:
            pattern: list[int] = []
            for i, channel in enumerate(lanes):
                at = None if channel is None else (channel[0], channel[1] // size)
                if channel is not None and at == low:
                    pattern.append(channel[1] % size)
                elif channel is not None and at == high:
                    pattern.append(size + channel[1] % size)
                else:
                    # another step sets the lane, or none; later steps keep the lane
                    pattern.append(-1 if low is not None else i)
            number = patterns.setdefault(tuple(pattern), len(patterns))
            steps.append((number * size * PATTERN_BYTES, *self._plane(low), *self._plane(high)))
        return steps

    def _plane(self, where: tuple[int, int] | None) -> tuple[int, int]:
        """(source, byte offset of the block)"""
        if where is None:
            return NO_SOURCE, 0
        source, number = where
        return source, number * self.sources[source].plane_bytes

    def _item(self, channel: Channel | None) -> tuple[int, int]:
        if channel is None:
            return NO_SOURCE, 0
        size = self.y.layout.block
        source, offset = self._plane((channel[0], channel[1] // size))
        return source, offset + channel[1] % size * self.y.itemsize
