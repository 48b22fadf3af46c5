"""Pooling with windows of any size, stride and dilation, by a line of pixels in the L1 cache.

The columns of the windows of an output row are first reduced into the line, then neighbours in the
line are reduced for every output.  Windows thereby share the reduction of columns.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.tile.offset_table import table_offset
from nnefc.kernels.tile.plane_pieces import Piece
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lane_builder import like, llvm_value
from nnefc.kernels.vector.llvm_types import I32
from nnefc.kernels.vector.vector_builder import Vector, separate_function
from nnefc.kernels.window.pooling_combine import Combine, add, extreme, has_nan, number
from nnefc.kernels.window.pooling_pieces import LINE, Strip

MAX_HEIGHT: Final = 8
"""Most pixels computed at a time, in registers."""


WORDS: Final = len(Strip._fields)


class _Row:
    """A piece with its strip, and pointers to the offsets of rows in the table and to the line."""

    def __init__(self, piece: Piece) -> None:
        v = self.v = piece.sums
        self.piece = piece
        self.strip = Strip(*(piece.tap(i) for i in range(WORDS)))
        self.fill = _fill(v, self.strip)
        self.rows = v.at(piece.taps, 4 * WORDS)
        self.line = v.local(ir.ArrayType(v.type, LINE))

    def fill_line(self, start: Any, combine: Combine, *, checked: bool = False) -> Any:
        """Reduce columns into the line.

        If `checked`, returns the sum of all loaded items.  It is NaN if an item is NaN, but also if
        there are infinities of both signs.
        """
        v, builder, strip = self.v, self.v.builder, self.strip
        target = self._pixel(strip.before)
        for first, count in ((v.word(0), strip.before), (strip.columns, strip.after)):
            at = self.line if count is strip.before else v.at(target, self._bytes(first))
            with v.loop(0, count, 1) as turn:
                self.fill.store(at, self._bytes(turn.index))

        def tile(height: int, first: Any, carried: Sequence[Any]) -> list[Any]:
            skipped = builder.mul(first, strip.column_bytes)
            with v.loop(0, self.piece.count, 1, [*[start] * height, *carried]) as turn:
                source = v.at(self.piece.x, table_offset(v, self.rows, turn.index))
                source = v.at(source, skipped)
                held, sums = turn.values[:height], turn.values[height:]
                for i in range(height):
                    x = self.piece.load(source, builder.mul(strip.column_bytes, v.word(i)))
                    held[i] = combine(x, held[i])
                    if sums:
                        sums[i % len(sums)] = sums[i % len(sums)] + x
                turn.next = [*held, *sums]
            at = v.at(target, self._bytes(first))
            for i, column in enumerate(turn.values[:height]):
                column.store(at, i * v.nbytes)
            return turn.values[height:]

        sums = _in_tiles(v, strip.columns, tile, [v.zero()] * (2 * checked))
        return sums[0] + sums[1] if checked else None

    def take_windows(
        self, combine: Combine, finish: Callable[[Any, Any], Any] = lambda _, total: total
    ) -> None:
        """Reduce neighbours in the line and store `finish(output, total)`."""
        v, builder, strip = self.v, self.v.builder, self.strip
        pixel = self.piece.results.nbytes

        def tile(height: int, first: Any, carried: Sequence[Any]) -> Sequence[Any]:
            source = v.at(self.line, builder.mul(first, strip.stride_bytes))

            def items(tap: Any) -> list[Any]:
                at = v.at(source, builder.mul(tap, strip.tap_bytes))
                places = [builder.mul(strip.stride_bytes, v.word(i)) for i in range(height)]
                return [v.load(at, place) for place in places]

            with v.loop(1, strip.taps, 1, items(v.word(0))) as turn:
                pairs = zip(items(turn.index), turn.values, strict=True)
                turn.next = [combine(x, held) for x, held in pairs]
            target = v.at(self.piece.y, builder.mul(first, v.word(pixel)))
            for i, total in enumerate(turn.values):
                result = finish(builder.add(first, v.word(i)), total)
                self.piece.store(result, target, i * pixel)
            return carried

        _in_tiles(v, strip.outputs, tile, [])

    def _bytes(self, pixels: Any) -> Any:
        return self.v.builder.mul(pixels, self.v.word(self.v.nbytes))

    def _pixel(self, index: Any) -> Any:
        return self.v.at(self.line, self._bytes(index))


def _fill(v: Vector, strip: Strip) -> Any:
    """The number `strip.fill` in every lane."""
    bits = v.builder.trunc(strip.fill, ir.IntType(8 * v.itemsize))
    return v.splat(v.builder.bitcast(bits, v.item))


def real_of(piece: Piece) -> Vector:
    """The vectors that sums are scaled in: float32 for sums of integers."""
    return piece.sums if piece.sums.zero().is_float else piece.sums.of("float32")


def scale_sum(total: Any, factor: Any) -> Any:
    """A sum times its factor.  Those of codes have divisors, so that quotients are rounded once."""
    return total * factor if total.is_float else convert(total, factor.dtype) / factor


def start_of_sums(piece: Piece) -> Any:
    """The start of the sum of a column: of codes less their zero point, which is `clamp`."""
    v, b = piece.sums, piece.sums.builder
    if v.zero().is_float:
        return v.zero()
    zero = b.load(piece.clamp, typ=I32, align=4)
    return v.splat(b.neg(b.mul(zero, b.trunc(piece.count, I32))))


def sums(piece: Piece) -> None:
    v, row = real_of(piece), _Row(piece)
    row.fill_line(start_of_sums(piece), add)
    factors = v.at(row.rows, v.builder.mul(piece.count, v.word(4)))

    def scaled(output: Any, total: Any) -> Any:
        factor = v.load_splat(factors, v.builder.mul(output, v.word(4)))
        return scale_sum(total, factor)

    row.take_windows(add, scaled)


def maxima(piece: Piece) -> None:
    """Uses a faster maximum, which is correct unless an item is NaN."""
    v, row = piece.sums, _Row(piece)
    quick, least = number(">"), v.load_splat(piece.number)
    if not least.is_float:
        row.fill_line(least, quick)
        row.take_windows(quick)
        return
    failed = has_nan(row.fill_line(least, quick, checked=True))
    with v.builder.if_else(failed, likely=False) as (slow, fast):
        with slow:
            maxima_with_nan(piece, row.rows, row.strip)
        with fast:
            row.take_windows(quick)


def maxima_with_nan(piece: Piece, rows: Any, strip: Strip) -> None:
    """The maximum with NaN, in little code: loops over outputs, rows and taps, without a line."""
    v = piece.items
    pointers = (piece.x, piece.y, rows, piece.number)
    words = [v.builder.ptrtoint(p, v.word(0).type) for p in pointers] + [piece.count]
    words += [v.word(n) if isinstance(n, int) else n for n in strip]
    emit = _one_by_one(piece.sums.dtype)
    module = v.builder.module
    known = module.globals.get(f"{module.name}.{emit.__name__}")
    function = known or separate_function(v.builder, emit, v.dtype, v.lanes, len(words))
    v.builder.call(function, words)


def _one_by_one(accumulator: str) -> Callable[..., None]:
    """The code of `maxima_with_nan` for vectors of items."""

    def one_by_one(
        items: Vector, x: Any, y: Any, rows: Any, least: Any, count: Any, *words: Any
    ) -> None:
        v, combine, strip = items.of(accumulator), extreme(">"), Strip(*words)
        builder = v.builder
        x, y, rows, least = (v.pointer(p) for p in (x, y, rows, least))
        start, fill = v.load_splat(least), _fill(v, strip)
        with v.loop(0, strip.outputs, 1) as output:
            first = builder.mul(output.index, strip.stride_bytes)
            with v.loop(0, count, 1, [start]) as turn:
                row = v.at(x, table_offset(v, rows, turn.index))
                with v.loop(0, strip.taps, 1, turn.values) as tap:
                    place = builder.add(first, builder.mul(tap.index, strip.tap_bytes))
                    column = builder.sub(builder.udiv(place, v.word(v.nbytes)), strip.before)
                    there = builder.icmp_unsigned("<", column, strip.columns)
                    at = builder.mul(builder.select(there, column, v.word(0)), strip.column_bytes)
                    found = convert(items.load(row, at), accumulator)
                    item = fill.same(builder.select(there, found.value, fill.value))
                    tap.next = [combine(item, tap.values[0])]
                turn.next = tap.values
            target = v.at(y, builder.mul(output.index, v.word(items.nbytes)))
            convert(turn.values[0], items.dtype).store(target)

    return one_by_one


def _in_tiles(
    v: Vector,
    count: Any,
    tile: Callable[[int, Any, Sequence[Any]], Sequence[Any]],
    carried: Sequence[Any],
) -> list[Any]:
    """Run `tile(height, first, carried) -> carried` over `count` pixels.

    Tiles have `MAX_HEIGHT` pixels; the last two share the remainder.
    """
    builder, most = v.builder, v.word(MAX_HEIGHT)
    tiles = builder.udiv(builder.add(count, v.word(MAX_HEIGHT - 1)), most)
    with v.loop(0, tiles, 1, [v.word(0), *carried]) as turn:
        first, *values = turn.values
        left = builder.sub(count, first)
        half = builder.udiv(builder.add(left, v.word(1)), v.word(2))
        few = builder.select(builder.icmp_signed("<=", left, most), left, half)
        height = builder.select(builder.icmp_signed("<", left, v.word(2 * MAX_HEIGHT)), few, most)
        wrong, end = (builder.append_basic_block(name) for name in ("wrong", "end"))
        switch = builder.switch(height, wrong)
        results: list[tuple[Sequence[Any], Any]] = []
        for n in range(1, MAX_HEIGHT + 1):
            code = builder.append_basic_block(f"high{n}")
            switch.add_case(v.word(n), code)
            builder.position_at_end(code)
            results.append((tile(n, first, values), builder.block))
            builder.branch(end)
        builder.position_at_end(wrong)
        builder.unreachable()
        builder.position_at_end(end)
        for i, value in enumerate(values):
            joined = builder.phi(llvm_value(value).type)
            for after, block in results:
                joined.add_incoming(llvm_value(after[i]), block)
            turn.next[1 + i] = like(value, joined)
        turn.next[0] = builder.add(first, height)
    return turn.values[1:]
