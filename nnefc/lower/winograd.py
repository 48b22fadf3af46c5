"""Winograd's convolution: stride 1, filters of 3 to 7 taps along one or two dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import Op
from nnefc.ir.layout import ITEM, LINE
from nnefc.kernels.template import Kernel, Words
from nnefc.kernels.winograd import SLOT_BYTES, WINOGRAD
from nnefc.kernels.winograd_matrices import filter_matrix
from nnefc.kernels.winograd_transforms import Taps
from nnefc.lower.blocked import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering
from nnefc.lower.direct import read_bias
from nnefc.lower.elementwise import copy_bytes
from nnefc.lower.ending import Ending, Simple, Unit, read_ending, read_simple
from nnefc.lower.partition import block, tiles
from nnefc.lower.winograd_tiles import Tiling
from nnefc.ops.window_rules import convolution_window
from nnefc.ops.winograd import largest_tile
from nnefc.runtime.program import Ref
from nnefc.runtime.team import usable_cpus

Array = npt.NDArray[Any]

BLOCK_TILES: Final = 24
"""Tiles of a block for one thread: enough to read the filter for, and v and m stay close."""
MANY_BLOCKS: Final = 8
"""So many blocks are enough to share among threads."""
SMALL_FILTER: Final = 5 << 20
"""Bytes of transformed filters that may be read again for every block of a thread."""
SHARED_BYTES: Final = 8 << 20
"""Of v and m together, of blocks whose steps the threads share."""
STEP_COST: Final = 8
"""The tiles of a step are so much smaller than others: those of the next step wait for all."""
TRANSFORM_COST: Final = 2.0
"""Nanoseconds to transform a vector of an element."""
MAC_COST: Final = 1 / 64
"""Nanoseconds of a multiply-add."""


@dataclass(frozen=True, slots=True)
class _Winograd:
    """One convolution, with everything that does not change from launch to launch."""

    x: Tensor
    y: Tensor
    simple: Simple
    ending: Ending | None
    taps: Taps
    tiling: Tiling
    padding: tuple[int, int]
    """Rows and columns of zeros before the input."""
    filter: Array
    """[outputs, inputs, *taps]"""
    bias: Array
    parts: int
    """A block is one part of the tiles of `items` batch items."""
    items: int

    @property
    def capacity(self) -> int:
        """The most tiles of a block."""
        return self.items * -(-self.tiling.count // self.parts)

    @property
    def blocks(self) -> int:
        return self.parts * tiles(self.x.batch, self.items)

    @property
    def elements(self) -> int:
        return math.prod(self.tiling.grid)

    @property
    def macs(self) -> int:
        """Multiply-adds of a block, about."""
        return self.capacity * self.elements * self.x.channels * self.y.channels

    @property
    def channels(self) -> int:
        """Channels of an entry of the reduction."""
        return min(self.x.layout.block, 8)

    @property
    def entries(self) -> int:
        return -(-self.x.channels // self.channels)

    @property
    def panels(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(vectors, number) of the panels of output channels: twos, and a three if need be."""
        blocks = self.y.blocks
        if blocks == 1:
            return (1, 1), (0, 0)
        threes = blocks % 2
        return (2, (blocks - 3 * threes) // 2), (3 * threes, threes)

    def element_bytes(self, tensor: Tensor) -> int:
        """Bytes from one element to the next: an odd number of cache lines.

        Otherwise all elements of a tile might compete for the same set of the cache.
        """
        nbytes = tensor.blocks * self.capacity * tensor.pixel_bytes
        return (-(-nbytes // LINE) | 1) * LINE


def lower_winograd(lower: Lowering, op: Op) -> None:
    """`fused_conv` by the method "winograd<m>": tiles of at most m outputs along a dimension."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    window = convolution_window(x.shape, op.inputs[1].type.dims, op.attributes)
    most = int(op.attributes["method"].removeprefix("winograd"))
    filter_ = lower.data(op.inputs[1])
    assert filter_ is not None
    taps = _two(window.size, 1)
    most_down, most_across = (most if t > 1 else 1 for t in taps)
    tiling = Tiling(_two(window.output, 1), (most_down, most_across), taps)
    apart, capacity = block_size(tiling, x, y)
    parts = tiles(tiling.count, capacity)
    it = _Winograd(
        x=x,
        y=y,
        simple=read_simple(lower, op),
        ending=read_ending(lower, op, y),
        taps=taps,
        tiling=tiling,
        padding=_two([before for before, _ in window.padding], 0),
        filter=filter_.reshape(*filter_.shape[:2], *taps),
        bias=read_bias(lower, op.inputs[2], y.channels),
        parts=parts,
        items=min(max(capacity // tiling.count, 1), x.batch),
    )
    fields = _fields(lower, it)
    if apart:
        _blocks_apart(lower, it, fields)
    else:
        _steps_shared(lower, it, fields)


def _two(values: Sequence[int], first: int) -> tuple[int, int]:
    """Rows and columns: what has one dimension is one row."""
    rows, columns = values if len(values) == 2 else (first, *values)
    return rows, columns


def block_size(tiling: Tiling, x: Tensor, y: Tensor) -> tuple[bool, int]:
    """(whether each block is work for one thread, tiles of a block at most)."""
    every = tiling.count * x.batch
    tile_bytes = math.prod(tiling.grid) * (x.blocks * x.pixel_bytes + y.blocks * y.pixel_bytes)
    filter_bytes = math.prod(tiling.grid) * x.channels * y.channels * ITEM
    if filter_bytes <= SMALL_FILTER and every >= BLOCK_TILES * MANY_BLOCKS:
        return True, BLOCK_TILES
    return False, max(SHARED_BYTES // tile_bytes, BLOCK_TILES)


def _fields(lower: Lowering, it: _Winograd) -> dict[str, Any]:
    """The parameters that all launches have in common.

    In place of memory that only some launches need there are zeros.
    """
    x, y = it.x, it.y
    zeros = lower.table(np.zeros(4 * LINE // ITEM, np.float32))
    classes = it.tiling.classes(it.parts, it.items, it.capacity)
    runs = it.tiling.runs(it.parts)
    residual = it.simple.residual
    top, left, *_ = it.tiling.tiles.T
    plane = it.capacity * x.pixel_bytes
    steps = np.arange(it.entries) * it.channels
    block_, inside = np.divmod(steps, x.layout.block)
    (_, panels), (_, last_panels) = it.panels
    bias = np.zeros(y.blocks * y.layout.block, np.float32)
    bias[: y.channels] = it.bias
    return {
        "x": zeros,
        "y": zeros,
        "residual": zeros,
        "bias": lower.constant(bias),
        "zeros": zeros,
        "filter": zeros,
        "v": zeros,
        "m": zeros,
        "slots": zeros,
        "x_tiles": lower.table(_offsets(x, top - it.padding[0], left - it.padding[1])),
        "y_tiles": lower.table(_offsets(y, top, left)),
        "residual_tiles": lower.table(
            _offsets(residual, top, left) if residual else np.zeros(len(top), np.int32)
        ),
        "runs": lower.table(runs),
        "classes": lower.table(classes.tiles * np.int32(x.pixel_bytes)),
        "counts": lower.table(classes.counts),
        "members": lower.table(classes.members),
        "taps": lower.table((block_ * plane + inside * ITEM).astype(np.int32)),
        "x_batch": x.batch_bytes,
        "x_plane": x.plane_bytes,
        "x_row": _rows(x),
        "y_batch": y.batch_bytes,
        "y_plane": y.plane_bytes,
        "y_row": _rows(y),
        "residual_batch": residual.batch_bytes if residual else 0,
        "residual_plane": residual.plane_bytes if residual else 0,
        "residual_row": _rows(residual) if residual else 0,
        "residual_column": residual.pixel_bytes if residual else 0,
        "in_blocks": x.blocks,
        "out_blocks": y.blocks,
        "columns": it.tiling.grid[1],
        "elements": it.elements,
        "depth": it.entries,
        "panels": panels,
        "last_panels": last_panels,
        "run_count": runs.shape[1],
        "class_count": classes.counts.shape[1],
        "batch": x.batch,
        "items": it.items,
        "item_tiles": it.tiling.count,
        "parts": it.parts,
        "capacity": it.capacity,
        "v_element": it.element_bytes(x),
        "m_element": it.element_bytes(y),
        "v_slot": 0,
        "m_slot": 0,
        "slot_count": 0,
        "clamp": it.simple.clamp,
        "block": 0,
    }


def _rows(tensor: Tensor) -> int:
    """Bytes from one row of pixels to the next."""
    return _two(tensor.pitches, 0)[0]


def _offsets(tensor: Tensor, rows: Array, columns: Array) -> Array:
    """int32: bytes from the start of a plane to pixels."""
    found = tensor.origin + rows * _rows(tensor) + columns * tensor.pixel_bytes
    return found.astype(np.int32)


def _blocks_apart(lower: Lowering, it: _Winograd, fields: dict[str, Any]) -> None:
    """One launch, of which threads take whole blocks."""
    v_bytes, m_bytes = _memory(it)
    count = min(it.blocks, usable_cpus())
    slots = lower.scratch(count * SLOT_BYTES, "slots")
    free = lower.table(np.zeros(slots.buffer.nbytes, np.uint8))
    copy_bytes(lower, free, slots, slots.buffer.nbytes)
    (vectors, _), (last, _) = it.panels
    size = block(it.blocks, it.macs * MAC_COST)
    words = WINOGRAD.pack(
        **fields
        | _results(it)
        | {
            "x": it.x.at,
            "filter": lower.constant(_pack(it)),
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
    kernel = Kernel("winograd.blocks", (it.taps, largest_tile(it.taps), it.channels, vectors, last))
    every = range(it.y.blocks)
    computed = [[(number, every) for number in some] for some in _cut(it.blocks, size)]
    _launch(lower, it, kernel, words, computed)


def _launch(
    lower: Lowering,
    it: _Winograd,
    kernel: Kernel,
    words: Words,
    computed: list[list[tuple[int, range]]],
) -> None:
    """Launch what computes outputs: in each tile channel blocks of blocks."""
    if it.ending is None:
        lower.launch(kernel, words, len(computed))
        return
    parts = [it.tiling.pixels(part) for part in it.tiling.parts(it.parts)]

    def units(number: int, blocks: range) -> Iterator[Unit]:
        group, part = divmod(number, it.parts)
        for n in range(group * it.items, min((group + 1) * it.items, it.y.batch)):
            yield from (Unit(n, blocks, pixels) for pixels in parts[part])

    tiles_ = [[u for pair in tile for u in units(*pair)] for tile in computed]
    it.ending.launch(lower, kernel, words, tiles_, [range(n) for n in it.y.spatial])


def _cut(count: int, size: int) -> list[range]:
    """`count` units in tiles of `size`."""
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


def _steps_shared(lower: Lowering, it: _Winograd, fields: dict[str, Any]) -> None:
    """For every block three launches, of which threads take channels and elements."""
    v_bytes, m_bytes = _memory(it)
    v, m = lower.scratch(v_bytes, "v"), lower.scratch(m_bytes, "m")
    filter_ = lower.constant(_pack(it))
    (vectors, panels), (last, last_panels) = it.panels
    panels = it.elements * (panels + last_panels)
    products = it.macs * MAC_COST / panels
    transform = it.capacity * it.elements * TRANSFORM_COST
    largest = largest_tile(it.taps)
    into = Kernel("winograd.transform_input", (it.taps, largest))
    multiply = Kernel("winograd.multiply", (it.channels, vectors, last))
    out_of = Kernel("winograd.transform_output", (it.taps, largest))
    into_size = block(it.x.blocks, STEP_COST * transform)
    multiply_size = block(panels, STEP_COST * products)
    out_of_size = block(it.y.blocks, STEP_COST * transform)
    for number in range(it.blocks):

        def words(units: int, size: int, memory: dict[str, Ref], number: int = number) -> Words:
            step = {"block": number, "units": units, "unit_block": size}
            return WINOGRAD.pack(**(fields | step | memory))

        step = words(it.x.blocks, into_size, {"x": it.x.at, "v": v})
        lower.launch(into, step, tiles(it.x.blocks, into_size))
        step = words(panels, multiply_size, {"v": Ref(v.buffer), "m": m, "filter": filter_})
        lower.launch(multiply, step, tiles(panels, multiply_size))
        step = words(it.y.blocks, out_of_size, {"m": Ref(m.buffer), **_results(it)})
        computed = [[(number, blocks)] for blocks in _cut(it.y.blocks, out_of_size)]
        _launch(lower, it, out_of, step, computed)


def _results(it: _Winograd) -> dict[str, Ref]:
    """The memory of outputs, and of what is added to them."""
    residual = it.simple.residual
    return {"y": it.y.at} | ({"residual": residual.at} if residual else {})


def _memory(it: _Winograd) -> tuple[int, int]:
    """Bytes of v and of m of one block."""
    return it.elements * it.element_bytes(it.x), it.elements * it.element_bytes(it.y)


def _pack(it: _Winograd) -> Array:
    """The transformed filter, panel by panel of each element; computed in float64."""
    points = it.tiling.grid
    outputs, inputs = it.filter.shape[:2]
    rows, columns = (
        np.array(filter_matrix(n, t), np.float64) if t > 1 else np.eye(n, 1)
        for n, t in zip(points, it.taps, strict=True)
    )
    lanes = it.y.layout.block
    depth = it.entries * it.channels
    padded = np.zeros((it.elements, depth, it.y.blocks * lanes), np.float32)
    down = np.tensordot(rows, it.filter.astype(np.float64), (1, 2))
    for i, j in np.ndindex(*points):
        element = np.tensordot(down[i], columns[j], (2, 0))
        padded[i * points[1] + j, :inputs, :outputs] = element.T
    split = padded.reshape(it.elements, it.entries, it.channels, -1)
    packed: list[Array] = []
    done = 0
    for vectors, count in it.panels:
        width = vectors * lanes
        some = split[..., done : done + count * width].reshape(*split.shape[:3], count, width)
        packed.append(some.transpose(0, 3, 1, 2, 4).reshape(it.elements, -1))
        done += count * width
    return np.concatenate(packed, 1)
