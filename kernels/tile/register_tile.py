"""The register tile of dense matrix products.

    C[m, n] (+)= A[m, depth] B[depth, n]

One tile holds up to `rows` x `vectors` vectors of C in registers along `depth`, as in GotoBLAS
(Goto and van de Geijn, 2008).  A has strides for rows and columns, B only for rows: its rows are
contiguous whole vectors.  Only the first n columns of C are read and written.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import fma
from nnefc.kernels.vector.llvm_types import I8, I64
from nnefc.kernels.vector.memory import WORD, helper, native
from nnefc.kernels.vector.vector_builder import Vector, vector_function, vector_intrinsic

PANEL_BYTES = 24 << 10
"""Bytes of a piece of B that is reused and should stay in the L1 cache."""

CHAIN = 256
"""Most products in one chain of additions.

The sums of chains are added in a second chain, so that the error grows with the longer chain and
not with the depth (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
"""
_AHEAD = 4 << 10
"""Prefetch distance in B in bytes; hardware prefetchers stop at the end of a page."""
_PREFETCHING_ROWS = 3
"""Least height of tiles that prefetch B; lower ones have too few products beside the prefetches.

B of recurrent layers, for example, is in the L2 cache and is read by tiles of one row."""
TILE_ARGUMENTS = 13
CASE = 64
"""Distance of switch cases of neighbouring widths; no tile has as many rows."""
DOTS_CHAIN = 32
"""As `CHAIN`, for dot products, which add to several vectors of sums at a time."""


def tile_rows() -> int:
    return host().tile[0]


def panel_columns(item: str) -> int:
    """Columns of C that one tile covers."""
    return host().tile[1] * lanes_of(item)


def panel_depth(item: str) -> int:
    """Rows of B per tile, such that they fit into the L1 cache and into a `CHAIN`."""
    return min(PANEL_BYTES // (panel_columns(item) * ITEMSIZE[item]), CHAIN)


def heights(rows: int) -> list[int]:
    """Numbers of rows for which tiles have code; few, because each costs compile time."""
    return sorted({1, 2, 4, rows})


@cache
def tile_height() -> Any:
    """Helper `height(rows)`: the height of the largest tile with at most `rows` rows."""
    most = tile_rows()

    @helper
    def height(rows):
        if rows >= most:
            return most
        if rows >= 4:
            return 4
        return min(rows, 2)

    return height


@cache
def register_tile(item: str, rows: int, vectors: int) -> Any:
    """`product_tile` as an intrinsic, for heights `heights(rows)` and widths 1 and `vectors`."""
    emit = _product_tile(tuple(heights(rows)), tuple(sorted({1, vectors})))
    return vector_intrinsic(item, lanes_of(item), TILE_ARGUMENTS, apart=True)(emit)


def tile_width(height: int) -> int:
    """Most vectors of a tile of `height` rows whose sums and operands fit into the registers."""
    registers = host().registers
    fitting = [w for w in range(1, 9) if height * w + min(height, w) + 1 <= registers]
    return fitting[-1]


def min_rows() -> int:
    """Minimum rows of a part, if many rows are divided into nearly equal parts."""
    return (tile_rows() + 1) // 2


def covering_tiles(
    heights: tuple[int, ...], widths: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(heights, widths) of a kernel that covers these and many others.

    All parts of many rows, if they include these; otherwise all widths for these heights.
    """
    rows, most = tile_rows(), tile_width(tile_rows())
    if heights[0] >= min_rows() and heights[-1] <= rows and widths[-1] <= most:
        return tuple(range(min_rows(), rows + 1)), tuple(range(1, most + 1))
    return heights, tuple(range(1, max(widths[-1], tile_width(heights[-1])) + 1))


@cache
def product_tile(item: str, heights: tuple[int, ...], widths: tuple[int, ...]) -> Any:
    """Function `tile(m, n, depth, a, a_row, a_step, b, b_row, c, c_row, bias, bias_row, fresh)`.

    m is one of `heights`; n items fit into the largest of `widths` (vectors); strides are in bytes.
    Rows of B must be readable up to the smallest of `widths` that n fits into.  The sum of products
    is added to the item at bias + i * bias_row in row i if `fresh`, else to C.  depth may be 0.
    """
    emit = _product_tile(heights, widths)
    return vector_function(item, lanes_of(item), TILE_ARGUMENTS)(emit)


def _product_tile(heights: tuple[int, ...], widths: tuple[int, ...]) -> Any:
    def tile(v: Vector, m, n, depth, a, a_row, a_step, b, b_row, c, c_row, bias, bias_row, fresh):
        a, b, c, bias = (v.pointer(p) for p in (a, b, c, bias))
        for height, width in each_size(v, m, n, heights, widths):
            code = TileEmitter(v, height, width)
            values = code.products(depth, a, a_row, a_step, b, b_row)
            code.finish(values, n, c, c_row, bias, bias_row, fresh)

    return tile


def each_size(
    v: Vector, m, n, heights: tuple[int, ...], widths: tuple[int, ...]
) -> Iterator[tuple[int, int]]:
    """Emit a switch over sizes of tiles, of m rows and n columns; yields (height, width).

    The caller emits the code for each size, which ends where the switch began.
    """
    builder = v.builder
    out = builder.append_basic_block("out")
    case = m
    for width in widths[:-1]:
        wider = builder.icmp_signed(">", n, v.word(v.lanes * width))
        case = builder.add(case, builder.select(wider, v.word(CASE), v.word(0)))
    switch = builder.switch(case, out)
    for number, width in enumerate(widths):
        for height in heights:
            block = builder.append_basic_block(f"tile{height}x{width}")
            switch.add_case(ir.Constant(I64, height + CASE * number), block)
            builder.position_at_end(block)
            yield height, width
            builder.branch(out)
    builder.position_at_end(out)


@dataclass(frozen=True)
class TileEmitter:
    """Emits the code of tiles of `height` rows and `width` vectors."""

    v: Vector
    height: int
    width: int

    def products(self, depth, a, a_row, a_step, b, b_row, starts=None, ahead=None):
        """The sums of products, row by row; each begins at 0, or at its item of `starts`.

        `ahead`: (what to prefetch during the products, bytes for each of them along the depth).
        """
        v, builder = self.v, self.v.builder
        offsets = [builder.mul(a_row, v.word(i)) for i in range(self.height)]
        count = self.height * self.width
        unroll = 1 if ahead is not None and count >= 16 else 2 if count >= 8 else 4
        even = builder.and_(depth, v.word(-unroll))
        starts = [v.zero()] * count if starts is None else starts
        with v.loop(0, even, unroll, [*starts, a, b]) as turn:
            *values, at_a, at_b = turn.values
            if ahead is not None:
                v.prefetch(v.at(ahead[0], builder.mul(turn.index, ahead[1])))
            for _ in range(unroll):
                if self.height >= _PREFETCHING_ROWS:
                    v.prefetch_lines(at_b, self.width * v.nbytes, _AHEAD)
                values = self._step(values, at_a, offsets, at_b)
                at_a, at_b = v.at(at_a, a_step), v.at(at_b, b_row)
            turn.next = [*values, at_a, at_b]
        with v.loop(even, depth, 1, turn.values) as turn:
            *values, at_a, at_b = turn.values
            values = self._step(values, at_a, offsets, at_b)
            turn.next = [*values, v.at(at_a, a_step), v.at(at_b, b_row)]
        return turn.values[:-2]

    def _step(self, values, at_a, offsets, at_b):
        """Add the products of a column of A and a row of B."""
        v = self.v
        # the shorter side stays in registers
        if self.height < self.width:
            xs = [v.load_splat(v.at(at_a, offset)) for offset in offsets]
            columns = []
            for j in range(self.width):
                part = v.load(at_b, v.nbytes * j)
                columns.append([fma(x, part, y) for x, y in zip(xs, values[j :: self.width])])
            return [y for row in zip(*columns) for y in row]
        parts = [v.load(at_b, v.nbytes * j) for j in range(self.width)]
        result = []
        for i, offset in enumerate(offsets):
            x = v.load_splat(v.at(at_a, offset))
            row = values[i * self.width : (i + 1) * self.width]
            result += [fma(x, part, y) for part, y in zip(parts, row, strict=True)]
        return result

    def finish(self, values, n, c, c_row, bias, bias_row, fresh):
        """Add the sums to C, or to the bias; only the first n columns."""
        v, builder = self.v, self.v.builder
        rows = [v.at(c, builder.mul(c_row, v.word(i))) for i in range(self.height)]
        is_fresh = builder.icmp_signed("!=", fresh, v.word(0))
        is_whole = builder.icmp_signed("==", n, v.word(self.width * v.lanes))
        with builder.if_else(is_whole) as (whole, part):
            for block, masked in ((whole, False), (part, True)):
                with block:
                    masks = self._masks(n) if masked else None
                    with builder.if_else(is_fresh) as (begin, resume):
                        with begin:
                            self._store(values, rows, masks, (bias, bias_row))
                        with resume:
                            self._store(values, rows, masks, None)

    def _masks(self, n):
        """The mask of the first n columns for each vector."""
        v = self.v
        return [v.mask(v.builder.sub(n, v.word(v.lanes * j))) for j in range(self.width)]

    def _store(self, values, rows, masks, bias):
        v = self.v
        for i, row in enumerate(rows):
            start = None
            if bias is not None:
                first, pitch = bias
                start = v.load_splat(v.at(first, v.builder.mul(pitch, v.word(i))))
            for j in range(self.width):
                target, value = v.at(row, v.nbytes * j), values[i * self.width + j]
                mask = None if masks is None else masks[j]
                before = v.load(target, mask=mask) if start is None else start
                (before + value).store(target, mask=mask)


@cache
def dots(item: str, rows: int = 4) -> Any:
    """Intrinsic `dots(m, depth, a, a_row, b, sums)`: dot products of m <= rows rows of A with b.

    Rows of A and b are contiguous; the m sums are stored consecutively.
    """

    @vector_intrinsic(item, lanes_of(item), 6)
    def dots(v: Vector, m, depth, a, a_row, b, sums):
        builder = v.builder
        a, b, sums = v.pointer(a), v.pointer(b), v.pointer(sums)
        out = builder.append_basic_block("out")
        switch = builder.switch(m, out)
        for height in range(1, rows + 1):
            block = builder.append_basic_block(f"dots{height}")
            switch.add_case(ir.Constant(I64, height), block)
            builder.position_at_end(block)
            starts = [v.at(a, builder.mul(a_row, v.word(i))) for i in range(height)]
            # enough independent chains to hide the latency of a multiply-add
            chains = max(2, 8 // height)
            wide = chains * v.lanes
            whole = builder.and_(depth, v.word(-wide))
            piece = wide * DOTS_CHAIN
            with v.loop(0, whole, piece, [v.zero()] * height) as outer:
                end = builder.add(outer.index, v.word(piece))
                end = builder.select(builder.icmp_signed("<", end, whole), end, whole)
                with v.loop(outer.index, end, wide, [v.zero()] * (height * chains)) as turn:
                    offset = builder.mul(turn.index, v.word(v.itemsize))
                    xs = [v.load(v.at(b, offset), v.nbytes * k) for k in range(chains)]
                    turn.next = [
                        fma(v.load(v.at(starts[i], offset), v.nbytes * k), xs[k], value)
                        for i in range(height)
                        for k, value in enumerate(turn.values[i * chains : (i + 1) * chains])
                    ]
                for i in range(height):
                    parts = turn.values[i * chains : (i + 1) * chains]
                    while len(parts) > 1:
                        parts = [x + y for x, y in zip(parts[::2], parts[1::2], strict=True)]
                    outer.next[i] = outer.values[i] + parts[0]
            totals = outer.values
            with v.loop(whole, depth, v.lanes, totals) as turn:
                offset = builder.mul(turn.index, v.word(v.itemsize))
                mask = v.mask(builder.sub(depth, turn.index))
                x = v.load(v.at(b, offset), mask=mask)
                turn.next = [
                    fma(v.load(v.at(start, offset), mask=mask), x, value)
                    for start, value in zip(starts, turn.values, strict=True)
                ]
            for i, value in enumerate(turn.values):
                v.store_item(value.total(), sums, v.itemsize * i)
            builder.branch(out)
        builder.position_at_end(out)

    return dots


@cache
def local_bytes(size: int) -> Any:
    """Intrinsic `local() -> address`: `size` bytes on the stack of the thread, 64-byte aligned.

    Unlike memory of the arena, such scratch stays in the cache from tile to tile.
    """

    def local(builder):
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(I8, size))
            memory.align = 64
        return builder.ptrtoint(memory, I64)

    return native(WORD)(local)
