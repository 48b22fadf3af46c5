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

from collections.abc import Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final

from nnefc.kernels.product.byte_products import byte_sum
from nnefc.kernels.product.fixed_point import BLOCK, CORRECTION, DIGITS, GROUP, SCALE
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.register_tile import TILE_ARGUMENTS, TileEmitter
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.item_types import HALVES
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes, constant, fma
from nnefc.kernels.vector.permute import lookup
from nnefc.kernels.vector.vector_builder import Vector, vector_function
from nnefc.support.block_formats import BLOCK_FORMATS

ITEM: Final = "float32"
"""The item type of the arithmetic."""
STORED: Final[Mapping[str, int]] = MappingProxyType(
    {"float16": 64, "bfloat16": 64}
    | {name: kind.packed_bytes for name, kind in BLOCK_FORMATS.items() if name != "q4_0_legacy"}
)
"""Bytes of a block of one column, by storage format (`packing.block_quantized`)."""
IN_FIXED_POINT: Final = frozenset(name for name in STORED if name.startswith("q4_"))
"""The formats for which rows of A are in fixed point, see `nnefc.kernels.product.fixed_point`."""
WIDEN_ARGUMENTS: Final = 5
_AHEAD: Final = 12 << 10
"""Prefetch distance in bytes; hardware prefetchers stop at the end of a page."""
_IN_PLACE: Final = 5
"""Codes of 4 bits that fit into the fraction of a float32."""
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
        for k, row in enumerate(_rows(v, stored, at_b)):
            for start, chain in zip(starts, parts, strict=True):
                x = v.load_splat(start, 4 * k)
                if k < chains:
                    chain.append(x * row)
                else:
                    chain[k % chains] = fma(x, row, chain[k % chains])
        for chain in parts:
            while len(chain) > 1:
                chain[:] = [x + y for x, y in zip(chain[::2], chain[1::2], strict=True)]
        scale = _scale(v, stored, at_b)
        sums = [
            total + part if scale is None else fma(part, scale, total)
            for (part,), total in zip(parts, sums, strict=True)
        ]
        turn.next = [*sums, v.at(at_a, 4 * BLOCK), v.at(at_b, STORED[stored] * v.lanes)]
    if stored not in HALVES:  # blocks are whole
        return turn.values[:height]
    with v.loop(whole, depth, 1, turn.values) as turn:
        *sums, at_a, at_b = turn.values
        row = _row(v, stored, at_b)
        xs = [v.load_splat(v.at(at_a, offset)) for offset in offsets]
        sums = [fma(x, row, total) for x, total in zip(xs, sums, strict=True)]
        turn.next = [*sums, v.at(at_a, 4), v.at(at_b, 2 * v.lanes)]
    return turn.values[:height]


def _integer_products(stored: str, v: Vector, height: int, depth, a, a_row, b) -> list[Any]:
    """As `_products`, for codes of 4 bits and rows of A in fixed point."""
    offsets = [v.builder.mul(a_row, v.word(i)) for i in range(height)]
    nbytes = STORED[stored] * v.lanes
    with v.loop(0, depth, BLOCK, [*[v.zero()] * height, a, b]) as turn:
        *totals, at_a, at_b = turn.values
        # every line, because the hardware prefetches little under this load
        v.prefetch_lines(at_b, nbytes, _AHEAD)
        zeros = _zeros(v, stored, at_b)
        rows = [_RowSums(v, v.at(at_a, offset), zeros) for offset in offsets]
        for group, codes in enumerate(_groups_of_codes(v, stored, at_b)):
            for row in rows:
                row.add(group, codes)
        scale = _scale(v, stored, at_b)
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
    for words in _words_of_codes(v, stored, block):
        yield words & 0x0F0F0F0F
        yield (words >> 4) & 0x0F0F0F0F


def _words_of_codes(v: Vector, stored: str, block: Any) -> list[Lanes]:
    """Vectors whose lanes hold 8 codes of a column."""
    head = BLOCK_FORMATS[stored].packed_head
    places = (v.at(block, (head + 4 * number) * v.lanes) for number in range(4))
    return [v.of("int32").load(place) for place in places]


def _rows(v: Vector, stored: str, block: Any) -> Iterator[Lanes]:
    """The rows of a block as float32, without the scales of their columns."""
    if stored in IN_FIXED_POINT:
        widen, zeros = _codes_of_4_bits(v), _zeros(v, stored, block)
        shift = None if zeros is None else convert(zeros - 8, ITEM)
        for words in _words_of_codes(v, stored, block):
            for number in range(8):
                codes = widen(words, 2 * (number % 4) + number // 4)
                yield codes if shift is None else codes - shift
    else:
        for k in range(BLOCK):
            yield _row(v, stored, block, k)


def _row(v: Vector, stored: str, block: Any, number: int = 0) -> Lanes:
    """Row `number` of a block of 16-bit or 8-bit items, as float32."""
    if stored in HALVES:
        return convert(v.of(stored).load(v.at(block, 2 * number * v.lanes)), ITEM)
    head, zeros = BLOCK_FORMATS[stored].packed_head, _zeros(v, stored, block)
    codes = v.of("int8").load(v.at(block, (head + number) * v.lanes))
    return convert(codes if zeros is None else convert(codes, "int32") - zeros, ITEM)


def _scale(v: Vector, stored: str, block: Any) -> Lanes | None:
    """The scales of the columns of a block, or None if the format has none."""
    if stored in HALVES:
        return None
    return convert(v.of(BLOCK_FORMATS[stored].scale).load(block), ITEM)


def _zeros(v: Vector, stored: str, block: Any) -> Lanes | None:
    """The zero points of the columns of a block, int32, or None if the format has none."""
    kind = BLOCK_FORMATS[stored]
    if not kind.has_zero:
        return None
    return convert(v.of("int8").load(v.at(block, kind.scale_bytes * v.lanes)), "int32")


def _codes_of_4_bits(v: Vector) -> Any:
    """`widen(words, number)`: (codes in bits 4 * number to 4 * number + 3) - 8, as float32."""
    find = lookup(v, [code - 8.0 for code in range(16)])

    def by_table(words: Lanes, number: int) -> Lanes:
        assert find is not None
        return find(words >> 4 * number if number else words)

    def in_place(words: Lanes, number: int) -> Lanes:
        # With the exponent at which the last of four fraction bits counts 1, a float is 2 ** e plus
        # their integer value.  This needs neither a shift nor a conversion.
        if number >= _IN_PLACE:
            words, number = words >> 4 * _IN_PLACE, number - _IN_PLACE
        base = 2.0 ** (23 - 4 * number)
        bits = (words & (15 << 4 * number)) | (150 - 4 * number) << 23
        return Lanes(v, "int32", bits.value).from_bits() - (base + 8.0)

    return in_place if find is None else by_table


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
                scale = _scale(v, stored, at_b)
                for row in _rows(v, stored, at_b):
                    (row if scale is None else row * scale).store(at)
                    at = v.at(at, pitch)
                turn.next = [v.at(at_b, STORED[stored] * lanes), at]
            if stored in HALVES:
                with v.loop(whole, depth, 1, turn.values) as turn:
                    at_b, at = turn.values
                    _row(v, stored, at_b).store(at)
                    turn.next = [v.at(at_b, 2 * lanes), v.at(at, pitch)]
            at_b, at = panel.values
            panel.next = [v.at(at_b, b_row), v.at(at, v.nbytes)]

    return widen
