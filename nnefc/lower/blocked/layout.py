"""Changes of layout between row-major, blocked, and blocked with another halo."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.ir import Blocked, Op, TensorType
from nnefc.kernels.family import Family
from nnefc.kernels.movement import layout as kernels
from nnefc.kernels.movement.layout import LAYOUT
from nnefc.kernels.vector.item_types import MOVED_AS
from nnefc.lower.blocked.tensors import Tensor, layout_of, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.movement.strided import copy_strided
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.program.program import Ref
from nnefc.program.tables.planes import pixel_offsets
from nnefc.support.machine_model import VECTOR_ITEMS_PER_NS
from nnefc.symbolic.integers import largest
from nnefc.symbolic.traced_array import traced_call

Array = npt.NDArray[Any]

TILE_PIXELS = 1024
"""Pixels of a unit."""


@blocked_lowering("layout")
def layout(lower: Lowering, op: Op) -> None:
    """Convert known data now; if both layouts have the same bytes, the result is a view."""
    known, to = lower.data(op.inputs[0]), op.output.type.layout
    if known is not None and op.inputs[0].type.layout is None and to is not None:
        lower.bind(
            op.output, lower.derived([known], ("blocked", to), lambda: to_blocked(known, to))
        )
        return
    x = read_blocked(lower, op.inputs[0])
    if same_bytes(x.shape, x.layout, layout_of(op.output.type)):
        lower.alias(op.output, op.inputs[0])
        return
    convert(lower, x, write_blocked(lower, op.output))


def to_blocked(items: Array, layout: Blocked) -> Array:
    """The memory of a blocked tensor with these items; padding is zero."""
    batch, channels, *spatial = items.shape
    blocks, extents = layout.blocks(items.shape), layout.extents(items.shape)
    padded = np.full((batch, blocks * layout.block, *extents), layout.fill, items.dtype)
    inside = [slice(a, a + n) for (a, _), n in zip(layout.halo, spatial, strict=True)]
    padded[:, :, *inside] = 0
    padded[:, :channels, *inside] = items
    pixels = math.prod(extents)
    shape = (batch, blocks, layout.plane(items.shape), layout.block)
    planes = np.full(shape, layout.fill, items.dtype)
    split = padded.reshape(batch, blocks, layout.block, pixels)
    planes[:, :, :pixels] = split.swapaxes(2, 3)
    return planes


def convert(lower: Lowering, x: Tensor, y: Tensor) -> None:
    """Copy the items of x to y, between any layouts; leaves the halo of y unchanged."""
    if x.layout.block == y.layout.block:
        copy(lower, x, y)
    elif x.layout.block == 1 and not x.layout.has_halo:
        _transpose(lower, kernels.block, x, y)
    elif y.layout.block == 1 and not y.layout.has_halo:
        _transpose(lower, kernels.unblock, y, x)
    else:
        between = lower.scratch(math.prod(x.shape) * x.itemsize)
        target = Tensor.whole(between, TensorType(x.dtype, x.shape))
        convert(lower, x, target)
        convert(lower, replace(target, at=Ref(between.buffer)), y)


def same_bytes(shape: tuple[int, ...], x: Blocked, y: Blocked) -> bool:
    """Whether two layouts give a tensor of `shape` the same bytes."""
    if x == y:
        return True
    if x.has_halo or y.has_halo or x.volume(shape) != y.volume(shape):
        return False
    return x.block == y.block or math.prod(shape[2:]) == 1


def copy(lower: Lowering, x: Tensor, y: Tensor) -> None:
    """Copy between blocked tensors of the same block size, perhaps with other halos."""
    copy_strided(
        lower,
        replace(x.at, offset=x.at.offset + x.origin),
        replace(y.at, offset=y.at.offset + y.origin),
        (x.batch, x.blocks, *x.spatial, x.layout.block),
        (x.batch_bytes, x.plane_bytes, *x.pitches, x.itemsize),
        (y.batch_bytes, y.plane_bytes, *y.pitches, x.itemsize),
        x.itemsize,
    )


def _transpose(lower: Lowering, family: Family[str, int], dense: Tensor, blocked: Tensor) -> None:
    pixels, lanes = math.prod(dense.spatial), blocked.layout.block
    pixel_block = ceil_div(pixels, largest([pixels // TILE_PIXELS, 1]))
    (offsets,) = traced_call(pixel_offsets, blocked.plane)
    units = dense.batch * blocked.blocks * ceil_div(pixels, pixel_block)
    unit_block = units_per_tile(units, pixel_block * lanes / VECTOR_ITEMS_PER_NS, lower.threads)
    words = LAYOUT.pack(
        dense=dense.at,
        blocked=blocked.at,
        offsets=lower.table(offsets),
        dense_batch=dense.batch_bytes,
        dense_channel=dense.plane_bytes,
        blocked_batch=blocked.batch_bytes,
        blocked_plane=blocked.plane_bytes,
        channels=dense.channels,
        pixels=pixels,
        pixel_block=pixel_block,
        units=units,
        unit_block=unit_block,
    )
    lower.launch(family(MOVED_AS[dense.itemsize], lanes), words, ceil_div(units, unit_block))
