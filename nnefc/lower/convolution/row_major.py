"""conv and deconv of row-major tensors (NNEF 1.0.2 section 4.3.1).

They become matrix products, dot products or weighted sums of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nnefc.ir import DType, Op
from nnefc.kernels.convolution import row_major
from nnefc.kernels.convolution.row_major import CONVOLUTION
from nnefc.kernels.parameters import Words
from nnefc.kernels.tile.register_tile import panel_columns, tile_rows
from nnefc.kernels.window import sliding as window_kernels
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.movement.strided import permute
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.lower.product.matmul import Matrix, dots
from nnefc.lower.window import sliding, taps
from nnefc.ops.core.window_arithmetic import convolution_groups
from nnefc.ops.tools.convolution import is_reversed, window_of
from nnefc.program.program import Ref
from nnefc.program.tables.window_taps import (
    WindowDimension,
    coalesce,
    dimension_pitches,
    dimensions_of,
    identity,
    tap_positions,
)
from nnefc.support.machine_model import DOT_MACS_PER_NS
from nnefc.symbolic.integers import hint, smallest
from nnefc.symbolic.traced_array import traced_call

FEW_PIXELS = 4
"""Up to this many pixels, most of a register tile would be idle."""
FEW_OUTPUTS = 4
"""Up to this many outputs per input channel, packing costs more than it saves."""
TILE_FLOPS = 4e6
"""Multiply-adds of a tile, about 50 microseconds."""


@dataclass(frozen=True, slots=True)
class _Convolution:
    """conv or deconv, with the filter as [groups * outputs, inputs, taps]."""

    dtype: DType
    batch: int
    groups: int
    inputs: int
    outputs: int
    dimensions: Sequence[WindowDimension]
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
    reverse = is_reversed(op)
    shape, kernel = input_.type.dims, filter_.type.dims
    moves = window_of(op)
    groups = convolution_groups(shape, op.attributes)
    down, up = kernel[0] // groups, kernel[1]
    dtype = op.output.type.dtype
    inputs, outputs = (down, up) if reverse else (up, down)
    conv = _Convolution(
        dtype=dtype,
        batch=shape[0],
        groups=groups,
        inputs=inputs,
        outputs=outputs,
        dimensions=coalesce(dimensions_of(moves, op.attributes["border"])),
        x=lower.read(input_),
        filter=_reversed_filter(lower, op, groups) if reverse else lower.read(filter_),
        bias=lower.read(bias),
        bias_bytes=dtype.itemsize if bias.type.volume > 1 else 0,
        y=lower.write(op.output),
    )
    if conv.inputs == 1 and conv.outputs <= FEW_OUTPUTS:
        _weighted(lower, conv)
    elif hint(conv.pixels) <= FEW_PIXELS:
        _dots(lower, conv)
    else:
        _gemm(lower, conv)


def _reversed_filter(lower: Lowering, op: Op, groups: int) -> Ref:
    """The filter of deconv, [groups * inputs, outputs, ...], as [groups * outputs, inputs, ...]."""
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


def _weighted(lower: Lowering, conv: _Convolution) -> None:
    """One input channel per output channel: weighted sums of rows."""
    multiplier = WindowDimension(1, conv.outputs, border="replicate")
    sliding.launch(
        lower,
        window_kernels.weighted(str(conv.dtype)),
        [identity(conv.batch * conv.groups), multiplier, *conv.dimensions],
        conv.dtype,
        x=conv.x,
        y=conv.y,
        weights=conv.filter,
        bias=conv.bias,
        channels=conv.groups * conv.outputs,
        channel_rows=math.prod(d.outputs for d in conv.dimensions[:-1]),
        weight_bytes=conv.taps * conv.dtype.itemsize,
        bias_bytes=conv.bias_bytes,
    )


def _gemm(lower: Lowering, conv: _Convolution) -> None:
    columns, rows = panel_columns(str(conv.dtype)), tile_rows()
    pixel_block = smallest([ceil_div(conv.pixels, columns), 4]) * columns
    planes = conv.batch * conv.groups
    pixel_blocks = ceil_div(conv.pixels, pixel_block)
    work = planes * conv.pixels * conv.outputs * conv.inputs * conv.taps
    wanted = min(16, max(int(hint(work) / TILE_FLOPS), 1))
    parts = max(min(ceil_div(wanted, hint(planes * pixel_blocks)), conv.outputs // (8 * rows)), 1)
    output_block = -(-conv.outputs // (parts * rows)) * rows
    units = planes * pixel_blocks * ceil_div(conv.outputs, output_block)
    unit_block = units_per_tile(units, work / units / DOT_MACS_PER_NS, lower.threads)
    words = _words(
        lower,
        conv,
        filter=conv.filter,
        bias=conv.bias,
        bias_row=conv.bias_bytes,
        outputs=conv.outputs,
        pixel_block=pixel_block,
        output_block=output_block,
        units=units,
        unit_block=unit_block,
    )
    kernel = row_major.gemm(str(conv.dtype))
    lower.launch(kernel, words, ceil_div(units, unit_block))


def _words(lower: Lowering, conv: _Convolution, **fields: Any) -> Words:
    """The parameters of a kernel: `fields`, defaults, and the tables of taps."""
    *outer, last = conv.dimensions
    pitches = dimension_pitches(conv.dimensions, conv.dtype.itemsize)
    index, starts = taps.index_table(lower, outer)
    (decode,) = traced_call(tap_positions, tuple(d.taps for d in conv.dimensions))
    filled: dict[str, Any] = {
        "x": conv.x,
        "y": conv.y,
        "filter": conv.x,
        "bias": conv.x,
        "bias_row": 0,
        "outputs": 0,
        "pixel_block": 0,
        "output_block": 0,
        **fields,
    }
    return CONVOLUTION.pack(
        batch_bytes=conv.groups * conv.inputs * conv.plane,
        plane_bytes=conv.plane,
        groups=conv.groups,
        inputs=conv.inputs,
        taps=conv.taps,
        pixels=conv.pixels,
        width=last.outputs,
        outer=len(outer),
        extents=[d.outputs for d in outer],
        pitches=pitches[:-1],
        index=index,
        starts=starts,
        decode=lower.table(decode),
        last_taps=last.taps,
        runs=taps.run_table(lower, last, pitches[-1]),
        **filled,
    )


def _dots(lower: Lowering, conv: _Convolution) -> None:
    """Few pixels: im2col, then dot products of the columns with rows of the filter."""
    item, depth = conv.dtype.itemsize, conv.inputs * conv.taps
    planes = conv.batch * conv.groups
    columns = conv.x
    if not all(d.is_full_reduction for d in conv.dimensions):
        columns = lower.scratch(planes * conv.pixels * depth * item)
        units = planes * conv.pixels
        unit_block = units_per_tile(units, 2 * depth, lower.threads)
        words = _words(lower, conv, y=columns, units=units, unit_block=unit_block)
        kernel = row_major.columns(str(conv.dtype))
        lower.launch(kernel, words, ceil_div(units, unit_block))
        columns = Ref(columns.buffer)
    group = conv.outputs * depth * item
    set_, plane = conv.pixels * depth * item, conv.pixels * conv.outputs * item
    dots(
        lower,
        conv.dtype,
        conv.outputs,
        conv.pixels,
        depth,
        a=Matrix(conv.filter, depth * item, item, (0, group)),
        b=Matrix(columns, item, depth * item, (conv.groups * set_, set_)),
        c=Matrix(conv.y, conv.pixels * item, item, (conv.groups * plane, plane)),
        bias=Matrix(conv.bias, conv.bias_bytes, 0, (0, conv.outputs * conv.bias_bytes)),
        batch=(conv.batch, conv.groups),
    )
