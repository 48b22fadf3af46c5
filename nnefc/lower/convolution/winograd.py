"""Winograd's convolution (Lavin & Gray, 2015): stride 1, filters of 3 to 7 taps along one or two
dimensions.

The first dimension of three is not transformed: products with the planes of the filter are summed
before the inverse transform, as if planes were channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import Op
from nnefc.kernels.convolution import winograd
from nnefc.kernels.convolution.winograd import SLOT_BYTES
from nnefc.kernels.convolution.winograd_steps import WINOGRAD
from nnefc.kernels.parameters import Words
from nnefc.kernels.template import Kernel
from nnefc.lower.blocked.tensors import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.direct import read_bias
from nnefc.lower.convolution.epilogue import Unit, read_register_epilogue, read_tile_epilogue
from nnefc.lower.convolution.winograd_parameters import (
    WinogradConvolution,
    common_fields,
    packed_filter,
    planes_of,
    rows_and_columns,
)
from nnefc.lower.convolution.winograd_tiles import Tiling
from nnefc.lower.elementwise.expression import copy_bytes
from nnefc.lower.partition import ceil_div, makespan, parts_of, per_tile, sharing
from nnefc.ops.core.window_arithmetic import convolution_window
from nnefc.ops.core.winograd_tiles import largest_tile
from nnefc.program.program import Ref
from nnefc.support.machine_model import L2_CACHE_NS, PEAK_MACS_PER_NS, REMOTE_NS, STEP_NS, WEIGHT_NS
from nnefc.symbolic.integers import hint, mark_degraded, smallest

Array = npt.NDArray[Any]

_Computed = list[tuple[int, range]]
"""The work of a tile of the launch: (block of tiles, channel blocks) pairs."""

LEAST_TILES: Final = 4
"""Tiles of a block at least: fewer do not fill the registers."""
MOST_BYTES: Final = 1 << 20
"""Of v and m of a block for one thread: they stay in its second cache."""
SHARED_BYTES: Final = 8 << 20
"""Of v and m together, of blocks whose steps the threads share."""
LEAST_BYTES: Final = 3 << 18
"""Of v and m of all threads, even if the arena becomes larger by them."""
FILTER_PART: Final = 6
"""So much less than a transformed filter the arena may become larger in any case."""
NEAR_BYTES: Final = 1 << 19
"""Of a transformed filter that the second cache keeps."""
EXPOSED: Final = 0.25
"""Share of the shorter one of products and reading a filter that the longer one does not hide."""
TRANSFORM_NS: Final = 4.0
"""To transform a vector of an element."""


def lower_winograd(lower: Lowering, op: Op, most: int) -> None:
    """`fused_conv` by tiles of at most `most` outputs along a dimension."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    window = convolution_window(x.shape, op.inputs[1].type.dims, op.attributes)
    filter_ = lower.stored(op.inputs[1])
    assert filter_ is not None
    taps = rows_and_columns(window.size, 1)
    planes = planes_of(window.output)
    most_down, most_across = (most if t > 1 else 1 for t in taps)
    tiling = Tiling((planes, *rows_and_columns(window.output, 1)), (most_down, most_across), taps)
    plane_taps = planes_of(window.size)
    apart, capacity = block_size(tiling, plane_taps, x, y, lower.threads, lower.room)
    parts = ceil_div(tiling.count, capacity)
    it = WinogradConvolution(
        x=x,
        y=y,
        register_epilogue=read_register_epilogue(lower, op),
        tile_epilogue=read_tile_epilogue(lower, op, y),
        window=window,
        tiling=tiling,
        filter=filter_.reshape(*filter_.shape[:2], *window.size[:-2], *taps),
        bias=read_bias(lower, op.inputs[2], y.channels),
        parts=parts,
        items=min(max(capacity // tiling.count, 1), hint(x.batch)),
    )
    fields = common_fields(lower, it)
    if apart:
        _blocks_apart(lower, it, fields)
    else:
        _steps_shared(lower, it, fields)


def block_size(
    tiling: Tiling, plane_taps: int, x: Tensor, y: Tensor, threads: int, room: int
) -> tuple[bool, int]:
    """(whether a thread computes whole blocks, the most tiles of a block): the faster choice.

    Threads with a block each read all of the filter; threads that share a block touch each other's
    cached data.  `plane_taps`: planes of x that are summed, each of which is transformed for
    itself; `room`: bytes of memory that v and m should keep to.
    """
    in_blocks = plane_taps * x.blocks
    batch = hint(x.batch)
    every = tiling.count * batch
    elements = math.prod(tiling.grid)
    tile_bytes = elements * (in_blocks * x.pixel_bytes + y.blocks * y.pixel_bytes)
    tile_ns = elements * (in_blocks + y.blocks) * TRANSFORM_NS
    tile_macs = elements * plane_taps * x.channels * y.channels
    filter_bytes = tile_macs * x.itemsize
    read_ns = filter_bytes * (L2_CACHE_NS if filter_bytes <= NEAR_BYTES else WEIGHT_NS)

    def work(count: int) -> float:
        products = max(count, LEAST_TILES) * tile_macs / PEAK_MACS_PER_NS
        exposed = max(products, read_ns) + EXPOSED * min(products, read_ns)
        return count * tile_ns + exposed

    def apart(size: int) -> float:
        return makespan(ceil_div(tiling.count, size) * batch, work(size), threads)

    def shared(size: int) -> float:
        moved = every * tile_bytes * REMOTE_NS if threads > 1 else 0
        items = min(max(size // tiling.count, 1), batch)
        blocks = ceil_div(batch, items) * ceil_div(tiling.count, size)
        return (blocks * work(every // blocks) + moved) / sharing(threads) + 3 * blocks * STEP_NS

    room = max(room, LEAST_BYTES, filter_bytes // FILTER_PART)
    fitting = max(min(min(room // threads, MOST_BYTES) // tile_bytes, tiling.count), 1)
    best = min((size for size in parts_of(tiling.count) if size <= fitting), key=apart)
    if mark_degraded(x.batch):  # the launches of steps are as many as there are blocks
        return True, best
    whole = min(max(min(room, SHARED_BYTES) // tile_bytes, LEAST_TILES), every)
    return (True, best) if apart(best) <= shared(whole) else (False, whole)


def _blocks_apart(lower: Lowering, it: WinogradConvolution, fields: dict[str, Any]) -> None:
    """One launch, of which threads take whole blocks."""
    v_bytes, m_bytes = _memory(it)
    count = smallest([it.blocks, lower.threads])
    slots = lower.scratch(count * SLOT_BYTES, "slots")
    free = lower.table(np.zeros(slots.buffer.nbytes, np.uint8))
    copy_bytes(lower, free, slots, slots.buffer.nbytes)
    size = per_tile(it.blocks, it.macs / PEAK_MACS_PER_NS, lower.threads)
    words = WINOGRAD.pack(
        **fields
        | _results(it)
        | {
            "x": it.x.at,
            "filter": packed_filter(lower, it),
            "v": lower.scratch(count * v_bytes, "v"),
            "m": lower.scratch(count * m_bytes, "m"),
            "slots": slots,
            "v_slot": v_bytes,
            "m_slot": m_bytes,
            "slot_count": count,
            "units": it.blocks,
            "unit_block": size,
        }
    )
    panel, last_panel = (panels.panel for panels in it.panels)
    kernel = winograd.blocks(it.taps, largest_tile(it.taps), it.channels, panel, last_panel)
    every = range(it.y.blocks)

    def computed() -> list[_Computed]:
        return [[(number, every) for number in some] for some in _cut(it.blocks, size)]

    _launch(lower, it, kernel, words, ceil_div(it.blocks, size), computed)


def _launch(
    lower: Lowering,
    it: WinogradConvolution,
    kernel: Kernel,
    words: Words,
    tiles: int,
    computed: Callable[[], list[_Computed]],
) -> None:
    """Launch the transform of outputs, in this many tiles."""
    if it.tile_epilogue is None:
        lower.launch(kernel, words, tiles)
        return
    parts = [it.tiling.pixels(part) for part in it.tiling.parts(it.parts)]

    def units(number: int, blocks: range) -> Iterator[Unit]:
        group, part = divmod(number, it.parts)
        for n in range(group * it.items, min((group + 1) * it.items, it.y.batch)):
            yield from (Unit(n, blocks, pixels) for pixels in parts[part])

    tiles_ = [[u for pair in tile for u in units(*pair)] for tile in computed()]
    it.tile_epilogue.launch(lower, kernel, words, tiles_, [range(n) for n in it.y.spatial])


def _cut(count: int, size: int) -> list[range]:
    """`count` units in tiles of `size`."""
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


def _steps_shared(lower: Lowering, it: WinogradConvolution, fields: dict[str, Any]) -> None:
    """For every block three launches, of which threads take channels and elements."""
    v_bytes, m_bytes = _memory(it)
    v, m = lower.scratch(v_bytes, "v"), lower.scratch(m_bytes, "m")
    filter_ = packed_filter(lower, it)
    panels = it.elements * sum(panels.count for panels in it.panels)
    products = it.macs / PEAK_MACS_PER_NS / panels
    transform = it.capacity * it.elements * TRANSFORM_NS
    largest = largest_tile(it.taps)
    into = winograd.transform_input(it.taps, largest)
    multiply = winograd.multiply(it.channels, *(panels.panel for panels in it.panels))
    out_of = winograd.transform_output(it.taps, largest)
    into_size = per_tile(it.in_blocks, transform, lower.threads)
    multiply_size = per_tile(panels, products, lower.threads)
    out_of_size = per_tile(it.y.blocks, transform, lower.threads)
    for number in range(it.blocks):

        def words(units: int, size: int, memory: dict[str, Ref], number: int = number) -> Words:
            step = {"block": number, "units": units, "unit_block": size}
            return WINOGRAD.pack(**(fields | step | memory))

        step = words(it.in_blocks, into_size, {"x": it.x.at, "v": v})
        lower.launch(into, step, ceil_div(it.in_blocks, into_size))
        step = words(panels, multiply_size, {"v": Ref(v.buffer), "m": m, "filter": filter_})
        lower.launch(multiply, step, ceil_div(panels, multiply_size))
        step = words(it.y.blocks, out_of_size, {"m": Ref(m.buffer), **_results(it)})

        def computed(number: int = number) -> list[_Computed]:
            return [[(number, blocks)] for blocks in _cut(it.y.blocks, out_of_size)]

        _launch(lower, it, out_of, step, ceil_div(it.y.blocks, out_of_size), computed)


def _results(it: WinogradConvolution) -> dict[str, Ref]:
    """The memory of outputs and of the residual."""
    residual = it.register_epilogue.residual
    return {"y": it.y.at} | ({"residual": residual.at} if residual else {})


def _memory(it: WinogradConvolution) -> tuple[int, int]:
    """Bytes of v and of m of one block."""
    return it.elements * it.v_element, it.elements * it.m_element
