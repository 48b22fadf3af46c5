"""Products of float32 whose multiply-adds round once, on machines without such an instruction.

Operands become float64, in which their products are exact.  Integers round a sum to the 24 bits of
float32, ties away from zero, so that it stays float64.  That differs from `fma` only at ties, where
the sum may also have been rounded before.  The low bits of a tie are one pattern, which becomes the
least integer when it is shifted.  If a block of sums meets it, or if exponents do not exclude sums
that are subnormal or infinite in float32, the block is computed again by `fma`.

A factor of 1, the largest exponential of a softmax, makes ties likely: it adds two float32.
Columns of A with such an item are marked, and ties in them that float64 did not round become even.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, reduce
from typing import Any, Final

from nnefc.kernels.codegen.exact_multiply_add import ROUNDS_ONCE
from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.tile.panels import part_start
from nnefc.kernels.tile.register_tile import CHAIN, local_bytes
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.lane_builder import LaneBuilder, lanes_of
from nnefc.kernels.vector.lanes import Lanes, fma, select
from nnefc.kernels.vector.llvm_types import I1, I32, I64
from nnefc.kernels.vector.memory import LOAD, WORD, helper, native
from nnefc.kernels.vector.rows import along, item_pointer
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

_ITEM: Final = "float32"
_WIDE: Final = "float64"
_DROPPED: Final = 29
"""Bits of a float64 behind those of a float32."""
_ROWS: Final = 4
"""Most rows of a block, whose sums fit into the registers."""
_MOST_VECTORS: Final = 8
"""Most vectors of a panel."""
_ROW_BYTES: Final = 8 * CHAIN
_RANGE_BYTES: Final = 16
_MARK_BYTES: Final = 4 * CHAIN
_LEAST_EXPONENTS: Final = 151
"""Least sum of two biased exponents whose products are multiples of 2**-149."""
_MOST_EXPONENTS: Final = 370
"""Largest sum of two biased exponents such that `CHAIN` products add up to less than 2**127."""


@native(WORD)
def rounds_once(builder):
    """1 if multiply-adds of float32 round once in this kernel, else 0; known to the compiler."""
    return builder.zext(LaneBuilder(builder, 1).call(ROUNDS_ONCE, I1), I64)


@cache
def _row_product() -> Any:
    """Helper `multiply(height, depth, a, a_range, marks, b, b_range, n, c, c_row, fresh)`."""
    lanes, load, block = lanes_of(_ITEM), LOAD[WORD], _block()

    @helper
    def multiply(height, depth, a, a_range, marks, b, b_range, n, c, c_row, fresh):
        """Multiply the rows of a block by a panel of n columns, both float64."""
        most = load(a_range) + load(b_range)
        least = load(a_range + 8) + load(b_range + 8)
        is_sure = 1 if most <= _MOST_EXPONENTS and least >= _LEAST_EXPONENTS else 0
        b_row = (n + lanes - 1) // lanes * 8 * lanes
        for x in range(0, n, lanes):
            at, target = b + 8 * x, c + 4 * x
            block(height, depth, a, at, b_row, marks, is_sure, target, c_row, n - x, fresh)

    return multiply


@cache
def exact_panel_product(tiled: Any, most_rows: int) -> Any:
    """Helper `multiply` as `tiled`, `panel_product` of attention; exact in exact kernels.

    Rows of A, at most `most_rows`, stay float64 for the next panel if a chain covers the depth.
    """
    blocks = -(-most_rows // _ROWS)
    rows = local_bytes(most_rows * _ROW_BYTES)
    panel = local_bytes(_MOST_VECTORS * lanes_of(_ITEM) * _ROW_BYTES)
    ranges, marks = local_bytes((blocks + 1) * _RANGE_BYTES), local_bytes(blocks * _MARK_BYTES)
    widen_rows, widen_panel, multiply_rows = _widen_rows(), _widen_panel(), _row_product()

    @helper
    def multiply(
        m,
        parts,
        i_first,
        i_end,
        tile,
        a,
        a_row,
        a_step,
        depth,
        b,
        b_row,
        c,
        c_row,
        n,
        fresh,
        zero,
        first_seen,
        depth_seen,
        is_new,
    ):
        if not rounds_once():
            tiled(
                *(m, parts, i_first, i_end, tile, a, a_row, a_step, depth, b, b_row, c, c_row),
                *(n, fresh, zero, first_seen, depth_seen, is_new),
            )
            return
        count = part_start(i_end, m, parts) - part_start(i_first, m, parts)
        a_first, b_wide, b_range, first_marks = rows(), panel(), ranges(), marks()
        for k in range(0, depth, CHAIN):
            is_fresh = 1 if fresh != 0 and k == 0 else 0
            widen_panel(min(CHAIN, depth - k), n, b + k * b_row, b_row, b_wide, b_range)
            for row in range(0, count, _ROWS):
                height = min(count - row, _ROWS)
                some = min(min(depth, depth_seen + row + height) - k, CHAIN)
                if some > 0 and first_seen + row + height > 0:
                    number, a_wide = row // _ROWS, a_first + row * _ROW_BYTES
                    a_marks = first_marks + number * _MARK_BYTES
                    a_range = b_range + (number + 1) * _RANGE_BYTES
                    if is_new or depth > CHAIN:
                        at = a + row * a_row + k * a_step
                        widen_rows(height, some, at, a_row, a_step, a_wide, a_marks, a_range)
                    multiply_rows(
                        *(height, some, a_wide, a_range, a_marks, b_wide, b_range),
                        *(n, c + row * c_row, c_row, is_fresh),
                    )

    return multiply


class _Range:
    """The exponents of numbers, while they become float64."""

    def __init__(self, v: Vector) -> None:
        self.v = v.of("uint32")

    @property
    def start(self) -> list[Any]:
        return [self.v.zero(), self.v.constant(-1)]

    def extend(self, carried: list[Any], x: Lanes) -> list[Any]:
        """The range with the items of a vector; zeros do not matter."""
        largest, least = carried
        doubled = Lanes(self.v, "uint32", x.bits().value) << 1
        before = doubled - 1  # has the exponent of x, or a smaller one; the largest for zero
        return [select(doubled > largest, doubled, largest), select(before < least, before, least)]

    def store(self, carried: list[Any], place: Any) -> None:
        """Store the largest and the least exponent, with the bias of float32, as two words.

        The largest is beyond all limits if an item is not finite.
        """
        v, b = self.v, self.v.builder
        words: list[Any] = []
        for kind, x in zip(("umax", "umin"), carried, strict=True):
            item = v.call(f"llvm.vector.reduce.{kind}.v{v.lanes}i32", I32, x.value)
            words.append(b.zext(b.lshr(item, I32(24)), I64))
        is_finite = b.icmp_unsigned("<", words[0], I64(255))
        words[0] = b.select(is_finite, words[0], I64(1 << 10))
        for i, word in enumerate(words):
            b.store(word, v.at(place, 8 * i), align=8)


@cache
def _widen_rows() -> Any:
    """Intrinsic `widen(rows, n, x, x_row, x_step, target, marks, range)`: rows as float64.

    Rows of the result are `CHAIN` items apart.  `marks` gets a word of 32 bits per column: whether
    an item is 1.  `range` gets the largest and the least exponent.
    """

    @vector_intrinsic(_ITEM, lanes_of(_ITEM), 8, apart=True)
    def widen(v: Vector, rows, n, x, x_row, x_step, target, marks, place):
        x, target, marks = v.pointer(x), v.pointer(target), v.pointer(marks)
        b, wide, words, found = v.builder, v.of(_WIDE), v.of("int32"), _Range(v)
        is_contiguous = b.icmp_signed("==", x_step, I64(v.itemsize))
        count = b.select(is_contiguous, n, I64(0))

        def column(index, mask, carried):
            """Widen a vector of items of each row."""
            with v.loop(0, rows, 1, [*carried, words.zero()]) as row:
                at = v.at(x, b.add(b.mul(row.index, x_row), b.mul(index, x_step)))
                items = v.load_splat(at) if mask == 1 else v.load(at, mask=mask)
                result = v.at(target, b.mul(row.index, I64(_ROW_BYTES)))
                result, items_wide = item_pointer(wide, result, index), convert(items, _WIDE)
                if mask == 1:
                    wide.store_item(b.extract_element(items_wide.value, I32(0)), result)
                else:
                    items_wide.store(result, mask=mask)
                *carried, mark = row.values
                ones = b.sext(items.equals(1.0).value, words.type)
                row.next = [*found.extend(carried, items), mark | words.value(ones)]
            *carried, mark = row.values
            at = item_pointer(words, marks, index)
            if mask == 1:
                words.store_item(b.extract_element(mark.value, I32(0)), at)
            else:
                mark.store(at, mask=mask)
            return carried

        carried = along(v, count, found.start, column)
        with v.loop(count, n, 1, carried) as turn:
            turn.next = column(turn.index, 1, turn.values)
        found.store(turn.values, v.pointer(place))

    return widen


@cache
def _widen_panel() -> Any:
    """Intrinsic `widen(depth, n, b, b_row, target, range)`: a panel of n columns as float64.

    Rows of the result are whole vectors without gaps.  `range` is as for `_widen_rows`.
    """

    @vector_intrinsic(_ITEM, lanes_of(_ITEM), 6, apart=True)
    def widen(v: Vector, depth, n, b, b_row, target, place):
        b, target, found, builder = v.pointer(b), v.pointer(target), _Range(v), v.builder
        wide = v.of(_WIDE)
        vectors = builder.sdiv(builder.add(n, I64(v.lanes - 1)), I64(v.lanes))
        pitch = builder.mul(vectors, I64(wide.nbytes))
        with v.loop(0, depth, 1, found.start) as row:
            source = v.at(b, builder.mul(row.index, b_row))
            result = v.at(target, builder.mul(row.index, pitch))

            def items(index, mask, carried):
                value = v.load(item_pointer(v, source, index))
                if mask is not None:
                    value = select(mask, value, 0.0)
                convert(value, _WIDE).store(item_pointer(wide, result, index))
                return found.extend(carried, value)

            row.next = along(v, n, row.values, items)
        found.store(row.values, v.pointer(place))

    return widen


@cache
def _block() -> Any:
    """Intrinsic `block(height, depth, a, b, b_row, marks, is_sure, c, c_row, n, fresh)`.

    Products of up to 4 rows and a vector.  Their sums are added to 0 if `fresh`, else to C, of
    which the first n columns are read and written.  Rows of A are `CHAIN` items apart.  `is_sure`:
    whether all sums are within the range of float32.
    """

    @vector_intrinsic(_ITEM, lanes_of(_ITEM), 11, apart=True)
    def block(v: Vector, height, depth, a, b, b_row, marks, is_sure, c, c_row, n, fresh):
        a, b, c, marks, builder = *map(v.pointer, (a, b, c, marks)), v.builder
        given = _Operands(v, a, b, b_row)
        slow, end = (builder.append_basic_block(name) for name in ("slow", "end"))
        switch = builder.switch(builder.mul(height, is_sure), slow)
        for rows in range(1, _ROWS + 1):
            case = builder.append_basic_block(f"rows{rows}")
            switch.add_case(I64(rows), case)
            builder.position_at_end(case)
            _quick_sums(v, rows, depth, marks, given, slow)
            builder.branch(end)
        builder.position_at_end(slow)
        _slow_sums(v, height, depth, given)
        builder.branch(end)
        builder.position_at_end(end)
        _add_sums(v, height, given, c, c_row, n, fresh)

    return block


class _Operands:
    """A in rows of float64, B in vectors of float64, and memory for the sums of a block."""

    def __init__(self, v: Vector, a, b, b_row) -> None:
        self.wide, self.a, self.b, self.b_row = v.of(_WIDE), a, b, b_row
        self.sums = v.local(ir.ArrayType(self.wide.type, _ROWS))

    def part(self, index) -> Lanes:
        """Row `index` of B."""
        return self.wide.load(self.wide.at(self.b, self.wide.builder.mul(index, self.b_row)))

    def products(self, index, rows: int) -> Iterator[Lanes]:
        """The products of a step, row by row."""
        part, at = self.part(index), item_pointer(self.wide, self.a, index)
        for i in range(rows):
            yield self.wide.load_splat(at, _ROW_BYTES * i) * part

    def sum_at(self, row) -> Any:
        """Pointer to the sums of a row."""
        return self.wide.at(self.sums, self.wide.builder.mul(row, I64(self.wide.nbytes)))


def _slow_sums(v: Vector, height, depth, given: _Operands) -> None:
    """Store sums of any products, by `fma`."""
    wide = given.wide
    for i in range(_ROWS):
        wide.zero().store(given.sum_at(I64(i)))
    with v.loop(0, depth, 1) as turn:
        part, column = (
            convert(given.part(turn.index), _ITEM),
            item_pointer(wide, given.a, turn.index),
        )
        with v.loop(0, height, 1) as row:
            x = wide.load_splat(v.at(column, v.builder.mul(row.index, I64(_ROW_BYTES))))
            place = given.sum_at(row.index)
            total = fma(convert(x, _ITEM), part, convert(wide.load(place), _ITEM))
            convert(total, _WIDE).store(place)


def _quick_sums(v: Vector, rows: int, depth, marks, given: _Operands, slow) -> None:
    """Store sums of products within the range of float32; go to `slow` if one is unsure."""
    b, wide, words = v.builder, given.wide, v.of("int32")
    with v.loop(0, depth, 1, [wide.zero()] * rows) as turn:
        mark = words.load_item(item_pointer(words, marks, turn.index))
        results: list[tuple[Any, list[Lanes]]] = []
        with b.if_else(b.icmp_signed("!=", mark, I32(0)), likely=False) as branches:
            for branch, sums_of in zip(branches, (_likely_ties, _unlikely_ties), strict=True):
                with branch:
                    values, unsure = sums_of(given.products(turn.index, rows), turn.values)
                    name = f"llvm.vector.reduce.or.v{v.lanes}i1"
                    after = b.append_basic_block("after")
                    branched = b.cbranch(v.call(name, I1, unsure.value), slow, after)
                    branched.set_weights([1, 1 << 10])
                    b.position_at_end(after)
                    results.append((b.block, values))
        for i in range(rows):
            phi = b.phi(wide.type)
            for block, values in results:
                phi.add_incoming(values[i].value, block)
            turn.next[i] = wide.value(phi)
    for i, value in enumerate(turn.values):
        value.store(given.sum_at(I64(i)))


def _unlikely_ties(products: Iterator[Lanes], values: list[Lanes]) -> tuple[list[Lanes], Lanes]:
    """(sums after a step, whether one is a tie)."""
    result: list[Lanes] = []
    lasts: list[Lanes] = []
    for product, value in zip(products, values, strict=True):
        bits = (value + product).bits()
        # a tie becomes the least integer
        lasts.append(convert(bits, "int32") << (32 - _DROPPED))
        result.append(((bits + (1 << (_DROPPED - 1))) & -(1 << _DROPPED)).from_bits())
    return result, reduce(lambda x, y: select(x < y, x, y), lasts).equals(-(1 << 31))


def _likely_ties(products: Iterator[Lanes], values: list[Lanes]) -> tuple[list[Lanes], Lanes]:
    """(sums after a step, whether one is a tie that was rounded before, by Knuth's TwoSum)."""
    result: list[Lanes] = []
    unsure: list[Lanes] = []
    for product, value in zip(products, values, strict=True):
        total = value + product
        added = total - value
        error = (value - (total - added)) + (product - added)
        last = total.bits() & ((1 << _DROPPED) - 1)
        unsure.append(last.equals(1 << (_DROPPED - 1)) & error.differs(0.0))
        result.append(convert(convert(total, _ITEM), _WIDE))
    return result, reduce(lambda x, y: x | y, unsure)


def _add_sums(v: Vector, height, given: _Operands, c, c_row, n, fresh) -> None:
    """Add the sums to 0 if `fresh`, else to C."""
    builder = v.builder
    is_fresh = builder.icmp_signed("!=", fresh, I64(0))
    count = builder.select(builder.icmp_signed("<", n, I64(v.lanes)), n, I64(v.lanes))
    with v.loop(0, height, 1) as row:
        target = v.at(c, builder.mul(row.index, c_row))
        value = convert(given.wide.load(given.sum_at(row.index)), _ITEM)

        def add(_index, mask, _carried):
            with builder.if_else(is_fresh) as (first, later):
                with first:
                    (value + 0.0).store(target, mask=mask)
                with later:
                    (v.load(target, mask=mask) + value).store(target, mask=mask)
            return []

        along(v, count, [], add)
