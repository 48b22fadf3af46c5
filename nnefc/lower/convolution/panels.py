"""Panels of output channels, as wide as register tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nnefc.ir import DType
from nnefc.kernels.convolution.winograd_steps import Panel
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.blocked_tile import Half, panel_width
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.partition import ceil_div
from nnefc.support.machine_model import MACS_PER_NS

LEAST_SAVED: Final = 1000.0
"""Nanoseconds that must be saved to justify another kernel or launch."""


@dataclass(frozen=True, slots=True)
class Panels:
    """`count` panels of `vectors` channel blocks each."""

    accumulator: DType
    vectors: int
    count: int
    half: Half = ""

    @property
    def panel(self) -> Panel:
        """The specialisation of the kernels."""
        return Panel(self.vectors, self.half)

    @property
    def width(self) -> int:
        """Channels of a panel, padding included."""
        return panel_width(str(self.accumulator), self.vectors, self.half)

    @property
    def mac_fraction(self) -> float:
        """Executed multiply-adds, as a fraction of those for full channel blocks."""
        return 1 - (self.half == "filled") / (2 * self.vectors * self.count)


def panels_of(
    accumulator: DType, channels: int, macs: float, *, threes: bool = False
) -> list[Panels]:
    """Panels of two channel blocks; for an odd number of blocks, one panel of three, or of one.

    `macs`: multiply-adds per channel.  The last panel computes its last block with half a vector
    if the block is at most half full and that saves enough.  `threes`: panels of three blocks, and
    at most two panels of two.
    """
    lanes = lanes_of(str(accumulator))
    blocks = ceil_div(channels, lanes)
    saved = macs * (lanes // 2) / MACS_PER_NS
    if threes and blocks > 1:
        pairs = -blocks % 3
        panels = [
            Panels(accumulator, 3, (blocks - 2 * pairs) // 3),
            Panels(accumulator, 2, pairs),
        ]
        return [each for each in panels if each.count]
    few = host().halves and 0 < channels % lanes <= lanes // 2 and saved >= LEAST_SAVED
    half = "filled" if few else ""
    if blocks == 1:
        return [Panels(accumulator, 1, 1, half)]
    last = 3 if blocks % 2 else 2 if half else 0
    pairs = Panels(accumulator, 2, (blocks - last) // 2)
    panels = [pairs, Panels(accumulator, last, 1, half)]
    return [each for each in panels if each.vectors * each.count]


def group_panels(accumulator: DType, first: int, channels: int) -> list[Panels]:
    """Panels of the channels of a group that starts at lane `first` of a channel block.

    A group consists of whole blocks, or of whole blocks and half a block at its start or end.
    """
    lanes = lanes_of(str(accumulator))
    blocks, rest = divmod(channels, lanes)
    if not first and not rest:
        vectors = next(v for v in (2, 3, 1) if blocks % v == 0)
        return [Panels(accumulator, vectors, blocks // vectors)]
    assert first in (0, lanes // 2) and rest == lanes // 2
    beside = 1 if blocks % 2 else min(blocks, 2)
    pairs = Panels(accumulator, 2, (blocks - beside) // 2)
    shared = Panels(accumulator, beside + 1, 1, "first" if first else "last")
    panels = [pairs, shared]
    return [each for each in (reversed(panels) if first else panels) if each.count]
