"""The register tile over channel-blocked codes: exact sums of products, requantized in registers.

As in `blocked_tile`, a tile is some pixels x `vectors` channel blocks of the output, and its
addresses are data.  A step broadcasts a word of four codes of a pixel, or of two int16, and
multiplies it with words of weights.  The whole reduction stays in registers; sums are int32 and
start from a number per channel, which accounts for biases and zero points.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, Protocol

from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.blocked_tile import ACCUMULATORS, MAX_HEIGHT, TAP_BYTES
from nnefc.kernels.tile.code_results import Ending, Results, Steps
from nnefc.kernels.tile.dot_squares import add_squares, exchanged
from nnefc.kernels.tile.next_weights import prefetch_next, prefetch_own
from nnefc.kernels.tile.offset_table import table_offset
from nnefc.kernels.tile.strips import one_by_one, strips
from nnefc.kernels.vector.dot_words import WORD_BYTES, DotInstruction, WordDot, WordKind, dot_of
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.vector_builder import Vector, separate_function


class _Arguments(NamedTuple):
    """The arguments of tiles: 64-bit integers, most of them addresses.

    - depth, taps, x, x_pixels, y, y_pixels, y_plane: as of `blocked_tile`
    - filter: [weights, words, planes, panel_width] words of `WordDot.weights`
    - starts: int32 [panel_width], the sums of no products
    - scale: [terms of the ending, panel_width]
    - bounds: see `nnefc.kernels.tile.code_results`
    - residual, residual_pixels, residual_plane: as of `blocked_tile`, if the ending adds one
    """

    depth: Any
    taps: Any
    x: Any
    x_pixels: Any
    filter: Any
    y: Any
    y_pixels: Any
    y_plane: Any
    starts: Any
    scale: Any
    bounds: Any
    residual: Any
    residual_pixels: Any
    residual_plane: Any


class _TileOf(Protocol):
    """Makes a tile of a strip."""

    def __call__(self, number: Any, sharing: Any = None) -> _CodeTile: ...


_OVERLAPPED: Final = 12
"""Most vectors of sums of a tile, if those of the tile before are in registers, too."""
_FEW_PRODUCTS: Final = 2
"""Products that LLVM adds to a sum in order."""


def code_tile_pixels(vectors: int, kind: WordKind = "codes", *, overlaps: bool = False) -> int:
    """Pixels of the largest tile whose sums, weights and operands of a step fit into registers.

    `overlaps`: see `cover_codes`.
    """
    if overlaps:
        return min(_OVERLAPPED // vectors, MAX_HEIGHT)
    dot = dot_of(kind)
    step = vectors * dot.planes + dot.planes + (dot.instructions > 1)
    fitting = (host().registers - step) // vectors
    return max(1, min(fitting, ACCUMULATORS // vectors, MAX_HEIGHT))


@cache
def cover_codes(
    ending: Ending, vectors: int, words: int, kind: WordKind = "codes", *, overlaps: bool = False
) -> Any:
    """Intrinsic `cover(pixels, depth, ...)`: tiles over any number of pixels, see `_Arguments`.

    `words`: of an entry of the reduction.  `overlaps`: a tile is requantized after the products of
    the next one.  Then the processor computes both at once: it does not look far enough ahead to
    reach the products of the next tile behind the requantization of a large one.  If the pixels of
    all tables follow each other in memory, no table is read, and instructions of the requantization
    are between products of the first entry.
    """
    dot = dot_of(kind)
    highest = code_tile_pixels(vectors, kind, overlaps=overlaps)

    def prepare(v: Vector, given: Sequence[Any]) -> tuple[_Arguments, Results]:
        known = _Arguments(*given)
        scale, bounds = v.pointer(known.scale), v.pointer(known.bounds)
        return known, Results(v, vectors, scale, bounds, ending)

    def emit(v: Vector, pixels: int, number: Any, tiles: Any, shared: Any) -> None:
        given, results = shared
        tile = _CodeTile(v, pixels, vectors, words, number, given, tiles)
        tile.store(results, tile.sums(dot))

    def tile_of(v: Vector, pixels: int, given: _Arguments, *, follow: bool = False) -> _TileOf:
        def tile(number: Any, sharing: Any = None) -> _CodeTile:
            return _CodeTile(v, pixels, vectors, words, number, given, sharing, follow=follow)

        return tile

    def emit_overlapped(v: Vector, pixels: int, tiles: Any, shared: Any) -> None:
        given, results = shared
        in_blocks = kind == "codes" and words * WORD_BYTES == v.lanes // 2
        if pixels < highest or not in_blocks or not results.narrows_each:
            _emit_apart(v, tiles, tile_of(v, pixels, given), results, dot)
            return
        with v.builder.if_else(_follows(v, given, results, pixels, tiles)) as (then, otherwise):
            with then:
                # in one function with the other loop, LLVM spends more instructions on both
                run = separate_function(v.builder, follow, "int32", v.lanes, 1 + len(given))
                v.builder.call(run, [tiles, *given])
            with otherwise:
                _emit_apart(v, tiles, tile_of(v, pixels, given), results, dot)

    def follow(v: Vector, tiles: Any, *arguments: Any) -> None:
        given, results = prepare(v, arguments)
        _emit_together(v, tiles, tile_of(v, highest, given, follow=True), results, dot)

    tables = [_Arguments._fields.index(f"{name}_pixels") for name in ("x", "y", "residual")]
    every = emit_overlapped if overlaps else one_by_one(emit)
    return strips("int32", highest, len(_Arguments._fields), tables, every, prepare)


def _emit_apart(v: Vector, tiles: Any, tile: _TileOf, results: Results, dot: WordDot) -> None:
    """Tiles that are requantized behind the products of the next one."""
    one = v.word(1)
    first = tile(v.word(0), one)  # prefetches alone
    with v.loop(1, tiles, 1, first.sums(dot)) as turn:
        turn.next = tile(turn.index).sums(dot)
        tile(v.builder.sub(turn.index, one)).store(results, turn.values)
    tile(v.builder.sub(tiles, one)).store(results, turn.values)


def _emit_together(v: Vector, tiles: Any, tile: _TileOf, results: Results, dot: WordDot) -> None:
    """Tiles of pixels that follow each other, requantized between the products of the next one."""
    one = v.word(1)
    first = tile(v.word(0), one)
    with v.loop(1, tiles, 1, first.sums(dot)) as turn:
        before = tile(v.builder.sub(turn.index, one))
        steps = before.steps(results, turn.values)
        turn.next = tile(turn.index).sums(dot, steps)
        before.store_neighbours(results, steps.scaled)
    last = tile(v.builder.sub(tiles, one))
    steps = last.steps(results, turn.values)
    steps.finish()
    last.store_neighbours(results, steps.scaled)


def _follows(v: Vector, given: _Arguments, results: Results, pixels: int, tiles: Any) -> Any:
    """Whether the pixels of a strip follow each other in memory, and sums have products.

    Tables have pixels in the order of memory, so the first and the last one tell.
    """
    b = v.builder
    last = b.sub(b.mul(tiles, v.word(pixels)), v.word(1))
    follows = b.icmp_signed(">", given.depth, v.word(0))
    tables = [given.x_pixels, given.y_pixels]
    for table in [*tables, given.residual_pixels] if results.ending.residual else tables:
        start = v.pointer(table)
        end = v.at(start, b.mul(last, v.word(4)))
        between = b.sub(table_offset(v, end, 0), table_offset(v, start, 0))
        is_dense = b.icmp_signed("==", between, b.mul(last, v.word(v.lanes)))
        follows = b.and_(follows, is_dense)
    return follows


class _CodeTile:
    """The code of one tile, with vectors of int32."""

    def __init__(
        self,
        v: Vector,
        height: int,
        vectors: int,
        words: int,
        number: Any,
        given: _Arguments,
        tiles: Any,
        *,
        follow: bool = False,
    ) -> None:
        """`words`: words of an entry; `number`: of this tile in its strip.

        `tiles`: tiles of the strip that share the prefetch of the next weights; None if this one
        does not.  `follow`: pixels follow each other in memory.
        """
        self.v, self.builder = v, v.builder
        self.height, self.vectors, self.words = height, vectors, words
        self.depth = given.depth
        self.y_plane, self.residual_plane = given.y_plane, given.residual_plane
        self.taps, self.filter = v.pointer(given.taps), v.pointer(given.filter)
        self.x, self.y = v.pointer(given.x), v.pointer(given.y)
        self.starts, self.residual = v.pointer(given.starts), v.pointer(given.residual)
        self.number, self.tiles, self.follow = number, tiles, follow
        skipped = self.builder.mul(self.number, v.word(4 * height))
        self.x_pixels, self.y_pixels, self.residual_pixels = (
            v.at(v.pointer(table), skipped)
            for table in (given.x_pixels, given.y_pixels, given.residual_pixels)
        )

    def store(self, results: Results, sums: Sequence[Lanes]) -> None:
        """Store the results of sums."""
        places = list(self._places(self.y, self.y_pixels, self.y_plane))
        others: list[Any] = []
        if results.ending.residual:
            others += self._places(self.residual, self.residual_pixels, self.residual_plane)
        for j in range(self.vectors):
            mine = slice(j, None, self.vectors)
            results.store_each(sums[mine], j, places[mine], others[mine])

    def steps(self, results: Results, sums: Sequence[Lanes]) -> Steps:
        """The requantization of sums, step by step."""
        others: list[Any] = []
        if results.ending.residual:
            others += self._places(self.residual, self.residual_pixels, self.residual_plane)
        slices = [slice(j, None, self.vectors) for j in range(self.vectors)]
        return results.steps([sums[mine] for mine in slices], [others[mine] for mine in slices])

    def store_neighbours(self, results: Results, scaled: Sequence[Sequence[Lanes]]) -> None:
        """Store what `steps` computed of each vector of a pixel, of pixels that follow."""
        places = list(self._places(self.y, self.y_pixels, self.y_plane))
        for vectors, place in zip(scaled, places, strict=False):
            results.store_scaled(vectors, place)

    def sums(self, dot: WordDot, beside: Steps | None = None) -> list[Lanes]:
        """The sums of the reduction; the sum of pixel i, vector j has index i * vectors + j.

        `beside`: steps between the products of the first entry, which there is.
        """
        v = self.v
        base = self._pixels(self.x, self.x_pixels)
        starts = [v.load(self.starts, v.nbytes * j) for j in range(self.vectors)]
        row = dot.planes * self.vectors * v.nbytes
        first, sums = v.word(0), starts * self.height
        if isinstance(dot, DotInstruction) and dot.squares and self.words == 1 and self.height > 1:
            first = self.builder.and_(self.depth, v.word(-2))
            sums = self._squares(dot, first, sums, base)
        if beside is not None:
            sources, at = self._tap(first, base, self.words * row)
            beside.spread(self.words * len(sums))
            sums = self._entry(dot, sums, sources, at, row, beside)
            beside.finish()
            first = v.word(1)
        with v.loop(first, self.depth, 1, sums) as turn:
            sums = list(turn.values)
            sources, at = self._tap(turn.index, base, self.words * row)
            turn.next = self._entry(dot, sums, sources, at, row)
        return turn.values

    def _tap(self, index: Any, base: Sequence[Any], nbytes: int) -> tuple[list[Any], Any]:
        """Pointers to the codes of pixels and to the weights of an entry, `nbytes` bytes."""
        v = self.v
        tap = v.at(self.taps, self.builder.mul(index, v.word(TAP_BYTES)))
        offset, number = table_offset(v, tap, 0), table_offset(v, tap, 1)
        at = v.at(self.filter, self.builder.mul(number, v.word(nbytes)))
        sources = [v.at(pointer, offset) for pointer in base]
        if self.tiles is not None:
            prefetch_own(v, at, nbytes, self.number)
            prefetch_next(v, at, self.depth, nbytes, self.number, self.tiles)
        return sources, at

    def _squares(
        self, dot: DotInstruction, end: Any, sums: list[Lanes], base: Sequence[Any]
    ) -> list[Lanes]:
        """Sums with the products of the entries before `end`, by twos, of pairs of pixels."""
        v = self.v
        with v.loop(0, end, 2, exchanged(sums, self.vectors)) as turn:
            indices = turn.index, self.builder.add(turn.index, v.word(1))
            entries = [self._tap(each, base, self.vectors * v.nbytes) for each in indices]
            (low, low_at), (high, high_at) = entries
            codes = [v.load_item(x) for pixel in zip(low, high, strict=True) for x in pixel]
            pairs = [v.gather(codes[i : i + 4]) for i in range(0, len(codes) - 3, 4)]
            last = codes[4 * len(pairs) :]
            places = [v.nbytes * j for j in range(self.vectors)]
            words = [(v.load(low_at, place), v.load(high_at, place)) for place in places]
            turn.next = add_squares(v, dot.squares, list(turn.values), pairs, last, words, dot)
        return exchanged(turn.values, self.vectors)

    def _entry(
        self,
        dot: WordDot,
        sums: list[Lanes],
        sources: Sequence[Any],
        at: Any,
        row: int,
        beside: Steps | None = None,
    ) -> list[Lanes]:
        """Add the products of an entry; `row`: bytes of the weights of a word.

        Many words are a loop, unless one instruction adds products: LLVM would add the products of
        several words to each other first, which takes more registers than there are.
        """
        if dot.instructions == 1 or self.words * dot.planes <= _FEW_PRODUCTS:
            for c in range(self.words):
                sums = self._word(dot, sums, sources, at, (WORD_BYTES * c, c * row), beside)
            return sums
        v = self.v
        with v.loop(0, v.word(self.words), 1, sums) as turn:
            place = v.at(at, self.builder.mul(turn.index, v.word(row)))
            offset = self.builder.mul(turn.index, v.word(WORD_BYTES))
            turn.next = self._word(dot, turn.values, sources, place, (offset, 0))
        return turn.values

    def _word(
        self,
        dot: WordDot,
        sums: Sequence[Lanes],
        sources: Sequence[Any],
        at: Any,
        offsets: tuple[Any, Any],
        beside: Steps | None = None,
    ) -> list[Lanes]:
        """Sums with the products of a word; `offsets`: from pixels in `sources`, and from `at`."""
        offset, first = offsets
        weights = [self._weights(at, first, j, dot.planes) for j in range(self.vectors)]
        added = list(sums)
        for i, source in enumerate(sources):
            codes = dot.codes(self.v.load_splat(source, offset))
            for j in range(self.vectors):
                k = i * self.vectors + j
                added[k] = dot.add(added[k], codes, weights[j])
                if beside is not None:
                    beside.advance()
        return added

    def _weights(self, at: Any, offset: int, j: int, planes: int) -> list[Lanes]:
        """Vector j of the weights of a word, in planes."""
        v = self.v
        plane = self.vectors * v.nbytes
        return [v.load(at, offset + p * plane + j * v.nbytes) for p in range(planes)]

    def _places(self, start: Any, pixels: Any, plane: Any) -> Iterator[Any]:
        """Pointers to the vectors of the tile in y, or in the residual."""
        v = self.v
        planes = [v.at(start, self.builder.mul(plane, v.word(j))) for j in range(self.vectors)]
        of_planes = [self._pixels(p, pixels) for p in planes]
        for of_pixel in zip(*of_planes, strict=True):
            yield from of_pixel

    def _pixels(self, start: Any, pixels: Any) -> list[Any]:
        """Pointers to the pixels of the tile."""
        v = self.v
        if not self.follow:
            return [v.at(start, table_offset(v, pixels, i)) for i in range(self.height)]
        first = v.at(start, table_offset(v, pixels, 0))
        return [v.at(first, i * v.lanes) for i in range(self.height)]
