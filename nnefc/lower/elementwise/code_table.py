"""Lowering of functions of codes, row-major and channel-blocked."""

from __future__ import annotations

import math

import numpy as np

from nnefc.ir import Op, Shape
from nnefc.kernels.elementwise import code_table as kernels
from nnefc.kernels.elementwise.code_table import CODE_TABLE
from nnefc.lower.blocked.elementwise import strided
from nnefc.lower.blocked.tensors import layout_of, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering, lowering
from nnefc.lower.elementwise.expression import (
    COLUMN_STEP,
    TILE_BYTES,
    Strided,
    coalesce,
    strides,
    tile_extents,
)
from nnefc.ops.internal.code_table import NAME
from nnefc.program.program import Ref


@lowering(NAME)
def code_table(lower: Lowering, op: Op) -> None:
    x, dims = op.inputs[0], op.output.type.dims
    along = strides(dims, dims)
    source = Strided(lower.read(x), x.type.dtype, along)
    target = Strided(lower.write(op.output), op.output.type.dtype, along)
    _launch(lower, op, source, target, dims, in_place=(source.ref,))


@blocked_lowering(NAME)
def blocked_code_table(lower: Lowering, op: Op) -> None:
    type_ = op.output.type
    layout, dims = layout_of(type_), type_.dims
    x, y = strided(read_blocked(lower, op.inputs[0])), strided(write_blocked(lower, op.output))
    _launch(lower, op, x, y, (dims[0], layout.blocks(dims), *dims[2:], layout.block))


def _launch(
    lower: Lowering,
    op: Op,
    x: Strided,
    y: Strided,
    shape: Shape,
    *,
    in_place: tuple[Ref, ...] = (),
) -> None:
    codes = np.array(op.attributes["table"]).astype(y.dtype.numpy)
    # a kernel reads the bytes of codes as unsigned numbers
    table = np.roll(codes, 128) if x.dtype.is_signed else codes
    dims, (x_steps, y_steps) = coalesce(shape, [x.strides, y.strides])
    *outer, columns = dims
    rows = math.prod(outer)
    tile_rows, tile_columns = tile_extents(rows, columns, TILE_BYTES, COLUMN_STEP)
    column_tiles = -(-columns // tile_columns)
    words = CODE_TABLE.pack(
        x=x.ref,
        y=y.ref,
        table=lower.table(table),
        rows=rows,
        columns=columns,
        tile_rows=tile_rows,
        tile_columns=tile_columns,
        column_tiles=column_tiles,
        rank=len(outer),
        extents=outer[::-1],
        x_pitches=x_steps[-2::-1],
        y_pitches=y_steps[-2::-1],
    )
    tiles = -(-rows // tile_rows) * column_tiles
    lower.launch(kernels.rows(), words, tiles, in_place=in_place)
