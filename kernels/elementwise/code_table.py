"""Functions of codes of 8 bits: bytes are replaced by those of a table."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from functools import cache
from typing import Any, Final

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.byte_table import byte_table
from nnefc.kernels.vector.llvm_types import I8, I64
from nnefc.kernels.vector.memory import address, helper, load_word
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

OUTER: Final = 8
"""Most dimensions of rows."""
CODE_TABLE = Layout(
    f"x:ref y:ref table:ref rows columns tile_rows tile_columns column_tiles rank "
    f"extents:{OUTER} x_pitches:{OUTER} y_pitches:{OUTER}"
)
"""Parameters of `code_table.rows`.

table: 256 bytes.  Rows have `rank` dimensions, innermost first, with pitches in bytes, and
`columns` contiguous bytes.  A tile is `tile_rows` rows, or `tile_columns` columns of one.
"""
(
    X,
    Y,
    TABLE,
    ROWS,
    COLUMNS,
    TILE_ROWS,
    TILE_COLUMNS,
    COLUMN_TILES,
    RANK,
    EXTENTS,
    X_PITCHES,
    Y_PITCHES,
) = CODE_TABLE.offsets

IN_FLIGHT: Final = 4
"""Vectors that are looked up at a time."""


@cache
def look_up_row() -> Any:
    """Intrinsic `look_up(x, y, table, count)`: `count` bytes of y from those of x."""

    @vector_intrinsic("uint8", host().vector_bits // 8, 4, apart=True)
    def look_up(v: Vector, x, y, table, count):
        builder = v.builder
        x, y, table = (v.pointer(p) for p in (x, y, table))
        find, index = byte_table(v, table), v.word(0)
        for vectors in (IN_FLIGHT, 1) if find is not None else ():
            assert find is not None
            left = builder.sub(count, index)
            stop = builder.add(index, builder.and_(left, v.word(-vectors * v.nbytes)))
            with v.loop(index, stop, vectors * v.nbytes) as turn:
                source, target = v.at(x, turn.index), v.at(y, turn.index)
                loaded = [v.load(source, i * v.nbytes).value for i in range(vectors)]
                for i, result in enumerate(find(loaded)):
                    v.value(result).store(target, i * v.nbytes)
            index = stop
        with v.loop(index, count, 1) as turn:
            code = builder.load(v.at(x, turn.index), typ=I8, align=1)
            found = builder.load(v.at(table, builder.zext(code, I64)), typ=I8, align=1)
            builder.store(found, v.at(y, turn.index), align=1)

    return look_up


@helper
def _row_offset(params, pitches, row):
    """Byte offset of a row."""
    offset = 0
    for d in range(load_word(params + RANK)):
        extent = load_word(params + EXTENTS + 8 * d)
        offset += row % extent * load_word(params + pitches + 8 * d)
        row //= extent
    return offset


@family()
def rows() -> KernelFunction:
    """Replace every byte of x by the byte of the table at its number, into y."""
    look_up, row_offset = look_up_row(), _row_offset

    def replace(bases, params, first, last):
        x, y = address(bases, params + X), address(bases, params + Y)
        table, columns = address(bases, params + TABLE), load_word(params + COLUMNS)
        tile_rows, tile_columns = load_word(params + TILE_ROWS), load_word(params + TILE_COLUMNS)
        column_tiles = load_word(params + COLUMN_TILES)
        for tile in range(first, last):
            begin, column = tile // column_tiles * tile_rows, tile % column_tiles * tile_columns
            count = min(columns - column, tile_columns)
            for row in range(begin, min(begin + tile_rows, load_word(params + ROWS))):
                look_up(
                    x + row_offset(params, X_PITCHES, row) + column,
                    y + row_offset(params, Y_PITCHES, row) + column,
                    table,
                    count,
                )

    return replace
