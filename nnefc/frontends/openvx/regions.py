"""Regions of tensors: boxes in OpenVX's order of dims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nnefc.frontends.openvx.tensors import Dims, TensorInfo


class Region(NamedTuple):
    """Items from `start` to `end`, exclusive, along each dim."""

    start: Dims
    end: Dims

    @property
    def dims(self) -> Dims:
        """The extents."""
        return tuple(b - a for a, b in zip(self.start, self.end, strict=True))

    def overlaps(self, other: Region) -> bool:
        """Whether some item is in both."""
        pairs = zip(self.start, self.end, other.start, other.end, strict=True)
        return all(a < d and c < b for a, b, c, d in pairs)

    def contains(self, other: Region) -> bool:
        """Whether all items of `other` are in this one."""
        pairs = zip(self.start, self.end, other.start, other.end, strict=True)
        return all(a <= c and d <= b for a, b, c, d in pairs)

    def cut(self, axis: int, at: int) -> tuple[Region, Region]:
        """The two parts in front of and behind a border."""
        end, start = list(self.end), list(self.start)
        end[axis] = start[axis] = at
        return Region(self.start, tuple(end)), Region(tuple(start), self.end)

    def within(self, outer: Region) -> Region:
        """The same items, counted from the start of a region that contains them."""
        start = tuple(a - b for a, b in zip(self.start, outer.start, strict=True))
        return Region(start, tuple(a + n for a, n in zip(start, self.dims, strict=True)))

    def __str__(self) -> str:
        return " x ".join(f"{a}..{b}" for a, b in zip(self.start, self.end, strict=True))


def whole(dims: Dims) -> Region:
    """The region of all items."""
    return Region((0,) * len(dims), dims)


def region_of(tensor: TensorInfo, dims: Dims) -> Region:
    """The region of a tensor with these dims in its root."""
    if tensor.parent is None:
        return whole(dims)
    return Region(tensor.start, tuple(a + n for a, n in zip(tensor.start, dims, strict=True)))


def best_cut(region: Region, pieces: Sequence[Region]) -> tuple[int, int]:
    """The axis and border along which to cut a region in which some of the `pieces` lie.

    A border that no piece crosses if there is one, slow dims first, as parts along these are
    contiguous.  There must be a piece that overlaps the region without containing it.
    """
    inside = [each for each in pieces if each.overlaps(region)]
    cuts = [
        (axis, at)
        for axis in reversed(range(len(region.start)))
        for at in sorted(_borders(region, inside, axis))
    ]
    clean = (cut for cut in cuts if not any(_crosses(piece, *cut) for piece in inside))
    return next(clean, cuts[0])


def _borders(region: Region, pieces: Iterable[Region], axis: int) -> set[int]:
    ends = {at for each in pieces for at in (each.start[axis], each.end[axis])}
    return {at for at in ends if region.start[axis] < at < region.end[axis]}


def _crosses(piece: Region, axis: int, at: int) -> bool:
    return piece.start[axis] < at < piece.end[axis]


def covers(region: Region, pieces: Sequence[Region]) -> bool:
    """Whether disjoint pieces contain all items of a region."""
    if any(each.contains(region) for each in pieces):
        return True
    if not any(each.overlaps(region) for each in pieces):
        return False
    return all(covers(part, pieces) for part in region.cut(*best_cut(region, pieces)))
