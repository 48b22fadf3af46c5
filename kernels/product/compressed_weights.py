"""Matrix products with compressed weights: float16, bfloat16, or blocks of 4 or 8 bits.

    C[m, n] (+)= A[m, depth] B[depth, n]

B is in panels of one vector of columns over the whole depth, and is widened to float32 in
registers.  With few rows, the time of a product is the time to read the weights.  Codes of 4 bits
are not widened, but multiplied as integers with rows of A in fixed point.  For many rows,
`widen_panel` writes pieces of B as float32 to memory that stays in the cache.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any, Final

from nnefc.kernels.product.byte_products import byte_sum
from nnefc.kernels.product.fixed_point import BLOCK, CORRECTION, DIGITS, GROUP, SCALE
from nnefc.kernels.product.stored_blocks import (
    IN_FIXED_POINT,
    ITEM,
    block_bytes,
    row_of_block,
    rows_of_block,
    scales_of_columns,
    words_of_codes,
    zeros_of_columns,
)
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.register_tile import TILE_ARGUMENTS, TileEmitter
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.item_types import HALVES
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes, constant, fma
from nnefc.kernels.vector.vector_builder import Vector, vector_function

WIDEN_ARGUMENTS: Final = 5
_AHEAD: Final = 12 << 10
"""Prefetch distance in bytes; hardware prefetchers stop at the end of a page."""
_CHAINS: Final = 4
"""Least number of chains of sums, to hide the latency of a multiply-add."""


def compressed_rows() -> int:
    """Most rows of A of a tile: a row takes a register for all blocks and one for each block."""
    return 8 if host().registers >= 32 else 4


@cache
def compressed_tile(stored: str, heights: tuple[int, ...]) -> Any:
    """Function `tile(m, n, depth, a, a_row, a_step, b, b_row, c, c_row, bias, bias_row, fresh)`.

    As `nnefc.kernels.tile.register_tile.product_tile`, but B is any number of compressed panels,
    `b_row` bytes apart.  Rows of A are contiguous, and in fixed point for `IN_FIXED_POINT`.
    """
    products = partial(_integer_products if stored in IN_FIXED_POINT else _products, stored)
    lanes = lanes_of(ITEM)

    @vector_function(ITEM, lanes, TILE_ARGUMENTS)
    def tile(v: Vector, m, n, depth, a, a_row, _a_step, b, b_row, c, c_row, bias, bias_row, fresh):
        builder = v.builder
        a, b, c, bias = (v.pointer(p) for p in (a, b, c, bias))
        out = builder.append_basic_block("out")
        switch = builder.switch(m, out)
        for height in heights:
            block = builder.append_basic_block(f"rows{height}")
            switch.add_case(v.word(height), block)
            builder.position_at_end(block)
            code = TileEmitter(v, height, 1)
            with v.loop(0, n, lanes, [b, c]) as panel:
                at_b, at_c = panel.values
                sums = products(v, height, depth, a, a_row, at_b)
                left = builder.sub(n, panel.index)
                is_last = builder.icmp_signed("<", left, v.word(lanes))
                some = builder.select(is_last, left, v.word(lanes))
                code.finish(sums, some, at_c, c_row, bias, bias_row, fresh)
                panel.next = [v.at(at_b, b_row), v.at(at_c, v.nbytes)]
            builder.branch(out)
        builder.position_at_end(out)

    return tile


def _products(stored: str, v: Vector, height: int, depth, a, a_row, b) -> list[Any]:
    """Sums of products of `height` rows of A with the columns of a panel."""
    builder = v.builder
    offsets = [builder.mul(a_row, v.word(i)) for i in range(height)]
    chains = max(_CHAINS // height, 1)
    whole = builder.and_(depth, v.word(-BLOCK))
    with v.loop(0, whole, BLOCK, [*[v.zero()] * height, a, b]) as turn:
        *sums, at_a, at_b = turn.values
        v.prefetch(at_b, _AHEAD)
        starts = [v.at(at_a, offset) for offset in offsets]
        parts: list[list[Lanes]] = [[] for _ in range(height)]
        for k, row in enumerate(rows_of_block(v, stored, at_b)):
            for start, chain in zip(starts, parts, strict=True):
                x = v.load_splat(start, 4 * k)
                if k < chains:
                    chain.append(x * row)
                else:
                    chain[k % chains] = fma(x, row, chain[k % chains])
        for chain in parts:
            while len(chain) > 1:
                chain[:] = [x + y for x, y in zip(chain[::2], chain[1::2], strict=True)]
        scale = scales_of_columns(v, stored, at_b)
        sums = [
            total + part if scale is None else fma(part, scale, total)
            for (part,), total in zip(parts, sums, strict=True)
        ]
        turn.next = [*sums, v.at(at_a, 4 * BLOCK), v.at(at_b, block_bytes(stored, v.lanes))]
    if stored not in HALVES:  # blocks are whole
        return turn.values[:height]
    with v.loop(whole, depth, 1, turn.values) as turn:
        *sums, at_a, at_b = turn.values
        row = row_of_block(v, stored, at_b)
        xs = [v.load_splat(v.at(at_a, offset)) for offset in offsets]
        sums = [fma(x, row, total) for x, total in zip(xs, sums, strict=True)]
        turn.next = [*sums, v.at(at_a, 4), v.at(at_b, 2 * v.lanes)]
    return turn.values[:height]


def _integer_products(stored: str, v: Vector, height: int, depth, a, a_row, b) -> list[Any]:
    """As `_products`, for codes of 4 bits and rows of A in fixed point."""
    offsets = [v.builder.mul(a_row, v.word(i)) for i in range(height)]
    nbytes = block_bytes(stored, v.lanes)
    with v.loop(0, depth, BLOCK, [*[v.zero()] * height, a, b]) as turn:
        *totals, at_a, at_b = turn.values
        # every line, because the hardware prefetches little under this load
        v.prefetch_lines(at_b, nbytes, _AHEAD)
        zeros = zeros_of_columns(v, stored, at_b)
        rows = [_RowSums(v, v.at(at_a, offset), zeros) for offset in offsets]
        for group, codes in enumerate(_groups_of_codes(v, stored, at_b)):
            for row in rows:
                row.add(group, codes)
        scale = scales_of_columns(v, stored, at_b)
        assert scale is not None
        turn.next = [
            *(
                fma(row.total(), scale * row.scale(), total)
                for row, total in zip(rows, totals, strict=True)
            ),
            v.at(at_a, 4 * BLOCK),
            v.at(at_b, nbytes),
        ]
    return turn.values[:height]


class _RowSums:
    """Sums of products of a block of a row in fixed point with codes, one per digit.

    `zeros`: zero points of the columns, int32; 8 without it.
    """

    def __init__(self, v: Vector, block: Any, zeros: Lanes | None) -> None:
        self._v, self._block = v, block
        zero, start = constant(v, "int32", 0), self._word(CORRECTION)
        if zeros is not None:
            start = (start >> 3) * zeros
        self._sums = [byte_sum(start), *(byte_sum(zero) for _ in range(1, DIGITS))]

    def _word(self, place: int) -> Lanes:
        return self._v.of("int32").load_splat(self._v.at(self._block, place))

    def add(self, group: int, codes: Lanes) -> None:
        """Add the products of codes with four numbers of the row."""
        for digit, sum_ in enumerate(self._sums):
            sum_.add(codes, self._word(GROUP * group + 4 * digit))

    def total(self) -> Lanes:
        """The sums of products with codes less zero points, as float32, without scales."""
        first, *lower = (sum_.total() for sum_ in reversed(self._sums))
        for sum_ in lower:
            first = (first << 8) + sum_
        return convert(first, ITEM)

    def scale(self) -> Lanes:
        return self._word(SCALE).from_bits()


def _groups_of_codes(v: Vector, stored: str, block: Any) -> Iterator[Lanes]:
    """The codes of a block as bytes, four rows at a time."""
    for words in words_of_codes(v, stored, block):
        yield words & 0x0F0F0F0F
        yield (words >> 4) & 0x0F0F0F0F


@cache
def widen_panel(stored: str) -> Any:
    """Function `widen(depth, n, b, b_row, target)`: columns of compressed panels to float32.

    n is a multiple of a vector's lanes, `b_row` the bytes between panels; target is dense
    [depth, n].
    """
    lanes = lanes_of(ITEM)

    @vector_function(ITEM, lanes, WIDEN_ARGUMENTS)
    def widen(v: Vector, depth, n, b, b_row, target):
        builder = v.builder
        b, target = v.pointer(b), v.pointer(target)
        pitch = builder.mul(n, v.word(v.itemsize))
        whole = builder.and_(depth, v.word(-BLOCK))
        with v.loop(0, n, lanes, [b, target]) as panel:
            with v.loop(0, whole, BLOCK, panel.values) as turn:
                at_b, at = turn.values
                scale = scales_of_columns(v, stored, at_b)
                for row in rows_of_block(v, stored, at_b):
                    (row if scale is None else row * scale).store(at)
                    at = v.at(at, pitch)
                turn.next = [v.at(at_b, block_bytes(stored, lanes)), at]
            if stored in HALVES:
                with v.loop(whole, depth, 1, turn.values) as turn:
                    at_b, at = turn.values
                    row_of_block(v, stored, at_b).store(at)
                    turn.next = [v.at(at_b, 2 * lanes), v.at(at, pitch)]
            at_b, at = panel.values
            panel.next = [v.at(at_b, b_row), v.at(at, v.nbytes)]

    return widen
