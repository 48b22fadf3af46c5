"""conv and deconv: matrix products, dot products or weighted sums of rows (section 4.3.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Op
from nnefc.kernels.convolution import row_major
from nnefc.kernels.convolution.row_major import CONVOLUTION
from nnefc.kernels.parameters import Words
from nnefc.kernels.tile.register_tile import panel_columns, tile_rows
from nnefc.kernels.window import sliding as window_kernels
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.movement.strided import permute
from nnefc.lower.partition import ceil_div, per_tile
from nnefc.lower.product.matmul import Matrix, dots
from nnefc.lower.window import sliding, taps
from nnefc.lower.window.taps import Dimension, dimensions_of
from nnefc.ops.core.window_arithmetic import convolution_groups, convolution_window
from nnefc.program.program import Ref
from nnefc.support.machine_model import DOT_MACS_PER_NS
from nnefc.symbolic.integers import hint, smallest
from nnefc.symbolic.traced_array import traced_call

FEW_PIXELS = 4
"""Up to so many, a register tile would be mostly idle."""
FEW_OUTPUTS = 4
"""Up to so many outputs per input channel, packing costs more than it gives."""
TILE_FLOPS = 4e6
"""Multiply-adds of a tile: some 50 microseconds."""


@dataclass(frozen=True, slots=True)
class _Convolution:
    """A convolution, forward or reverse, with the filter as [groups * outputs, inputs, taps]."""

    dtype: DType
    batch: int
    groups: int
    inputs: int
    outputs: int
    dimensions: Sequence[Dimension]
    x: Ref
    y: Ref
    filter: Ref
    bias: Ref
    bias_bytes: int

    @property
    def taps(self) -> int:
        return math.prod(d.taps for d in self.dimensions)

    @property
    def pixels(self) -> int:
        return math.prod(d.outputs for d in self.dimensions)

    @property
    def plane(self) -> int:
        """Bytes of one channel of the input."""
        return self.dtype.itemsize * math.prod(d.inputs for d in self.dimensions)


@lowering("conv", "deconv")
def convolution(lower: Lowering, op: Op) -> None:
    input_, filter_, bias = op.inputs
    reverse = op.name == "deconv"
    shape, kernel = input_.type.dims, filter_.type.dims
    moves = convolution_window(shape, kernel, op.attributes, reverse=reverse)
    groups = convolution_groups(shape, op.attributes)
    down, up = kernel[0] // groups, kernel[1]
    dtype = op.output.type.dtype
    inputs, outputs = (down, up) if reverse else (up, down)
    it = _Convolution(
        dtype=dtype,
        batch=shape[0],
        groups=groups,
        inputs=inputs,
        outputs=outputs,
        dimensions=taps.join(dimensions_of(moves, op.attributes["border"])),
        x=lower.read(input_),
        filter=_reversed_filter(lower, op, groups) if reverse else lower.read(filter_),
        bias=lower.read(bias),
        bias_bytes=dtype.itemsize if bias.type.volume > 1 else 0,
        y=lower.write(op.output),
    )
    if it.inputs == 1 and it.outputs <= FEW_OUTPUTS:
        _weighted(lower, it)
    elif hint(it.pixels) <= FEW_PIXELS:
        _dots(lower, it)
    else:
        _gemm(lower, it)


def _reversed_filter(lower: Lowering, op: Op, groups: int) -> Ref:
    """The filter of deconv [groups * inputs, outputs, ...] with the two exchanged."""
    value = op.inputs[1]
    c, channels, *size = value.type.dims
    shape = (groups, c // groups, channels, math.prod(size))
    if shape[1] == 1 or shape[2] == 1:
        return lower.read(value)
    data = lower.data(value)
    if data is not None:
        return lower.constant(data.reshape(shape).swapaxes(1, 2))
    exchanged = lower.scratch(value.type.nbytes)
    permute(lower, lower.read(value), exchanged, shape, (0, 2, 1, 3), value.type.dtype.itemsize)
    return Ref(exchanged.buffer)


def _weighted(lower: Lowering, it: _Convolution) -> None:
    """One channel in per channel out: weighted sums of rows."""
    multiplier = Dimension(1, it.outputs, border="replicate")
    sliding.launch(
        lower,
        window_kernels.weighted(str(it.dtype)),
        [taps.identity(it.batch * it.groups), multiplier, *it.dimensions],
        it.dtype,
        x=it.x,
        y=it.y,
        weights=it.filter,
        bias=it.bias,
        channels=it.groups * it.outputs,
        channel_rows=math.prod(d.outputs for d in it.dimensions[:-1]),
        weight_bytes=it.taps * it.dtype.itemsize,
        bias_bytes=it.bias_bytes,
    )


def _gemm(lower: Lowering, it: _Convolution) -> None:
    columns, rows = panel_columns(str(it.dtype)), tile_rows()
    pixel_block = smallest([ceil_div(it.pixels, columns), 4]) * columns
    planes = it.batch * it.groups
    pixel_blocks = ceil_div(it.pixels, pixel_block)
    work = planes * it.pixels * it.outputs * it.inputs * it.taps
    wanted = min(16, max(int(hint(work) / TILE_FLOPS), 1))
    parts = max(min(ceil_div(wanted, hint(planes * pixel_blocks)), it.outputs // (8 * rows)), 1)
    output_block = -(-it.outputs // (parts * rows)) * rows
    units = planes * pixel_blocks * ceil_div(it.outputs, output_block)
    unit_block = per_tile(units, work / units / DOT_MACS_PER_NS, lower.threads)
    words = _words(
        lower,
        it,
        filter=it.filter,
        bias=it.bias,
        bias_row=it.bias_bytes,
        outputs=it.outputs,
        pixel_block=pixel_block,
        output_block=output_block,
        units=units,
        unit_block=unit_block,
    )
    kernel = row_major.gemm(str(it.dtype))
    lower.launch(kernel, words, ceil_div(units, unit_block))


def _words(lower: Lowering, it: _Convolution, **fields: Any) -> Words:
    """The parameters: `fields`, and the table of taps."""
    *outer, last = it.dimensions
    pitches = taps.pitches(it.dimensions, it.dtype.itemsize)
    index, starts = taps.index(lower, outer)
    (decode,) = traced_call(_decode, tuple(d.taps for d in it.dimensions))
    filled: dict[str, Any] = {
        "x": it.x,
        "y": it.y,
        "filter": it.x,
        "bias": it.x,
        "bias_row": 0,
        "outputs": 0,
        "pixel_block": 0,
        "output_block": 0,
        **fields,
    }
    return CONVOLUTION.pack(
        batch_bytes=it.groups * it.inputs * it.plane,
        plane_bytes=it.plane,
        groups=it.groups,
        inputs=it.inputs,
        taps=it.taps,
        pixels=it.pixels,
        width=last.outputs,
        outer=len(outer),
        extents=[d.outputs for d in outer],
        pitches=pitches[:-1],
        index=index,
        starts=starts,
        decode=lower.table(decode),
        last_taps=last.taps,
        runs=taps.runs(lower, last, pitches[-1]),
        **filled,
    )


def _decode(sizes: Sequence[int]) -> tuple[npt.NDArray[np.int64]]:
    """The number of every tap along each dimension."""
    return (np.indices(sizes).reshape(len(sizes), -1).T.ravel(),)


def _dots(lower: Lowering, it: _Convolution) -> None:
    """Few pixels: every column is laid out once, then rows of the filter are multiplied by it."""
    item, depth = it.dtype.itemsize, it.inputs * it.taps
    planes = it.batch * it.groups
    columns = it.x
    if not all(d.covers for d in it.dimensions):
        columns = lower.scratch(planes * it.pixels * depth * item)
        units = planes * it.pixels
        unit_block = per_tile(units, 2 * depth, lower.threads)
        words = _words(lower, it, y=columns, units=units, unit_block=unit_block)
        kernel = row_major.columns(str(it.dtype))
        lower.launch(kernel, words, ceil_div(units, unit_block))
        columns = Ref(columns.buffer)
    group = it.outputs * depth * item
    set_, plane = it.pixels * depth * item, it.pixels * it.outputs * item
    dots(
        lower,
        it.dtype,
        it.outputs,
        it.pixels,
        depth,
        a=Matrix(it.filter, depth * item, item, (0, group)),
        b=Matrix(columns, item, depth * item, (it.groups * set_, set_)),
        c=Matrix(it.y, it.pixels * item, item, (it.groups * plane, plane)),
        bias=Matrix(it.bias, it.bias_bytes, 0, (0, it.outputs * it.bias_bytes)),
        batch=(it.batch, it.groups),
    )
