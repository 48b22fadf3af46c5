"""The memory layout of tensors that are not row-major."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnefc.support.alignment import CACHE_LINE
from nnefc.symbolic.sym_int_base import Dim


@dataclass(frozen=True, slots=True)
class Blocked:
    """[batch, channel blocks, plane, block]: channel blocks are innermost, planes have a halo.

    This is the NCHW[x]c layout of NeoCPU (Liu et al., Optimizing CNN Model Inference on CPUs, 2019)
    with a halo of zeros before and after each spatial dimension.  A plane is row-major and ends
    with some unused pixels.  The padding of the last channel block is zero as far as sums over
    channels read it (`entry`).  With `block` 1 the layout is row-major apart from the halo.

    Vectors over the block need no shuffles and no tails, a channel block of a pixel is one aligned
    vector, and a window that extends beyond the border reads zeros without a branch.

    Codes (int8, uint8) have blocks of as many channels, whose number is a multiple of 4, so that
    kernels read words of four codes.  Their halo is `fill`, the zero point.
    """

    block: int
    """Channels in a block."""
    halo: tuple[tuple[int, int], ...]
    """Pixels before and after each spatial dimension."""
    itemsize: int = 4
    """Bytes of an item, as of the item type of the tensor; not part of the text form."""
    fill: int = 0
    """The items of the halo; only those of codes may differ from 0."""

    @property
    def entry(self) -> int:
        """Channels per step of sums over channels; divides `block`."""
        return min(self.block, 8)

    def blocks(self, shape: Sequence[Dim]) -> Dim:
        """Channel blocks of a tensor [batch, channels, ...]."""
        return -(-shape[1] // self.block)

    def extents(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """Stored pixels along each spatial dimension, halo included."""
        return tuple(
            before + n + after for n, (before, after) in zip(shape[2:], self.halo, strict=True)
        )

    def plane(self, shape: Sequence[Dim]) -> Dim:
        """Pixels from one channel block to the next.

        The distance is an odd number of cache lines, except for small planes.  At a distance of a
        power of two, all channels of a pixel would compete for the same cache set.
        """
        pixels = math.prod(self.extents(shape))
        nbytes = self.block * self.itemsize
        if self.block == 1 or pixels * nbytes < 4 * CACHE_LINE:
            return pixels
        lines = -(-pixels * nbytes // CACHE_LINE)
        return (lines // 2 * 2 + 1) * CACHE_LINE // nbytes

    def pitches(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """Pixels from one item to the next along each spatial dimension."""
        extents = self.extents(shape)
        return tuple(math.prod(extents[i + 1 :]) for i in range(len(extents)))

    def origin(self, shape: Sequence[Dim]) -> Dim:
        """Offset of the first item in its plane, in pixels."""
        pitches = self.pitches(shape)
        return sum(before * p for (before, _), p in zip(self.halo, pitches, strict=True))

    def volume(self, shape: Sequence[Dim]) -> Dim:
        """Number of stored items, including halo and padding."""
        return shape[0] * self.blocks(shape) * self.plane(shape) * self.block

    @property
    def has_halo(self) -> bool:
        return any(before or after for before, after in self.halo)

    def __str__(self) -> str:
        halo = "".join(f", [{before}, {after}]" for before, after in self.halo)
        return f"blocked({self.block}{f' fill {self.fill}' if self.fill else ''}{halo})"
