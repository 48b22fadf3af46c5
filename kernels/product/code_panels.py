"""Panels of words of computed codes, and the sums of their columns; sums of rows of codes.

A product of codes less zero points is

    sum of (a - a_zero)(b - b_zero) = sum of a b - a_zero * column - b_zero (row - depth * a_zero)

with the sums `column` of a column of b and `row` of a row of a.  So packing b also computes what
the sums of a column begin with, -a_zero * column, and another kernel the term of each row.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.panels import BATCH, batch_offset, part_start
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.dot_words import WORD_CODES, word_dot
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.llvm_types import I8, I32
from nnefc.kernels.vector.memory import LOAD, address, load_word
from nnefc.kernels.vector.rows import along, item_pointer
from nnefc.kernels.vector.transpose import transpose
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

PACK = Layout(
    "x:ref y:ref start:ref zero:ref depth count pitch panels flip "
    f"batch_rank batch:{BATCH} x_batch:{BATCH} y_batch:{BATCH} start_batch:{BATCH} tiles tile_block"
)
"""Parameters of `code_panels.words`: packs codes x [depth, count] into panels of words at y.

- Rows of x, or its columns, are contiguous; `pitch`: bytes between them
- `flip`: 0, or 0x80 to flip the highest bit of each code
- `zero`: an int32, the zero point of the other matrix; `start`: -zero times the sums of the columns
- y has `panels` panels in units of one vector of words; y and `start` have whole vectors
- a tile is `tile_block` of `tiles` panels
"""
(
    X,
    Y,
    START,
    ZERO,
    DEPTH,
    COUNT,
    PITCH,
    PANELS,
    FLIP,
    BATCH_RANK,
    BATCH_EXTENTS,
    X_BATCH,
    Y_BATCH,
    START_BATCH,
    TILES,
    TILE_BLOCK,
) = PACK.offsets

ROWS = Layout(
    "x:ref y:ref x_zero:ref y_zero:ref rows depth x_row y_row "
    f"batch_rank batch:{BATCH} x_batch:{BATCH} y_batch:{BATCH} tiles tile_block"
)
"""Parameters of `code_panels.row_terms`: y_zero (depth * x_zero - sum of the row) for rows of x.

