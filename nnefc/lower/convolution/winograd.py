"""Lowering of Winograd convolution (Lavin & Gray 2016).

The stride is 1, and filters have 3 to 7 taps along one or two dimensions.  The first of three
dimensions is not transformed: products with the planes of the filter are summed before the inverse
transform, as if planes were channels.  Windows of codes may be cut into further pieces, which are
summed in the same way.  A dilated convolution is one undilated convolution per
phase: rows and columns of a tile are a dilation apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Op
from nnefc.kernels.convolution import winograd
from nnefc.kernels.convolution.winograd import SLOT_BYTES
from nnefc.kernels.convolution.winograd_steps import WINOGRAD
from nnefc.kernels.convolution.winograd_transforms import sum_type
from nnefc.kernels.family import Kernel
from nnefc.kernels.parameters import Words
from nnefc.kernels.tile.real_form import RealForm
from nnefc.lower.blocked.tensors import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.direct import read_bias
from nnefc.lower.convolution.epilogue import (
    OutputUnit,
    RegisterEpilogue,
    read_form,
    read_register_epilogue,
    read_tile_epilogue,
)
from nnefc.lower.convolution.winograd_parameters import (
    WinogradConvolution,
    by_blocks,
    common_fields,
    packed_filter,
    piece_offsets,
    planes_of,
    rows_and_columns,
)
from nnefc.lower.convolution.winograd_tiles import Tiling
from nnefc.lower.elementwise.expression import copy_bytes
from nnefc.lower.partition import block_sizes, ceil_div, makespan, partition_threads, units_per_tile
from nnefc.ops.core.window_arithmetic import Window
from nnefc.ops.core.winograd_tiles import largest_tile
from nnefc.ops.tools.convolution import window_of
from nnefc.program.program import Ref
from nnefc.support.machine_model import (
    L2_CACHE_NS,
    L3_CACHE_BYTES,
    PEAK_MACS_PER_NS,
    REMOTE_NS,
    STEP_NS,
    WEIGHT_NS,
)
from nnefc.symbolic.integers import hint, is_symbolic, mark_degraded, smallest

Array = npt.NDArray[Any]

_TileOutputs = list[tuple[int, range]]
"""Outputs of a tile of the launch: pairs (block of Winograd tiles, channel blocks)."""

MIN_BLOCK_TILES: Final = 4
"""Minimum tiles of a block: fewer do not fill the registers."""
THREAD_BLOCK_BYTES: Final = 1 << 20
"""Maximum bytes of v and m of a block of one thread, which stay in its second cache."""
SHARED_BLOCK_BYTES: Final = 8 << 20
"""Maximum bytes of v and m of a block whose steps the threads share, or those of the transformed
filter if it is larger: another block would read the filter again."""
MIN_ROOM_BYTES: Final = 3 << 18
"""Bytes allowed for v and m of all threads, even if that enlarges the arena."""
FILTER_TO_ROOM_RATIO: Final = 6
"""The arena may always grow by the size of the transformed filter divided by this."""
L2_FILTER_BYTES: Final = 1 << 19
"""Maximum bytes of a transformed filter that stays in the second cache."""
EXPOSED_FRACTION: Final = 0.25
"""Fraction of the shorter of arithmetic and filter reads that the longer does not hide."""
TRANSFORM_NS: Final = 4.0
"""Nanoseconds to transform a vector of an element."""


def lower_winograd(lower: Lowering, op: Op, most: int) -> None:
    """A blocked convolution by tiles of at most `most` outputs along a dimension."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    window = window_of(op)
    filter_ = lower.stored_data(op.inputs[1])
    assert filter_ is not None
    taps, planes = rows_and_columns(window.size, 1), planes_of(window.size)
    in_registers = read_register_epilogue(lower, op)
    bounds = np.array([in_registers.low, in_registers.high], in_registers.accumulator.numpy)
    conv = WinogradConvolution(
        x=x,
        y=y,
        residual=in_registers.residual,
        element=in_registers.accumulator,
        largest=largest_tile(taps),
        ending=_form(op, in_registers),
        tile_epilogue=read_tile_epilogue(lower, op, y),
        window=window,
        tiling=tiling_of(window, taps, most),
        filter=filter_.reshape(*filter_.shape[:2], planes, *taps),
        pieces=piece_offsets(x, window, [(plane, 0, 0) for plane in range(planes)]),
        bias=by_blocks(y, read_bias(lower, op.inputs[2], y.channels)),
        bounds=bounds,
        parts=1,
        items=1,
    )
    launch_winograd(lower, conv)


def _form(op: Op, epilogue: RegisterEpilogue) -> RealForm | None:
    """What is done with sums; None if all tensors are float32, without residual too."""
    form = read_form(op, epilogue)
    others = {form.result, form.residual} - {"", str(epilogue.accumulator)}
    return form if others else None


