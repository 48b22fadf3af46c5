"""Copies of blocked tensors in which the pixels that a tap of a stride reads are neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnefc.ir import Blocked, Shape, TensorType
from nnefc.lower.blocked.tensors import Tensor
from nnefc.lower.context import Lowering
from nnefc.lower.movement.strided import copy_strided
from nnefc.lower.partition import ceil_div
from nnefc.program.program import Ref
from nnefc.program.tables.phases import Phase, Progression
from nnefc.program.tables.planes import Plane


@dataclass(frozen=True, slots=True)
class StridedPixels:
    """The copy that the taps of a phase of a convolution read: its geometry.

    It has planes of the pixels with the same remainders modulo the strides.
    """

    x: Tensor
    stride: Shape
    starts: tuple[tuple[int, ...], ...]
    """By dimension: the stored pixels that the taps of the first output read."""
    phase: Phase
    """The phase, with the inputs of its outputs in the copy."""

    @classmethod
    def of(cls, x: Tensor, stride: Shape, phase: Phase) -> StridedPixels:
        starts = tuple(
            tuple(before + axis.inputs.first + distance for _, distance in axis.taps)
            for axis, (before, _) in zip(phase, x.layout.halo, strict=True)
        )
        inputs = [Progression(0, axis.outputs.count, 1) for axis in phase]
        moved = tuple(replace(axis, inputs=i) for axis, i in zip(phase, inputs, strict=True))
        return cls(x, stride, starts, moved)

    @property
    def remainders(self) -> list[tuple[int, ...]]:
        """Those that taps read."""
        each = zip(self.starts, self.stride, strict=True)
        return list(itertools.product(*(sorted({s % n for s in mine}) for mine, n in each)))

    @property
    def type(self) -> TensorType:
        """The planes of all remainders, as channel blocks one behind another."""
        x, extents = self.x, self.x.layout.extents(self.x.shape)
        spatial = tuple(ceil_div(n, s) for n, s in zip(extents, self.stride, strict=True))
        layout = Blocked(x.layout.block, ((0, 0),) * len(spatial), x.itemsize)
        channels = len(self.remainders) * x.blocks * x.layout.block
        return TensorType(x.dtype, (x.batch, channels, *spatial), layout)

    @property
    def plane(self) -> Plane:
        layout = self.type.layout
        assert layout is not None
        return Plane(self.type.dims[2:], layout)

    def tap_offsets(self) -> list[int]:
        """Bytes from an output's pixel to that of each tap, in the first channel block."""
        plane, remainders = self.plane, self.remainders
        offsets: list[int] = []
        for start in itertools.product(*self.starts):
            shifts, rest = zip(*map(divmod, start, self.stride), strict=True)
            inside = sum(n * pitch for n, pitch in zip(shifts, plane.pitches, strict=True))
            offsets.append(remainders.index(rest) * self.x.blocks * plane.nbytes + inside)
        return offsets

    def copy(self, lower: Lowering) -> Tensor:
        """Launch the copy."""
        x, type_ = self.x, self.type
        y = Tensor.whole(lower.scratch(type_.nbytes, "strided"), type_)
        for i, remainder in enumerate(self.remainders):
            self._copy_plane(lower, y, i * x.blocks * y.plane_bytes, remainder)
        return replace(y, at=Ref(y.at.buffer))

    def _copy_plane(self, lower: Lowering, y: Tensor, at: int, remainder: Sequence[int]) -> None:
        x = self.x
        extents = zip(x.layout.extents(x.shape), remainder, self.stride, strict=True)
        counts = [ceil_div(extent - r, n) for extent, r, n in extents]
        skipped = sum(r * pitch for r, pitch in zip(remainder, x.pitches, strict=True))
        pitches = [n * pitch for n, pitch in zip(self.stride, x.pitches, strict=True)]
        copy_strided(
            lower,
            replace(x.at, offset=x.at.offset + skipped),
            replace(y.at, offset=y.at.offset + at),
            (x.batch, x.blocks, *counts, x.layout.block),
            (x.batch_bytes, x.plane_bytes, *pitches, x.itemsize),
            (y.batch_bytes, y.plane_bytes, *y.pitches, x.itemsize),
            x.itemsize,
        )
