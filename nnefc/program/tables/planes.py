"""Offsets of the pixels of channel-blocked tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from nnefc.ir import Blocked, Shape
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.integers import ceil_div, is_symbolic
from nnefc.symbolic.table_size import check_items

Offsets = npt.NDArray[np.int32]


def as_offsets(distances: npt.NDArray[np.int64]) -> Offsets:
    """Byte offsets within a plane as int32, as kernels read them.

    Passes choose blocked layouts only for planes that are small enough; OverflowError otherwise.
    """
    if np.abs(distances).max() >= 1 << 31:
        raise OverflowError("offsets into a plane are int32")
    return distances.astype(np.int32)


@dataclass(frozen=True, slots=True)
class Plane:
    """Byte offsets of the pixels of a channel block."""

    spatial: Shape
    layout: Blocked

    @property
    def _shape(self) -> Shape:
        return (1, 1, *self.spatial)

    @property
    def pixel_bytes(self) -> int:
        """Bytes of a block of one pixel."""
        return self.layout.block * self.layout.itemsize

    @property
    def nbytes(self) -> int:
        return self.layout.plane(self._shape) * self.pixel_bytes

    @property
    def pitches(self) -> Shape:
        """Bytes from one pixel to the next along each spatial dimension."""
        return tuple(p * self.pixel_bytes for p in self.layout.pitches(self._shape))

    @property
    def origin(self) -> int:
        """Offset of the first pixel inside the halo."""
        return self.layout.origin(self._shape) * self.pixel_bytes

    def offsets(self, *indices: Sequence[int] | npt.NDArray[np.int64]) -> Offsets:
        """Offsets of the grid of pixels given by one index list per dimension, flattened.

        Indices below zero or beyond the extent lie in the halo.
        """
        check_items(*map(len, indices))
        known = (self.origin, self.pitches) if is_symbolic(self.spatial) else _geometry(self)
        grid = np.int64(known[0])
        for index, pitch in zip(indices, known[1], strict=True):
            grid = np.add.outer(grid, np.asarray(index, np.int64) * pitch)
        return as_offsets(np.ravel(grid))

    def pixels(self) -> Offsets:
        """Offsets of all pixels inside the halo."""
        return self.offsets(*map(range, self.spatial))

    def rows(self) -> Offsets:
        """Offsets of the first pixels of all rows."""
        return self.offsets(*map(range, self.spatial[:-1]), [0])


@lru_cache(maxsize=256)
def _geometry(plane: Plane) -> tuple[int, Shape]:
    """Origin and pitches of a plane of known extents."""
    return plane.origin, plane.pitches


@traceable
def gaps(plane: Plane) -> tuple[npt.NDArray[np.int64], int]:
    """([gaps, 2]: byte offset and bytes of the gaps around the rows of a plane; their sum)."""
    rows = plane.rows().astype(np.int64)
    ends = rows + plane.spatial[-1] * plane.pixel_bytes
    starts = np.concatenate(([0], ends))
    sizes = np.concatenate((rows, [plane.nbytes])) - starts
    return np.stack([starts, sizes], 1)[sizes > 0], int(sizes.sum())


@traceable
def pixel_offsets(plane: Plane) -> tuple[Offsets]:
    """Byte offsets of the pixels of a plane."""
    return (plane.pixels(),)


@traceable
def row_runs(x: Plane) -> tuple[npt.NDArray[np.int32]]:
    """int32 [runs, 2]: byte offset and pixels of the contiguous ranges inside the halo."""
    if not x.layout.has_halo:
        return (np.array([[0, math.prod(x.spatial)]], np.int32),)
    rows = x.rows()
    return (np.stack([rows, np.full_like(rows, x.spatial[-1])], 1),)


RUN_PIXELS = 128
"""Maximum pixels of a run, which stay in the first cache from step to step."""


@traceable
def common_runs(planes: Sequence[Plane], parts: int) -> tuple[npt.NDArray[np.int32]]:
    """int32 [runs, 1 + planes]: pixels of a run, then its byte offset in each plane.

    Runs are contiguous in all planes, and do not cross the bounds of the `parts` equal parts.
    """
    pixels = np.stack([plane.pixels() for plane in planes], 1)
    follows = (np.diff(pixels, axis=0) == planes[0].pixel_bytes).all(1)
    part = ceil_div(len(pixels), parts)
    pieces = np.arange(0, len(pixels), ceil_div(part, ceil_div(part, RUN_PIXELS)))
    starts = np.union1d(np.flatnonzero(~follows) + 1, pieces)
    counts = np.diff(starts, append=len(pixels))
    return (np.column_stack([counts, pixels[starts]]).astype(np.int32),)


@traceable
def zero_offsets(pixels: int) -> tuple[Offsets]:
    """A table that maps all pixels to the same zeros."""
    check_items(pixels)
    return (np.zeros(pixels, np.int32),)
