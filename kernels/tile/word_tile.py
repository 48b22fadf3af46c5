"""The register tile of products whose unit of the depth is a word: four codes, or two halves.

A step broadcasts a word of a row of A and multiplies it with vectors of words of B, as a step of
`nnefc.kernels.tile.register_tile` does with items.  The whole depth is summed in registers, so a
panel of B is read from the L2 cache once per tile.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite is untyped)

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from nnefc.kernels.tile.dot_squares import add_squares, exchanged, two_rows
from nnefc.kernels.tile.register_tile import TileEmitter, each_size
from nnefc.kernels.vector.dot_halves import CHAIN, ChainDot
from nnefc.kernels.vector.dot_words import WordDot
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.llvm_types import I32
from nnefc.kernels.vector.vector_builder import Vector, vector_function

WORD_TILE_ARGUMENTS = 12


@cache
def word_tile(dot: WordDot, heights: tuple[int, ...], widths: tuple[int, ...]) -> Any:
    """Function `tile(m, n, words, a, a_row, b, b_row, start, sums, sums_row, ahead, ahead_step)`.

    Sums of m rows and n columns over `words` words: m is one of `heights`, n items fit into the
    largest of `widths` (vectors).  Rows of A are `a_row` bytes apart, planes of B `b_row`.  Sums of
    a column begin at its item of `start`; a `ChainDot` multiplies them with it instead.  B, `start`
    and `sums` have whole vectors; the last two have the type of sums of `dot`.  While it
    multiplies, a tile of several rows prefetches `ahead_step` bytes at `ahead` for each word of the
    depth.
    """

    @vector_function("int32", lanes_of("int32"), WORD_TILE_ARGUMENTS)
    def tile(v: Vector, m, n, words, a, a_row, b, b_row, start, sums, sums_row, ahead, step_ahead):
        builder, of_sums = v.builder, v.of(dot.sums)
        a, b, start, sums, ahead = (v.pointer(p) for p in (a, b, start, sums, ahead))
        step = builder.mul(b_row, v.word(dot.planes))
        for height, width in each_size(v, m, n, heights, widths):
            code = _WordTile(v, height, width, dot, b_row)
            starts = [of_sums.load(start, v.nbytes * j) for j in range(width)] * height
            following = (ahead, step_ahead) if height > 1 else None
            values = code.products(words, a, a_row, v.word(v.itemsize), b, step, starts, following)
            code.store(values, sums, sums_row)

    return tile


@dataclass(frozen=True)
class _WordTile(TileEmitter):
    """Emits the code of tiles over words."""

    dot: WordDot
    plane: Any
    """Bytes from plane to plane of B, an LLVM word."""

    def products(self, depth, a, a_row, a_step, b, b_row, starts=None, ahead=None):
        """As of `TileEmitter`; pairs of words of pairs of rows by `dot_squares`, if it is there.

        A `ChainDot` multiplies the sums with `starts`.
        """
        if isinstance(self.dot, ChainDot):
            return self._chains(self.dot, depth, a, a_row, b, b_row, starts, ahead)
        name = getattr(self.dot, "squares", "")
        if not name or self.height == 1 or starts is None:
            return super().products(depth, a, a_row, a_step, b, b_row, starts, ahead)
        v, builder = self.v, self.v.builder
        offsets = [builder.mul(a_row, v.word(i)) for i in range(self.height)]
        even = builder.and_(depth, v.word(-2))
        starts = exchanged(starts, self.width)
        with v.loop(0, even, 2, [*starts, a, b]) as turn:
            *values, at_a, at_b = turn.values
            if ahead is not None:
                for i in range(2):
                    index = builder.add(turn.index, v.word(i))
                    v.prefetch(v.at(ahead[0], builder.mul(index, ahead[1])))
            values = self._squares(name, values, [v.at(at_a, x) for x in offsets], at_b)
            turn.next = [*values, v.at(at_a, 2 * v.itemsize), v.at(at_b, builder.add(b_row, b_row))]
        *values, at_a, at_b = turn.values
        values = exchanged(values, self.width)
        with v.loop(even, depth, 1, values) as turn:
            turn.next = self._step(turn.values, at_a, offsets, at_b)
        return turn.values

    def _chains(self, dot, depth, a, a_row, b, b_row, factors, ahead):
        """Sums of products that are added along chains, and then multiplied with factors."""
        v, builder = self.v, self.v.builder
        offsets = [builder.mul(a_row, v.word(i)) for i in range(self.height)]
        count = self.height * self.width
        with v.loop(0, depth, CHAIN, [*[v.of(dot.sums).zero()] * count, a, b]) as chain:
            *sums, at_a, at_b = chain.values
            end = builder.add(chain.index, v.word(CHAIN))
            end = builder.select(builder.icmp_signed("<", end, depth), end, depth)
            with v.loop(chain.index, end, 1, [*[v.zero()] * count, at_a, at_b]) as turn:
                *values, at_a, at_b = turn.values
                if ahead is not None:
                    v.prefetch(v.at(ahead[0], builder.mul(turn.index, ahead[1])))
                values = self._step(values, at_a, offsets, at_b)
                turn.next = [*values, v.at(at_a, v.itemsize), v.at(at_b, b_row)]
            *values, at_a, at_b = turn.values
            chain.next = [*dot.flush(sums, values), at_a, at_b]
        return [x * y for x, y in zip(chain.values[:count], factors, strict=True)]

    def _squares(self, name, values, rows, at_b):
        """Add the products of two columns of words of A and two rows of words of B."""
        v = self.v
        below = v.at(at_b, self.plane)
        pairs = (two_rows(v, rows[i : i + 2]) for i in range(0, self.height - 1, 2))
        single = rows[self.height & -2 :]
        last = [self._word(v.at(row, v.itemsize * k)) for row in single for k in range(2)]
        places = [v.nbytes * j for j in range(self.width)]
        words = [(v.load(at_b, place), v.load(below, place)) for place in places]
        return add_squares(v, name, values, pairs, last, words, self.dot)

    def _step(self, values, at_a, offsets, at_b):
        """Add the products of a column of words of A and a row of words of B."""
        v, dot = self.v, self.dot
        planes = [at_b]
        for _ in range(1, dot.planes):
            planes.append(v.at(planes[-1], self.plane))
        words = [[v.load(at, v.nbytes * j) for at in planes] for j in range(self.width)]
        result = []
        for i, offset in enumerate(offsets):
            codes = dot.codes(v.splat(self._word(v.at(at_a, offset))))
            row = values[i * self.width : (i + 1) * self.width]
            result += [dot.add(y, codes, each) for y, each in zip(row, words, strict=True)]
        return result

    def _word(self, at):
        """A word of A; rows of bytes need not be aligned to words."""
        return self.v.builder.load(at, typ=I32, align=1)

    def store(self, values, sums, sums_row):
        """Store the sums of the rows."""
        v = self.v
        for i in range(self.height):
            row = v.at(sums, v.builder.mul(sums_row, v.word(i)))
            for j, value in enumerate(values[i * self.width : (i + 1) * self.width]):
                value.store(row, v.nbytes * j)