def tiling_of(window: Window, taps: tuple[int, int], most: int) -> Tiling:
    """Tiles of at most `most` outputs along a dimension; `taps`: of a piece of the window."""
    most_down, most_across = (most if t > 1 else 1 for t in taps)
    return Tiling(
        (planes_of(window.output), *rows_and_columns(window.output, 1)),
        (most_down, most_across),
        taps,
        rows_and_columns(window.dilation, 1),
    )


def launch_winograd(lower: Lowering, conv: WinogradConvolution) -> None:
    """Launch a convolution, whose work is yet to be cut into blocks."""
    x, y, tiling, pieces = conv.x, conv.y, conv.tiling, len(conv.pieces)
    element, room = conv.element, lower.scratch_budget
    apart, capacity = block_size(tiling, pieces, x, y, element, lower.threads, room)
    parts = ceil_div(tiling.count, capacity)
    conv = replace(conv, parts=parts, items=min(max(capacity // tiling.count, 1), hint(x.batch)))
    fields = common_fields(lower, conv)
    if apart:
        _launch_whole_blocks(lower, conv, fields)
    else:
        _launch_shared_steps(lower, conv, fields)


def block_size(
    tiling: Tiling,
    pieces: int,
    x: Tensor,
    y: Tensor,
    element: DType,
    threads: int,
    room: int,
) -> tuple[bool, int]:
    """(whether a thread computes whole blocks, maximum tiles of a block): the faster choice.

    If every thread computes a block of its own, each reads the whole filter.  If threads share a
    block, they access data in each other's caches.  `pieces`: pieces of a window, whose inputs are
    transformed separately.  `room`: scratch bytes that do not enlarge the arena.
    """
    in_blocks = pieces * x.blocks
    batch = hint(x.batch)
    every = tiling.count * batch
    elements = math.prod(tiling.grid)
    product_bytes = y.blocks * DType(sum_type(str(element))).itemsize
    tile_bytes = elements * x.layout.block * (in_blocks * element.itemsize + product_bytes)
    tile_ns = elements * (in_blocks + y.blocks) * TRANSFORM_NS
    tile_macs = elements * pieces * x.channels * y.channels
    filter_bytes = tile_macs * element.itemsize
    read_ns = filter_bytes * (L2_CACHE_NS if filter_bytes <= L2_FILTER_BYTES else WEIGHT_NS)

    def work(count: int) -> float:
        products = max(count, MIN_BLOCK_TILES) * tile_macs / PEAK_MACS_PER_NS
        exposed = max(products, read_ns) + EXPOSED_FRACTION * min(products, read_ns)
        return count * tile_ns + exposed

    def apart(size: int) -> float:
        return makespan(ceil_div(tiling.count, size) * batch, work(size), threads)

    def shared(size: int) -> float:
        moved = every * tile_bytes * REMOTE_NS if threads > 1 else 0
        items = min(max(size // tiling.count, 1), batch)
        blocks = ceil_div(batch, items) * ceil_div(tiling.count, size)
        return (blocks * work(every // blocks) + moved) / partition_threads(
            threads
        ) + 3 * blocks * STEP_NS

    room = max(room, MIN_ROOM_BYTES, filter_bytes // FILTER_TO_ROOM_RATIO)
    fitting = max(min(min(room // threads, THREAD_BLOCK_BYTES) // tile_bytes, tiling.count), 1)
    best = min((size for size in block_sizes(tiling.count) if size <= fitting), key=apart)
    if is_symbolic([x.batch]):  # shared steps need a fixed number of blocks
        mark_degraded([x.batch])
        return True, best
    most = max(SHARED_BLOCK_BYTES, min(filter_bytes, L3_CACHE_BYTES))
    whole = min(max(min(room, most) // tile_bytes, MIN_BLOCK_TILES), every)
    return (True, best) if apart(best) <= shared(whole) else (False, whole)


def _launch_whole_blocks(
    lower: Lowering, conv: WinogradConvolution, fields: dict[str, Any]
) -> None:
    """One launch, whose threads compute whole blocks."""
    v_bytes, m_bytes = _block_bytes(conv)
    count = smallest([conv.blocks, lower.threads])
    slots = lower.scratch(count * SLOT_BYTES, "slots")
    free = lower.table(np.zeros(slots.buffer.nbytes, np.uint8))
    copy_bytes(lower, free, slots, slots.buffer.nbytes)
    size = units_per_tile(conv.blocks, conv.macs / PEAK_MACS_PER_NS, lower.threads)
    words = WINOGRAD.pack(
        **fields
        | _output_fields(conv)
        | {
            "x": conv.x.at,
            "filter": packed_filter(lower, conv),
            "v": lower.scratch(count * v_bytes, "v"),
            "m": lower.scratch(count * m_bytes, "m"),
            "slots": slots,
            "v_slot": v_bytes,
            "m_slot": m_bytes,
            "slot_count": count,
            "units": conv.blocks,
            "unit_block": size,
        }
    )
    panel, last_panel = (panels.panel for panels in conv.panels)
    kernel = winograd.blocks(
        *(str(conv.x.dtype), str(conv.element), conv.taps, conv.largest),
        *(conv.channels, panel, last_panel),
        dilated=conv.is_dilated,
        ending=conv.ending,
    )
    every = range(conv.y.blocks)

    def computed() -> list[_TileOutputs]:
        return [[(number, every) for number in some] for some in _split_units(conv.blocks, size)]

    _launch_output_transform(lower, conv, kernel, words, ceil_div(conv.blocks, size), computed)


def _launch_output_transform(
    lower: Lowering,
    conv: WinogradConvolution,
    kernel: Kernel,
    words: Words,
    tiles: int,
    computed: Callable[[], list[_TileOutputs]],
) -> None:
    """Launch a kernel that transforms outputs, with the tile epilogue if one is needed."""
    if conv.tile_epilogue is None:
        lower.launch(kernel, words, tiles)
        return
    parts = [conv.tiling.pixels(part) for part in conv.tiling.parts(conv.parts)]

    def units(number: int, blocks: range) -> Iterator[OutputUnit]:
        group, part = divmod(number, conv.parts)
        for n in range(group * conv.items, min((group + 1) * conv.items, conv.y.batch)):
            yield from (OutputUnit(n, blocks, pixels) for pixels in parts[part])

    tiles_ = [[u for pair in tile for u in units(*pair)] for tile in computed()]
    conv.tile_epilogue.launch(lower, kernel, words, tiles_, [range(n) for n in conv.y.spatial])


def _split_units(count: int, size: int) -> list[range]:
    """`count` units, in ranges of at most `size`."""
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


def _launch_shared_steps(
    lower: Lowering, conv: WinogradConvolution, fields: dict[str, Any]
) -> None:
    """Three launches per block, whose threads share channels and elements."""
    v_bytes, m_bytes = _block_bytes(conv)
    v, m = lower.scratch(v_bytes, "v"), lower.scratch(m_bytes, "m")
    filter_ = packed_filter(lower, conv)
    panels = conv.elements * sum(panels.count for panels in conv.panels)
    products = conv.macs / PEAK_MACS_PER_NS / panels
    transform = conv.capacity * conv.elements * TRANSFORM_NS
    element, shape = str(conv.element), (conv.taps, conv.largest, conv.is_dilated)
    into = winograd.transform_input(str(conv.x.dtype), element, *shape)
    kinds = (panels.panel for panels in conv.panels)
    multiply = winograd.multiply(element, conv.channels, *kinds)
    out_of = winograd.transform_output(element, *shape, ending=conv.ending)
    into_size = units_per_tile(conv.in_blocks, transform, lower.threads)
    multiply_size = units_per_tile(panels, products, lower.threads)
    out_of_size = units_per_tile(conv.y.blocks, transform, lower.threads)
    for number in range(conv.blocks):

        def words(units: int, size: int, memory: dict[str, Ref], number: int = number) -> Words:
            step = {"block": number, "units": units, "unit_block": size}
            return WINOGRAD.pack(**(fields | step | memory))

        step = words(conv.in_blocks, into_size, {"x": conv.x.at, "v": v})
        lower.launch(into, step, ceil_div(conv.in_blocks, into_size))
        step = words(panels, multiply_size, {"v": Ref(v.buffer), "m": m, "filter": filter_})
        lower.launch(multiply, step, ceil_div(panels, multiply_size))
        step = words(conv.y.blocks, out_of_size, {"m": Ref(m.buffer), **_output_fields(conv)})

        def computed(number: int = number) -> list[_TileOutputs]:
            return [[(number, blocks)] for blocks in _split_units(conv.y.blocks, out_of_size)]

        _launch_output_transform(
            lower, conv, out_of, step, ceil_div(conv.y.blocks, out_of_size), computed
        )


def _output_fields(conv: WinogradConvolution) -> dict[str, Ref]:
    """Parameters: the memory of the outputs and of the residual."""
    residual = conv.residual
    return {"y": conv.y.at} | ({"residual": residual.at} if residual else {})


def _block_bytes(conv: WinogradConvolution) -> tuple[int, int]:
    """Bytes of v and of m of one block."""
    return conv.elements * conv.v_element, conv.elements * conv.m_element
