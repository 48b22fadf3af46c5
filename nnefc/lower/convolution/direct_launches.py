"""Launches of direct convolutions: slices of the output channels, and units of work."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType
from nnefc.lower.blocked.tensors import Tensor
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.direct_tables import pixel_table
from nnefc.lower.convolution.epilogue import OutputUnit
from nnefc.lower.convolution.panels import Panels, group_panels, panels_of
from nnefc.lower.partition import (
    band_count,
    block_sizes,
    ceil_div,
    makespan,
    partition_threads,
    units_per_tile,
)
from nnefc.program.tables.phases import Phase, pixels_of, tap_count
from nnefc.program.tables.planes import zero_offsets
from nnefc.symbolic.integers import hint
from nnefc.symbolic.traced_array import traced_call

Array = npt.NDArray[Any]

INPUT_BYTES: Final = 256 << 10
"""Up to this size an input stays in the second cache, and a unit may cover all of its pixels."""
DIRECT_UNIT_PIXELS: Final = 200
"""Pixels of a unit of a direct convolution whose input is larger."""
MIN_UNIT_TILES: Final = 4
"""Minimum tiles of pixels of a unit, to amortise the switch to other weights."""
REREAD_NS: Final = 0.005
"""Nanoseconds to read a byte of weights again, beyond the time hidden behind arithmetic."""


class Products(Protocol):
    """What the launches of a direct convolution of floats or codes have in common."""

    @property
    def x(self) -> Tensor: ...

    @property
    def y(self) -> Tensor: ...

    @property
    def groups(self) -> int: ...

    @property
    def filter(self) -> Array:
        """[groups, outputs, inputs, *taps]; outputs and inputs per group."""
        ...

    @property
    def accumulator(self) -> DType: ...

    @property
    def reads_border(self) -> bool:
        """Whether all outputs read all taps, also in the border."""
        ...

    @property
    def weight_bytes(self) -> int:
        """Bytes of a packed weight."""
        ...

    @property
    def macs_per_ns(self) -> float:
        """Multiply-adds that a thread computes in a nanosecond, about."""
        ...

    def tile_pixels(self, vectors: int) -> int:
        """Pixels of the largest tile of `vectors` vectors."""
        ...


@dataclass(frozen=True, slots=True)
class ChannelSlice:
    """Output channels of a launch: panels at the same position of several groups."""

    groups: range
    panels: Panels
    first: int
    """First of these channels within its group."""


def channel_slices(conv: Products, macs: float, *, threes: bool = False) -> Iterator[ChannelSlice]:
    """All output channels; `macs` and `threes`: see `panels_of`."""
    _, outputs, inputs = conv.filter.shape[:3]
    lanes = conv.y.layout.block
    whole = conv.groups == 1 or inputs % lanes == outputs % lanes == 0
    for groups in [range(conv.groups)] if whole else [range(n, conv.groups, 2) for n in range(2)]:
        first = 0
        lane = groups.start * outputs % lanes
        if conv.groups == 1:
            parts = panels_of(conv.accumulator, outputs, macs, threes=threes)
        else:
            parts = group_panels(conv.accumulator, lane, outputs)
        for panels in parts:
            yield ChannelSlice(groups, panels, first)
            first += panels.width * panels.count


def input_fields(lower: Lowering, conv: Products, phase: Phase, groups: range) -> dict[str, Any]:
    """Parameters for reading x; outputs without taps read zeros, since x may hold infinities."""
    x, inputs = conv.x, conv.filter.shape[2]
    if tap_count(phase):
        table = pixel_table(
            *(lower, x, tuple(axis.inputs for axis in phase), phase, x), whole=conv.reads_border
        )
        skipped = groups.start * inputs // x.layout.block * x.plane_bytes
        return {
            "x": replace(x.at, offset=x.at.offset + skipped),
            "x_pixels": table,
            "x_batch": x.batch_bytes,
            "x_group": groups.step * inputs // x.layout.block * x.plane_bytes,
        }
    (zeros,) = traced_call(zero_offsets, pixels_of(phase))
    return {
        "x": lower.table(np.zeros(x.layout.entry, x.dtype.numpy)),
        "x_pixels": lower.table(zeros),
        "x_batch": 0,
        "x_group": 0,
    }


def output_blocks(conv: Products, channels: ChannelSlice) -> tuple[int, int]:
    """(first channel block of y of a slice, blocks from one of its groups to the next)."""
    outputs, lanes = conv.filter.shape[1], conv.y.layout.block
    first = (channels.groups.start * outputs + channels.first) // lanes
    return first, channels.groups.step * outputs // lanes


@dataclass(frozen=True, slots=True)
class Units:
    """How a launch is divided into units, and these into tiles."""

    pixel_block: int
    panel_block: int
    count: int
    per_tile: int


def choose_units(
    conv: Products, pixels: int, channels: ChannelSlice, filter_bytes: int, threads: int
) -> Units:
    pixel_block, panel_block = _unit_size(conv, pixels, channels, filter_bytes, threads)
    planes, panels = conv.x.batch * len(channels.groups), channels.panels
    count = planes * ceil_div(pixels, pixel_block) * ceil_div(panels.count, panel_block)
    weights = filter_bytes // conv.weight_bytes
    macs = conv.x.batch * pixels * weights * panels.mac_fraction
    unit_block = units_per_tile(count, macs / count / conv.macs_per_ns, threads)
    return Units(pixel_block, panel_block, count, unit_block)


def _unit_size(
    conv: Products, pixels: int, channels: ChannelSlice, filter_bytes: int, threads: int
) -> tuple[int, int]:
    """(pixels, panels) of a unit: its operands stay in a cache, and every thread has units.

    A unit of few channels reads all of the input, which is near; a unit of few pixels reads all of
    the weights.
    """
    panels, groups = channels.panels, len(channels.groups)
    height, count, pixels = conv.tile_pixels(panels.vectors), panels.count, hint(pixels)
    planes = hint(conv.x.batch) * groups
    weights = filter_bytes // conv.weight_bytes
    plane_ns = pixels * weights * panels.mac_fraction / groups / conv.macs_per_ns
    input_bytes = hint(conv.x.plane_bytes) * conv.x.blocks // conv.groups
    fewest = band_count(pixels, threads)
    if input_bytes > INPUT_BYTES:
        fewest = max(ceil_div(pixels, DIRECT_UNIT_PIXELS), fewest)
    rows = ceil_div(ceil_div(pixels, fewest), height)
    blocks = [height * n for n in block_sizes(rows) if n >= min(rows, MIN_UNIT_TILES)]

    def cost(size: tuple[int, int]) -> float:
        pixel_block, panel_block = size
        passes = ceil_div(pixels, pixel_block)
        unit = plane_ns * (pixel_block / pixels) * (panel_block / count)
        reread = filter_bytes * passes * REREAD_NS / partition_threads(threads)
        return reread + makespan(planes * passes * ceil_div(count, panel_block), unit, threads)

    return min(itertools.product(blocks, block_sizes(count)), key=cost)


def output_units(
    batch: int, starts: Sequence[int], pixels: Sequence[range], panels: Panels, panel_block: int
) -> list[OutputUnit]:
    """The outputs of all units of a launch, in the order of the kernels.

    `starts`: the first channel block of each group; `pixels`: those of each unit; `panel_block`:
    panels of a unit.
    """
    vectors = panels.vectors
    return [
        OutputUnit(
            number,
            range(
                start + panel * vectors, start + min(panel + panel_block, panels.count) * vectors
            ),
            each,
        )
        for number in range(batch)
        for start in starts
        for each in pixels
        for panel in range(0, panels.count, panel_block)
    ]
