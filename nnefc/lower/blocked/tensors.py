"""Channel-blocked tensors in memory: offsets of planes, rows and pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nnefc.ir import Blocked, DType, Shape, TensorType, Value
from nnefc.kernels.tile import zero_halo as halo
from nnefc.kernels.tile.zero_halo import HALO
from nnefc.lower.context import Lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.program.program import Ref
from nnefc.support.machine_model import VECTOR_ITEMS_PER_NS
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.traced_array import length, traced_call

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
        grid = np.int64(self.origin)
        for index, pitch in zip(indices, self.pitches, strict=True):
            grid = np.add.outer(grid, np.asarray(index, np.int64) * pitch)
        return as_offsets(np.ravel(grid))

    def pixels(self) -> Offsets:
        """Offsets of all pixels inside the halo."""
        return self.offsets(*map(range, self.spatial))

    def rows(self) -> Offsets:
        """Offsets of the first pixels of all rows."""
        return self.offsets(*map(range, self.spatial[:-1]), [0])


@dataclass(frozen=True, slots=True)
class Tensor:
    """A blocked tensor [batch, channels, ...] in memory."""

    at: Ref
    """Its first byte, halo included."""
    shape: Shape
    layout: Blocked
    batch_bytes: int
    """Bytes from one batch item to the next; larger than an item for slices of channels."""
    dtype: DType

    @classmethod
    def whole(cls, at: Ref, type_: TensorType) -> Tensor:
        """A whole tensor at `at`, not a slice of another one."""
        layout, dims = layout_of(type_), type_.dims
        item_bytes = layout.volume(dims) // dims[0] * layout.itemsize
        return cls(at, dims, layout, item_bytes, type_.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of an item."""
        return self.layout.itemsize

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
    def plane(self) -> Plane:
        """The geometry of each channel block."""
        return Plane(self.spatial, self.layout)

    @property
    def pixel_bytes(self) -> int:
        """Bytes of a block of one pixel."""
        return self.plane.pixel_bytes

    @property
    def plane_bytes(self) -> int:
        """Bytes from one channel block to the next."""
        return self.plane.nbytes

    @property
    def pitches(self) -> Shape:
        """Bytes from one pixel to the next along each spatial dimension."""
        return self.plane.pitches

    @property
    def origin(self) -> int:
        """Bytes from the start of a plane to the first pixel inside the halo."""
        return self.plane.origin

    def channel_slice(self, first: int, channels: int) -> Tensor:
        """`channels` channels from `first` on, which must be a multiple of the block."""
        assert first % self.layout.block == 0
        skipped = first // self.layout.block * self.plane_bytes
        return replace(
            self,
            at=replace(self.at, offset=self.at.offset + skipped),
            shape=(self.batch, channels, *self.spatial),
        )


def layout_of(type_: TensorType) -> Blocked:
    """The layout of a tensor; row-major counts as blocks of one channel without halo."""
    return type_.layout or Blocked(1, ((0, 0),) * (type_.rank - 2), type_.dtype.itemsize)


def read_blocked(lower: Lowering, value: Value) -> Tensor:
    """The memory that holds `value`, which may be row-major."""
    return Tensor.whole(lower.read(value), value.type)


def write_blocked(lower: Lowering, value: Value) -> Tensor:
    """The memory to write `value` to, after a launch that zeroes its halo."""
    tensor = Tensor.whole(lower.write(value), value.type)
    if tensor.layout.has_halo:
        zero_halo(lower, tensor)
    return tensor


def zero_halo(lower: Lowering, tensor: Tensor) -> None:
    """Launch a kernel that zeroes the halo and the unused pixels of every plane."""
    gaps, nbytes = traced_call(_gaps, tensor.plane)
    planes = tensor.batch * tensor.blocks
    plane_block = units_per_tile(
        planes, nbytes / (VECTOR_ITEMS_PER_NS * tensor.itemsize), lower.threads
    )
    words = HALO.pack(
        y=tensor.at,
        blocks=tensor.blocks,
        plane_bytes=tensor.plane_bytes,
        batch_bytes=tensor.batch_bytes,
        gaps=lower.table(gaps),
        count=length(gaps),
        planes=planes,
        plane_block=plane_block,
    )
    lower.launch(halo.zero_halo(), words, ceil_div(planes, plane_block))


@traceable
def _gaps(plane: Plane) -> tuple[npt.NDArray[np.int64], int]:
    """([gaps, 2]: byte offset and bytes of the gaps around the rows of a plane; their sum)."""
    rows = plane.rows().astype(np.int64)
    ends = rows + plane.spatial[-1] * plane.pixel_bytes
    starts = np.concatenate(([0], ends))
    sizes = np.concatenate((rows, [plane.nbytes])) - starts
    return np.stack([starts, sizes], 1)[sizes > 0], int(sizes.sum())
