"""Epilogues: an expression applied to a block of a result while it is in the L1 cache."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.panels import BATCH, batch_offset
from nnefc.kernels.tile.register_tile import tile_rows, tile_width
from nnefc.kernels.vector.emit_expression import Quick, emit
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.kernels.vector.item_types import BITS, ITEMSIZE
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.memory import STORE, address, helper, load_word
from nnefc.kernels.vector.vector_builder import Vector, vector_function

APPLY_ARGUMENTS = 6
CONVERT_ARGUMENTS = 8

store_word = STORE["int64"]


@dataclass(frozen=True, slots=True)
class Epilogue:
    """An expression whose first input is the result of a product; other operands have row strides.

    `repeated`: for each operand, whether its item is constant along a row.
    """

    expression: Expression
    repeated: tuple[bool, ...]


_OPERAND = f"row step batch:{BATCH}"


def operand_fields(*names: str) -> list[str]:
    """Fields `x:ref x_row x_step x_batch` per matrix: reference, and strides in bytes."""
    return [f"{x}:ref {' '.join(f'{x}_{field}' for field in _OPERAND.split())}" for x in names]


ROW, STEP, OFFSETS = Layout(operand_fields("x")[0]).offsets[1:]
OPERAND_BYTES = Layout(operand_fields("x")[0]).nbytes


@helper
def place_operands(bases, params, operands, rank, number, row, column, table):
    """Fill the table of operands for `apply_rows`, for the block of batch item `number` that starts
    at (row, column).

    The parameters have the number of operands at `operands`, followed by their fields, and the
    batch rank at `rank`, followed by the batch extents.
    """
    for x in range(load_word(params + operands)):
        at = operands + 8 + x * OPERAND_BYTES
        pitch, step = load_word(params + at + ROW), load_word(params + at + STEP)
        place = batch_offset(params, rank, rank + 8, at + OFFSETS, number)
        place += address(bases, params + at) + row * pitch + column * step
        store_word(table, 2 * x, place)
        store_word(table, 2 * x + 1, pitch)


@cache
def apply_rows(item: str, epilogue: Epilogue) -> Any:
    """Function `apply(rows, n, c, c_row, operands, libm)`: applies an epilogue at c, in place.

    The block has rows of n items, `c_row` bytes apart.  `operands` has two words per operand, the
    address of its first item and the bytes between rows.
    """

    @vector_function(item, lanes_of(item), APPLY_ARGUMENTS)
    def apply(v: Vector, rows, n, c, c_row, operands, libm):
        _emit_rows(v, epilogue, (rows, n), (c, c_row), None, operands, libm)

    return apply


@cache
def convert_rows(item: str, epilogue: Epilogue, quick: Quick | None = None) -> Any:
    """Function `convert(rows, n, x, x_row, y, y_row, operands, libm)`: as `apply_rows`, from a
    block of items `item` at x to one at y of items of the result's type; `quick`: as for `emit`.
    """

    @vector_function(item, lanes_of(item), CONVERT_ARGUMENTS)
    def convert(v: Vector, rows, n, x, x_row, y, y_row, operands, libm):
        _emit_rows(v, epilogue, (rows, n), (x, x_row), (y, y_row), operands, libm, quick)

    return convert


def _emit_rows(
    v: Vector, epilogue: Epilogue, size, source, target, operands, libm, quick=None
) -> None:
    """Emit loops over the rows and columns of a block.

    `source` and `target` are (address, bytes between rows); without a target, the result overwrites
    the source.
    """
    builder, (rows, n) = v.builder, size
    table = v.pointer(operands)
    words = [
        builder.load(v.at(table, 8 * i), typ=I64, align=8)
        for i in range(2 * len(epilogue.repeated))
    ]
    places = [v.pointer(x) for x in (source[0], *words[::2])]
    pitches = [source[1], *words[1::2]]
    dtypes = epilogue.expression.inputs
    whole = builder.and_(n, v.word(-v.lanes))
    with v.loop(0, rows, 1) as row:
        starts = [v.at(x, builder.mul(row.index, p)) for x, p in zip(places, pitches)]
        items = [
            v.of(dtype).load_splat(start) if repeated else None
            for start, dtype, repeated in zip(starts, dtypes, (False, *epilogue.repeated))
        ]
        to = starts[0]
        if target is not None:
            to = v.at(v.pointer(target[0]), builder.mul(row.index, target[1]))

        def columns(index, mask, count=1):
            results = []
            for i in range(count):
                values = []
                for start, dtype, known in zip(starts, dtypes, items):
                    at = v.at(start, builder.mul(index, v.word(BITS[dtype] // 8)))
                    at = v.at(at, i * v.lanes * BITS[dtype] // 8)
                    values.append(v.of(dtype).load(at, mask=mask) if known is None else known)
                results += emit(v, epilogue.expression, values, libm, quick)
            for i, result in enumerate(results):
                at = v.at(to, builder.mul(index, v.word(ITEMSIZE[result.dtype])))
                result.store(at, i * v.lanes * ITEMSIZE[result.dtype], mask=mask)

        done = v.word(0)
        if quick:  # loops over the few vectors of a tile take part of their time
            together = v.lanes * tile_width(tile_rows())
            done = builder.sub(n, builder.srem(n, v.word(together)))
            with v.loop(0, done, together) as column:
                columns(column.index, None, together // v.lanes)
        with v.loop(done, whole, v.lanes) as column:
            columns(column.index, None)
        with v.loop(whole, n, v.lanes) as column:
            columns(column.index, v.mask(builder.sub(n, column.index)))