x has codes of the type `Isa.codes` in contiguous rows, `x_row` bytes apart; y is int32.  `x_zero`
and `y_zero` are int32.  A tile is `tile_block` of `tiles` rows.
"""
(
    ROW_X,
    ROW_Y,
    ROW_X_ZERO,
    ROW_Y_ZERO,
    ROW_ROWS,
    ROW_DEPTH,
    ROW_X_ROW,
    ROW_Y_ROW,
    ROW_BATCH_RANK,
    ROW_BATCH,
    ROW_X_BATCH,
    ROW_Y_BATCH,
    ROW_TILES,
    ROW_TILE_BLOCK,
) = ROWS.offsets

PACK_ARGUMENTS: Final = 9
_ONES: Final = 0x01010101
"""A word of four codes 1, or four weights 1."""

load_int = LOAD["int32"]


class _Columns:
    """Emits the words of a vector of columns, from the top to the bottom of a panel."""

    def __init__(self, v: Vector, y: Any, depth: Any, width: Any, flip: Any) -> None:
        b = v.builder
        self._v, self._y, self._width, self._dot = v, y, width, word_dot()
        self.whole = b.ashr(depth, v.word(2))
        """Words that are whole."""
        self.rest = b.and_(depth, v.word(WORD_CODES - 1))
        """Codes of a last word."""
        few = b.trunc(flip, I32)
        self._flip_code, self._flip = v.splat(few), v.splat(b.mul(few, I32(_ONES)))

    def put(self, words: Lanes, k: Any, column: Any, sums: Lanes) -> Lanes:
        """Store the codes of word k of the columns from `column` on; adds them to the sums."""
        return self._put(words ^ self._flip, k, column, sums)

    def put_rest(self, code: Any, column: Any, sums: Lanes) -> Lanes:
        """Store the last word, if codes are left; `code(i)`: code i of that word, int32."""
        v, b = self._v, self._v.builder
        some = b.icmp_signed(">", self.rest, v.word(0))
        once = b.zext(some, self.rest.type)
        with v.loop(0, once, 1, [sums]) as turn:
            with v.loop(0, self.rest, 1, [v.zero()]) as byte:
                moved = v.splat(b.trunc(b.mul(byte.index, v.word(8)), I32))
                placed = code(byte.index) ^ self._flip_code
                placed = placed.same(b.shl(placed.value, moved.value))
                byte.next = [byte.values[0] | placed]
            turn.next = [self._put(byte.values[0], self.whole, column, turn.values[0])]
        return turn.values[0]

    def _put(self, words: Lanes, k: Any, column: Any, sums: Lanes) -> Lanes:
        v, b = self._v, self._v.builder
        planes = self._dot.planes_of(words)
        for p, plane in enumerate(planes):
            row = b.add(b.mul(k, v.word(len(planes))), v.word(p))
            plane.store(item_pointer(v, self._y, b.add(b.mul(row, self._width), column)))
        return self._dot.add(sums, self._dot.codes(v.constant(_ONES)), planes)


@cache
def _pack_rows() -> Any:
    """Intrinsic `pack(y, x, pitch, depth, count, width, flip, start, factor)` of a panel.

    Rows of x are contiguous: four of them are interleaved.  `start`: factor times the sums of
    columns.
    """

    @vector_intrinsic("int32", lanes_of("int32"), PACK_ARGUMENTS, apart=True)
    def pack(v: Vector, y, x, pitch, depth, count, width, flip, start, factor):
        b, codes = v.builder, v.of("uint8")
        y, x, start = (v.pointer(p) for p in (y, x, start))
        work, factors = _Columns(v, y, depth, width, flip), v.splat(b.trunc(factor, I32))

        def columns(column, mask, _):
            def code(row):
                at = v.at(v.at(x, b.mul(row, pitch)), column)
                return convert(codes.load(at, mask=mask), "int32")

            with v.loop(0, work.whole, 1, [v.zero()]) as k:
                first = b.mul(k.index, v.word(WORD_CODES))
                rows = [code(b.add(first, v.word(i))) for i in range(WORD_CODES)]
                words = rows[0]
                for i in range(1, WORD_CODES):
                    words = words | rows[i] << 8 * i
                k.next = [work.put(words, k.index, column, k.values[0])]
            first = b.mul(work.whole, v.word(WORD_CODES))

            def last(i: Any) -> Lanes:
                return code(b.add(first, i))

            sums = work.put_rest(last, column, k.values[0])
            (sums * factors).store(item_pointer(v, start, column))
            return []

        along(v, count, [], columns)

    return pack


@cache
def _pack_columns() -> Any:
    """As `_pack_rows`, if columns of x are contiguous: their words are transposed in registers.

    Columns from `count` on repeat the last one.
    """

    @vector_intrinsic("int32", lanes_of("int32"), PACK_ARGUMENTS, apart=True)
    def pack(v: Vector, y, x, pitch, depth, count, width, flip, start, factor):
        b = v.builder
        y, x, start = (v.pointer(p) for p in (y, x, start))
        work, factors = _Columns(v, y, depth, width, flip), v.splat(b.trunc(factor, I32))
        squares = b.and_(work.whole, v.word(-v.lanes))
        last = b.sub(count, v.word(1))
        with v.loop(0, width, v.lanes) as column:
            places = _columns_from(v, x, pitch, column.index, last)
            with v.loop(0, squares, v.lanes, [v.zero()]) as k:
                at = b.mul(k.index, v.word(WORD_CODES))
                loaded = [b.load(v.at(p, at), typ=v.type, align=1) for p in places]
                sums = k.values[0]
                for i, words in enumerate(transpose(v, [v.value(x) for x in loaded])):
                    sums = work.put(words, b.add(k.index, v.word(i)), column.index, sums)
                k.next = [sums]
            with v.loop(squares, work.whole, 1, k.values) as k:
                at = b.mul(k.index, v.word(WORD_CODES))
                words = v.gather(b.load(v.at(p, at), typ=I32, align=1) for p in places)
                k.next = [work.put(words, k.index, column.index, k.values[0])]

            def code(i, places=places):
                at = b.add(b.mul(work.whole, v.word(WORD_CODES)), i)
                return v.gather(b.zext(b.load(v.at(p, at), typ=I8, align=1), I32) for p in places)

            sums = work.put_rest(code, column.index, k.values[0])
            (sums * factors).store(item_pointer(v, start, column.index))

    return pack


def _columns_from(v: Vector, x: Any, pitch: Any, first: Any, last: Any) -> Sequence[Any]:
    """Pointers to a vector of columns from `first` on, at most `last`."""
    b, places = v.builder, list[Any]()
    for i in range(v.lanes):
        j = b.add(first, v.word(i))
        beyond = b.icmp_signed(">", j, last)
        places.append(v.at(x, b.mul(b.select(beyond, last, j), pitch)))
    return places


@family()
def words(contiguous_rows: bool) -> KernelFunction:
    """Pack codes into panels of words; either their rows or their columns are contiguous."""
    pack = _pack_rows() if contiguous_rows else _pack_columns()
    lanes, word_bytes = lanes_of("int32"), word_dot().planes * WORD_CODES

    def words(bases, params, first, last):
        x0, y0 = address(bases, params + X), address(bases, params + Y)
        start0 = address(bases, params + START)
        factor = -load_int(address(bases, params + ZERO), 0)
        depth, count = load_word(params + DEPTH), load_word(params + COUNT)
        pitch, flip = load_word(params + PITCH), load_word(params + FLIP)
        parts, block = load_word(params + PANELS), load_word(params + TILE_BLOCK)
        units, height = (count + lanes - 1) // lanes, (depth + WORD_CODES - 1) // WORD_CODES
        step = 1 if contiguous_rows else pitch
        for t in range(first * block, min(last * block, load_word(params + TILES))):
            part, number = t % parts, t // parts
            x = x0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, X_BATCH, number)
            y = y0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, Y_BATCH, number)
            start = start0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, START_BATCH, number)
            column = part_start(part, units, parts) * lanes
            width = part_start(part + 1, units, parts) * lanes - column
            some = min(width, count - column)
            pack(
                *(y + column * height * word_bytes, x + column * step, pitch),
                *(depth, some, width, flip, start + column * 4, factor),
            )

    return words


@cache
def _row_term() -> Any:
    """Intrinsic `term(y, x, depth, x_zero, y_zero)`: the term of a row of codes."""

    @vector_intrinsic("int32", lanes_of("int32"), 5)
    def term(v: Vector, y, x, depth, x_zero, y_zero):
        b, dot = v.builder, word_dot()
        y, x = v.pointer(y), v.pointer(x)
        ones, whole = dot.planes_of(v.constant(_ONES)), b.ashr(depth, v.word(2))

        def codes(index, mask, sums):
            at = item_pointer(v, x, index)
            if mask is None:
                words = v.value(b.load(at, typ=v.type, align=1))
            else:
                words = v.load(at, mask=mask)
            return [dot.add(sums[0], dot.codes(words), ones)]

        (sums,) = along(v, whole, [v.zero()], codes)
        extend = b.zext if host().codes == "uint8" else b.sext
        with v.loop(b.mul(whole, v.word(WORD_CODES)), depth, 1, [sums.total()]) as rest:
            code = b.load(v.at(x, rest.index), typ=I8, align=1)
            rest.next = [b.add(rest.values[0], extend(code, I32))]
        zeros = [b.trunc(zero, I32) for zero in (x_zero, y_zero)]
        all_zeros = b.mul(b.trunc(depth, I32), zeros[0])
        v.store_item(b.mul(zeros[1], b.sub(all_zeros, rest.values[0])), y)

    return term


@family()
def row_terms() -> KernelFunction:
    """The terms of rows of codes, for products with codes that have a zero point."""
    term = _row_term()

    def row_terms(bases, params, first, last):
        x0, y0 = address(bases, params + ROW_X), address(bases, params + ROW_Y)
        x_zero = load_int(address(bases, params + ROW_X_ZERO), 0)
        y_zero = load_int(address(bases, params + ROW_Y_ZERO), 0)
        rows, depth = load_word(params + ROW_ROWS), load_word(params + ROW_DEPTH)
        x_row, y_row = load_word(params + ROW_X_ROW), load_word(params + ROW_Y_ROW)
        block = load_word(params + ROW_TILE_BLOCK)
        for t in range(first * block, min(last * block, load_word(params + ROW_TILES))):
            row, number = t % rows, t // rows
            x = x0 + batch_offset(params, ROW_BATCH_RANK, ROW_BATCH, ROW_X_BATCH, number)
            y = y0 + batch_offset(params, ROW_BATCH_RANK, ROW_BATCH, ROW_Y_BATCH, number)
            term(y + row * y_row, x + row * x_row, depth, x_zero, y_zero)

    return row_terms
