"""Channel-blocked tensors, as lowerings and their kernels see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nnefc.ir import Blocked, Shape, TensorType, Value
from nnefc.ir.layout import ITEM
from nnefc.kernels.blocked import HALO
from nnefc.kernels.template import Kernel
from nnefc.lower.context import Lowering
from nnefc.lower.partition import ceil_div, per_tile
from nnefc.rates import VECTOR_ITEMS_PER_NS
from nnefc.runtime.program import Ref

Offsets = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A blocked tensor [batch, channels, ...] in memory."""

    at: Ref
    """Its first byte, halo included."""
    shape: Shape
    layout: Blocked
    batch_bytes: int
    """Bytes from one batch item to the next: more than its own if it is a slice of channels."""

    @classmethod
    def whole(cls, at: Ref, type_: TensorType) -> Tensor:
        """A tensor that has all memory from `at` on to itself."""
        layout = layout_of(type_)
        return cls(at, type_.dims, layout, layout.volume(type_.dims) // type_.dims[0] * ITEM)

    @property
    def batch(self) -> int:
        return self.shape[0]

    @property
    def channels(self) -> int:
        return self.shape[1]

    @property
    def spatial(self) -> Shape:
        return self.shape[2:]

    @property
    def blocks(self) -> int:
        return self.layout.blocks(self.shape)

    @property
    def pixel_bytes(self) -> int:
        """Bytes of a block of one pixel."""
        return self.layout.block * ITEM

    @property
    def plane_bytes(self) -> int:
        """Bytes from one channel block to the next."""
        return self.layout.plane(self.shape) * self.pixel_bytes

    @property
    def pitches(self) -> Shape:
        """Bytes from one pixel to the next along each spatial dimension."""
        return tuple(p * self.pixel_bytes for p in self.layout.pitches(self.shape))

    @property
    def origin(self) -> int:
        """Bytes from the start of a plane to the first pixel inside the halo."""
        return self.layout.origin(self.shape) * self.pixel_bytes

    def offsets(self, *indices: Sequence[int] | npt.NDArray[np.int64]) -> Offsets:
        """Bytes from the start of a plane to pixels: the grid of one index list per dimension.

        Indices below zero or beyond the extent lie in the halo.  The result is flat.
        """
        grid = np.int64(self.origin)
        for axis, index in enumerate(indices):
            steps = np.asarray(index, np.int64) * self.pitches[axis]
            grid = np.add.outer(grid, steps)
        assert np.abs(grid).max() < 1 << 31, "offsets into a plane are int32"
        return np.ravel(grid).astype(np.int32)

    def pixels(self) -> Offsets:
        """Offsets of all pixels inside the halo."""
        return self.offsets(*(range(n) for n in self.spatial))

    def channel_slice(self, first: int, channels: int) -> Tensor:
        """Some of the channels; `first` is a multiple of the block."""
        assert first % self.layout.block == 0
        skipped = first // self.layout.block * self.plane_bytes
        return replace(
            self,
            at=replace(self.at, offset=self.at.offset + skipped),
            shape=(self.batch, channels, *self.spatial),
        )


def layout_of(type_: TensorType) -> Blocked:
    """The layout of a tensor; row-major is a block of one channel without halo."""
    return type_.layout or Blocked(1, ((0, 0),) * (type_.rank - 2))


def read_blocked(lower: Lowering, value: Value) -> Tensor:
    """Where the items of `value` are; it may be row-major."""
    return Tensor.whole(lower.read(value), value.type)


def write_blocked(lower: Lowering, value: Value) -> Tensor:
    """Where to put the items of `value`; its halo is zeroed first."""
    tensor = Tensor.whole(lower.write(value), value.type)
    if tensor.layout.has_halo:
        zero_halo(lower, tensor)
    return tensor


def zero_halo(lower: Lowering, tensor: Tensor) -> None:
    """Zeros around every plane, and in its unused pixels."""
    gaps = _gaps(tensor)
    planes = tensor.batch * tensor.blocks
    plane_block = per_tile(planes, gaps[:, 1].sum() / (VECTOR_ITEMS_PER_NS * ITEM), lower.threads)
    words = HALO.pack(
        y=tensor.at,
        blocks=tensor.blocks,
        plane_bytes=tensor.plane_bytes,
        batch_bytes=tensor.batch_bytes,
        gaps=gaps.ravel().tolist(),
        count=len(gaps),
        planes=planes,
        plane_block=plane_block,
    )
    lower.launch(Kernel("blocked.zero_halo"), words, ceil_div(planes, plane_block))


def _gaps(tensor: Tensor) -> npt.NDArray[np.int64]:
    """[gaps, 2]: offset and number of bytes of what lies around the rows of a plane."""
    *outer, width = tensor.spatial
    rows = tensor.offsets(*(range(n) for n in outer), [0]).astype(np.int64)
    ends = rows + width * tensor.pixel_bytes
    starts = np.concatenate(([0], ends))
    sizes = np.concatenate((rows, [tensor.plane_bytes])) - starts
    return np.stack([starts, sizes], 1)[sizes > 0]
