"""Permutes the lanes of two vectors by an order that is known at run time."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes, shuffle, shuffle_two, vector_type
from nnefc.kernels.vector.llvm_types import I8, I32, I64
from nnefc.kernels.vector.vector_builder import Vector

SHORT: Final = 16
"""Bytes that `Isa.short_shuffle` looks up."""
Permute = Callable[[Lanes, Lanes], Lanes]
"""`permute(x, y)`: lane i is item order[i] of the concatenation of x and y, 0 if order[i] < 0."""


def permute(v: Vector, order: Any) -> Permute:
    """A permutation of vectors; `order` is an LLVM vector of int32 below 2 * lanes.

    Whole vectors of items of 4 bytes, as many of 2 bytes, and up to 16 bytes are permuted in
    registers, others through memory.
    """
    isa = host()
    if v.itemsize == 1 and v.lanes <= SHORT:
        return _of_codes(v, order, isa.short_shuffle)
    if v.itemsize == 2 and v.lanes == lanes_of("float32"):
        return _of_wide(v, permute(v.of("float32"), order))
    if v.itemsize != 4 or v.lanes != lanes_of(v.dtype):
        return _in_memory(v, order)
    name = isa.permute
    if "pshuf" in name or "tbl" in name:
        return _of_bytes(v, order, name)
    return _of_lanes(v, order, name)


def _of_lanes(v: Vector, order: Any, name: str) -> Permute:
    """A permutation by an instruction on the lanes of two vectors, or of one.

    The instruction takes float32 items, and reads only the low bits of an index.
    """
    builder, floats = v.builder, vector_type(v, "float32")

    def at_least(number: int) -> Any:
        return builder.icmp_signed(">=", order, ir.Constant(order.type, [number] * v.lanes))

    there, second = at_least(0), at_least(v.lanes)

    def permuted(x: Lanes, y: Lanes) -> Lanes:
        low, high = (builder.bitcast(each.value, floats) for each in (x, y))
        if "permi2var" in name:
            mixed = v.call(name, floats, low, order, high)
        else:
            low, high = (v.call(name, floats, each, order) for each in (low, high))
            mixed = builder.select(second, high, low)
        return v.value(builder.select(there, builder.bitcast(mixed, v.type), v.zero().value))

    return permuted


def _of_wide(v: Vector, wide: Permute) -> Permute:
    """A permutation of items of 2 bytes as the lower halves of float32."""
    builder, floats = v.builder, v.of("float32")
    words = ir.VectorType(I32, v.lanes)

    def widened(x: Lanes) -> Lanes:
        return floats.value(builder.bitcast(builder.zext(x.value, words), floats.type))

    def permuted(x: Lanes, y: Lanes) -> Lanes:
        found = builder.bitcast(wide(widened(x), widened(y)).value, words)
        return v.value(builder.trunc(found, v.type))

    return permuted


def _of_bytes(v: Vector, order: Any, name: str) -> Permute:
    """A permutation by an instruction on the bytes of two vectors, or of one.

    An index out of range gives 0.  On x86 that is an index with the highest bit set; others wrap.
    """
    builder, kind = v.builder, ir.VectorType(I8, 4 * v.lanes)
    negative = builder.ashr(order, ir.Constant(order.type, [31] * v.lanes))
    four = ir.Constant(order.type, [0x04040404] * v.lanes)
    parts = ir.Constant(order.type, [0x03020100] * v.lanes)
    absent = builder.bitcast(negative, kind)
    bytes_ = builder.bitcast(builder.add(builder.mul(order, four), parts), kind)

    def shifted(distance: int) -> Any:
        moved = builder.add(bytes_, ir.Constant(kind, [distance % 256] * kind.count))
        return builder.or_(moved, absent)

    # the highest bit marks bytes of the other vector
    first, second = shifted(128 - v.nbytes), shifted(-v.nbytes)

    def permuted(x: Lanes, y: Lanes) -> Lanes:
        low, high = (builder.bitcast(each.value, kind) for each in (x, y))
        if "tbl2" in name:
            found = v.call(name, kind, low, high, shifted(0))
        else:
            found = builder.or_(v.call(name, kind, low, first), v.call(name, kind, high, second))
        return v.value(builder.bitcast(found, v.type))

    return permuted


def _of_codes(v: Vector, order: Any, name: str) -> Permute:
    """A permutation of items of a byte by `Isa.short_shuffle`."""
    builder, wide = v.builder, Vector(v.builder, v.dtype, SHORT)
    bytes_ = v.value(builder.trunc(order, v.type))
    absent = v.value(builder.ashr(bytes_.value, v.constant(7).value))

    def numbers(distance: int) -> Lanes:
        """The indices plus a distance; the highest bit marks bytes of the other vector."""
        return _lengthened(bytes_ + distance % 256 | absent, wide)

    def find(numbers: Lanes, *tables: Lanes) -> Lanes:
        values = [_lengthened(table, wide).value for table in tables]
        return wide.value(v.call(name, wide.type, *values, numbers.value))

    def permuted(x: Lanes, y: Lanes) -> Lanes:
        if "tbl2" in name and v.lanes == SHORT:
            return find(numbers(0), x, y)
        if 2 * v.lanes <= SHORT:
            both = shuffle_two(x, y, v.resized(2 * v.lanes), range(2 * v.lanes))
            found = find(numbers(0), *[both] * (2 if "tbl2" in name else 1))
        else:
            found = find(numbers(128 - v.lanes), x) | find(numbers(-v.lanes), y)
        return shuffle(found, v, range(v.lanes))

    return permuted


def _lengthened(x: Lanes, v: Vector) -> Lanes:
    """x with the lanes of `v`, the last of which are any."""
    lanes = x.v.lanes
    return x if lanes == v.lanes else shuffle(x, v, [i % lanes for i in range(v.lanes)])


def _in_memory(v: Vector, order: Any) -> Permute:
    builder, memory = v.builder, v.local(ir.ArrayType(v.type, 2))

    def item(lane: int) -> Any:
        number = builder.sext(builder.extract_element(order, I32(lane)), I64)
        there = builder.icmp_signed(">=", number, v.word(0))
        place = builder.mul(builder.select(there, number, v.word(0)), v.word(v.itemsize))
        return builder.select(there, v.load_item(memory, place), v.item(0))

    def permuted(x: Lanes, y: Lanes) -> Lanes:
        x.store(memory)
        y.store(memory, v.nbytes)
        return v.gather(map(item, range(v.lanes)))

    return permuted


def lookup(v: Vector, table: Sequence[float]) -> Callable[[Lanes], Lanes] | None:
    """A function `find(numbers)`: item `number % 16` of a table of 16 items, for each int32 lane.

    None if this machine has no such instruction.
    """
    name = host().lookup
    if not name or v.lanes != len(table):
        return None
    items = ir.Constant(v.type, list(table))
    return lambda numbers: v.value(v.call(name, v.type, items, numbers.value))
