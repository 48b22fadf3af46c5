"""The register tile over channel-blocked halves: float32 sums of products of words.

As in `blocked_tile`, a tile is some pixels x `vectors` channel blocks of the output, and its
addresses are data.  A step broadcasts a word of two channels of a pixel and multiplies it with
words of weights.  The whole reduction stays in registers.  Complete sums are clamped in float32,
and may be stored as halves.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.tile.blocked_tile import (
    BOUNDED,
    FACTOR_BYTES,
    FILLED,
    TAP_BYTES,
    TileArguments,
    tile_pixels,
)
from nnefc.kernels.tile.dot_squares import add_squares, exchanged, two_rows
from nnefc.kernels.tile.next_weights import prefetch_next, prefetch_own
from nnefc.kernels.tile.offset_table import table_offset
from nnefc.kernels.tile.real_form import RealForm, finished
from nnefc.kernels.tile.strips import one_by_one, strips
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.dot_halves import (
    CHAIN,
    WORD_HALVES,
    ChainDot,
    Half,
    HalfDot,
    HalfProducts,
    half_dot,
)
from nnefc.kernels.vector.dot_words import WORD_BYTES
from nnefc.kernels.vector.lanes import Lanes, clamp, fma, select
from nnefc.kernels.vector.vector_builder import Vector


@cache
def cover_halves(item: Half, form: RealForm, vectors: int, channels: int) -> Any:
    """Intrinsic `cover(pixels, depth, ...)`, see `blocked_tile.TileArguments`.

    Of `mode`, BOUNDED and FILLED are read.  `channels`: items of an entry of the reduction, even.
    """
    assert channels % WORD_HALVES == 0, f"entries of {channels} items are no words"

    def emit(v: Vector, pixels: int, number: Any, tiles: Any, words: Sequence[Any]) -> None:
        strip = number, tiles
        given = TileArguments(*words)
        dot, size = half_dot(item), (pixels, vectors, channels // WORD_HALVES)
        _HalfTile(v, dot, size, strip, given).emit(form)

    tables = [TileArguments._fields.index(f"{name}_pixels") for name in ("x", "y", "residual")]
    words = len(TileArguments._fields)
    return strips("float32", tile_pixels(vectors), words, tables, one_by_one(emit))


class _HalfTile:
    """The code of one tile, with vectors of float32."""

    def __init__(
        self,
        v: Vector,
        dot: HalfProducts,
        size: tuple[int, int, int],
        strip: tuple[Any, Any],
        given: TileArguments,
    ) -> None:
        """`size`: pixels, vectors, and words of an entry; `strip`: number of this tile in its
        strip, and its tiles.
        """
        self.v, self.builder, self.dot, self.given = v, v.builder, dot, given
        self.height, self.vectors, self.words = height, _, _ = size
        self.number, self.tiles = strip
        skipped = self.builder.mul(self.number, v.word(4 * height))
        self.x_pixels, self.y_pixels, self.residual_pixels = (
            v.at(v.pointer(table), skipped)
            for table in (given.x_pixels, given.y_pixels, given.residual_pixels)
        )

    def emit(self, form: RealForm) -> None:
        v, given = self.v, self.given
        sums = self._sums()
        if form.expression is not None:
            self._store_results(form, sums)
            return
        if form.residual:
            typed = v.of(form.residual)
            others = self._places(given.residual, self.residual_pixels, given.residual_plane)
            added = [convert(typed.load(at), v.dtype) for at in others]
            sums = [x + y for x, y in zip(sums, added, strict=True)]
        places = list(self._places(given.y, self.y_pixels, given.y_plane))
        numbers = v.pointer(given.clamp)
        low, high = (v.splat(v.load_item(numbers, v.itemsize * i)) for i in range(2))

        def store(top: Lanes | None, mask: Lanes | None = None) -> None:
            for k, (x, at) in enumerate(zip(sums, places, strict=True)):
                x = clamp(x, low, top)
                if mask is not None and (k + 1) % self.vectors == 0:
                    x = select(mask, x, 0)
                finished(form, x).store(at)

        with self.builder.if_else(self._has(FILLED), likely=False) as (filled, whole):
            with filled:
                store(high, v.mask(given.last_channels))
            with whole, self.builder.if_else(self._has(BOUNDED)) as (bounded, unbounded):
                with bounded:
                    store(high)
                with unbounded:
                    store(None)

    def _store_results(self, form: RealForm, sums: Sequence[Lanes]) -> None:
        """Apply the expression to the sums and store them, in a loop over pixels."""
        v, b, given = self.v, self.builder, self.given
        local = v.local(ir.ArrayType(v.type, len(sums)))
        for k, x in enumerate(sums):
            x.store(local, v.nbytes * k)
        mask = v.mask(b.select(self._has(FILLED), given.last_channels, v.word(v.lanes)))
        planes = self._planes(given.y, given.y_plane)
        others = self._planes(given.residual, given.residual_plane)
        with v.loop(0, v.word(self.height), 1) as turn:
            source = v.at(local, b.mul(turn.index, v.word(v.nbytes * self.vectors)))
            items = [v.load(source, v.nbytes * j) for j in range(self.vectors)]
            residuals: list[Lanes | None] = [None] * self.vectors
            if form.residual:
                at = table_offset(v, self.residual_pixels, turn.index)
                residuals = [v.of(form.residual).load(v.at(plane, at)) for plane in others]
            results = [finished(form, *each) for each in zip(items, residuals, strict=True)]
            results[-1] = select(mask, results[-1], 0)
            at = table_offset(v, self.y_pixels, turn.index)
            for result, plane in zip(results, planes, strict=True):
                result.store(v.at(plane, at))

    def _planes(self, tensor: Any, plane: Any) -> list[Any]:
        """Pointers to the planes of the vectors of the tile."""
        v, first = self.v, self.v.pointer(tensor)
        return [v.at(first, self.builder.mul(plane, v.word(j))) for j in range(self.vectors)]

    def _has(self, bit: int) -> Any:
        flag = self.builder.and_(self.given.mode, self.v.word(bit))
        return self.builder.icmp_signed("!=", flag, self.v.word(0))

    def _sums(self) -> list[Lanes]:
        """The complete sums, with the bias; that of pixel i, vector j has index i * vectors + j."""
        v, given, dot = self.v, self.given, self.dot
        bias, count = v.pointer(given.bias), self.height * self.vectors
        zeros = [v.zero()] * count
        # the bias is added last, because small sums would lose more by rounding
        starts = [v.load(bias, v.nbytes * j) for j in range(self.vectors)] * self.height
        if not isinstance(dot, ChainDot):
            sums = self._products(v.word(0), given.depth, zeros)
            return [start + y for start, y in zip(starts, sums, strict=True)]
        step = max(CHAIN // self.words, 1)
        with v.loop(0, given.depth, step, zeros) as chain:
            end = self.builder.add(chain.index, v.word(step))
            is_inside = self.builder.icmp_signed("<", end, given.depth)
            end = self.builder.select(is_inside, end, given.depth)
            chains = self._products(chain.index, end, [v.of("int32").zero()] * count)
            chain.next = dot.flush(chain.values, chains)
        factor = v.load_splat(v.pointer(given.clamp), FACTOR_BYTES)
        return [fma(y, factor, start) for start, y in zip(starts, chain.values, strict=True)]

    def _products(self, first: Any, end: Any, before: Sequence[Lanes]) -> list[Lanes]:
        """The sums or chains `before`, with the products of some entries added."""
        v, given, dot = self.v, self.given, self.dot
        paired = self.height > 1 and self.words % 2 == 0
        squares = dot.squares if paired and isinstance(dot, HalfDot) else ""
        x, taps, filter_ = map(v.pointer, (given.x, given.taps, given.filter))
        base = [v.at(x, table_offset(v, self.x_pixels, i)) for i in range(self.height)]
        row = self.vectors * v.nbytes
        with v.loop(first, end, 1, exchanged(before, self.vectors) if squares else before) as turn:
            sums = list(turn.values)
            tap = v.at(taps, self.builder.mul(turn.index, v.word(TAP_BYTES)))
            offset, number = table_offset(v, tap, 0), table_offset(v, tap, 1)
            at = v.at(filter_, self.builder.mul(number, v.word(self.words * row)))
            sources = [v.at(pointer, offset) for pointer in base]
            prefetch_own(v, at, self.words * row, self.number)
            prefetch_next(v, at, given.depth, self.words * row, self.number, self.tiles)
            if squares:
                turn.next = self._squares(squares, sums, sources, at)
            else:
                turn.next = self._words(sums, sources, at)
        return exchanged(turn.values, self.vectors) if squares else list(turn.values)

    def _words(self, sums: list[Lanes], sources: Sequence[Any], at: Any) -> list[Lanes]:
        """Add the products of an entry, word by word."""
        words_of, row = self.v.of("int32"), self.vectors * self.v.nbytes
        for c in range(self.words):
            places = [c * row + self.v.nbytes * j for j in range(self.vectors)]
            weights = [[words_of.load(at, place)] for place in places]
            for i, source in enumerate(sources):
                items = self.dot.codes(words_of.load_splat(source, WORD_BYTES * c))
                for j in range(self.vectors):
                    k = i * self.vectors + j
                    sums[k] = self.dot.add(sums[k], items, weights[j])
        return sums

    def _squares(
        self, name: str, sums: Sequence[Lanes], sources: Sequence[Any], at: Any
    ) -> list[Lanes]:
        """Add the products of an entry to sums of `exchanged`, by two words of two pixels."""
        v, words_of = self.v, self.v.of("int32")
        row, together = self.vectors * v.nbytes, self.height & -2
        for c in range(0, self.words, 2):
            places = [v.at(source, WORD_BYTES * c) for source in sources]
            pairs = (two_rows(words_of, places[i : i + 2]) for i in range(0, together, 2))
            last = [
                words_of.load_item(x, WORD_BYTES * k) for x in places[together:] for k in (0, 1)
            ]
            weights = [c * row + v.nbytes * j for j in range(self.vectors)]
            words = [(words_of.load(at, n), words_of.load(at, n + row)) for n in weights]
            sums = add_squares(words_of, name, sums, pairs, last, words, self.dot)
        return list(sums)

    def _places(self, tensor: Any, pixels: Any, plane: Any) -> Iterator[Any]:
        """Pointers to the vectors of the tile in a blocked tensor."""
        v, planes = self.v, self._planes(tensor, plane)
        for i in range(self.height):
            offset = table_offset(v, pixels, i)
            yield from (v.at(p, offset) for p in planes)
