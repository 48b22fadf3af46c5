"""Channel-blocked tensors in memory: offsets of planes, rows and pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nnefc.ir import Blocked, DType, Shape, TensorType, Value
from nnefc.kernels.tile import zero_halo as halo
from nnefc.kernels.tile.zero_halo import FILLED_HALO, GAP_BYTES, HALO
from nnefc.lower.context import Lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.program.program import Ref
from nnefc.program.tables.planes import Plane, gaps
from nnefc.support.machine_model import VECTOR_ITEMS_PER_NS
from nnefc.symbolic.traced_array import length, traced_call


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
    """The memory to write `value` to, after a launch that writes its halo."""
    tensor = Tensor.whole(lower.write(value), value.type)
    if tensor.layout.has_halo:
        write_halo(lower, tensor)
    return tensor


def write_halo(lower: Lowering, tensor: Tensor) -> None:
    """Launch a kernel that fills the halo and the unused pixels of every plane."""
    ranges, nbytes = traced_call(gaps, tensor.plane)
    planes = tensor.batch * tensor.blocks
    plane_block = units_per_tile(
        planes, nbytes / (VECTOR_ITEMS_PER_NS * tensor.itemsize), lower.threads
    )
    fields: dict[str, Any] = {
        "y": tensor.at,
        "blocks": tensor.blocks,
        "plane_bytes": tensor.plane_bytes,
        "batch_bytes": tensor.batch_bytes,
        "gaps": lower.table(ranges),
        "count": length(ranges),
        "planes": planes,
        "plane_block": plane_block,
    }
    fill = tensor.layout.fill
    if fill:
        assert tensor.itemsize <= 2, "only codes have a fill"
        item = (fill & ((1 << 8 * tensor.itemsize) - 1)).to_bytes(tensor.itemsize, "little")
        word = int.from_bytes(item * (GAP_BYTES // tensor.itemsize), "little")
        kernel, words = halo.fill_halo(), FILLED_HALO.pack(**fields, word=word)
    else:
        kernel, words = halo.zero_halo(), HALO.pack(**fields)
    lower.launch(kernel, words, ceil_div(planes, plane_block))
