"""How output channels are covered by panels, which are as wide as register tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nnefc.kernels.isa import host
from nnefc.kernels.vector import lanes_of
from nnefc.lower.partition import ceil_div
from nnefc.rates import MACS_PER_NS

LEAST_SAVED: Final = 1000.0
"""Nanoseconds: saving less does not pay for one more kernel or launch."""


@dataclass(frozen=True, slots=True)
class Panels:
    """`count` panels of `vectors` channel blocks each."""

    vectors: int
    count: int
    half: bool = False
    """Whether of the last block only the first half is computed."""

    @property
    def panel(self) -> tuple[int, bool]:
        """What kernels are specialised by."""
        return self.vectors, self.half

    @property
    def share(self) -> float:
        """Of the arithmetic on all of the channel blocks."""
        return 1 - self.half / (2 * self.vectors * self.count)


def panels_of(channels: int, macs: float) -> list[Panels]:
    """Panels of two channel blocks, and one of three, or of one, if they are odd.

    `macs`: multiply-adds for each channel.  A last block that is at most half full is in the last
    panel, computed with half a vector where that saves enough.
    """
    lanes = lanes_of("float32")
    blocks = ceil_div(channels, lanes)
    saved = macs * (lanes // 2) / MACS_PER_NS
    half = host().halves and 0 < channels % lanes <= lanes // 2 and saved >= LEAST_SAVED
    if blocks == 1:
        return [Panels(1, 1, half)]
    last = 3 if blocks % 2 else 2 if half else 0
    found = [Panels(2, (blocks - last) // 2), Panels(last, 1, half)]
    return [each for each in found if each.vectors * each.count]


def group_panels(channels: int) -> list[Panels]:
    """Equal panels of the channels of a group, whole blocks."""
    blocks = channels // lanes_of("float32")
    vectors = next(v for v in (2, 3, 1) if blocks % v == 0)
    return [Panels(vectors, blocks // vectors)]
