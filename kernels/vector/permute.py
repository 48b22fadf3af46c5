"""Lanes of two vectors in an order that is data."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.builder import Vector
from nnefc.kernels.vector.llvm_types import I8, I32, I64

Permute = Callable[[Any, Any], Any]
"""`permute(x, y)`: lane i is item order[i] of those of x and then y, or 0 if that is negative."""


def permute(v: Vector, order: Any) -> Permute:
    """For float32; `order`: an LLVM vector of int32, less than 2 * lanes.

    Vectors of another length than the machine's go by way of memory.
    """
    isa = host()
    if v.lanes != isa.float32_lanes:
        return _in_memory(v, order)
    name = isa.permute
    if "pshuf" in name or "tbl" in name:
        return _of_bytes(v, order, name)
    return _of_lanes(v, order, name)


def _of_lanes(v: Vector, order: Any, name: str) -> Permute:
    """By an instruction for lanes of two vectors, or of one, which reads last bits of numbers."""
    builder = v.builder

    def at_least(number: int) -> Any:
        return builder.icmp_signed(">=", order, ir.Constant(order.type, [number] * v.lanes))

    there, second = at_least(0), at_least(v.lanes)

    def permuted(x: Any, y: Any) -> Any:
        if "permi2var" in name:
            mixed = v.call(name, v.type, x, order, y)
        else:
            low, high = (v.call(name, v.type, each, order) for each in (x, y))
            mixed = builder.select(second, high, low)
        return builder.select(there, mixed, v.zero())

    return permuted


def _of_bytes(v: Vector, order: Any, name: str) -> Permute:
    """By an instruction for the bytes of two vectors, or of one; of numbers out of range it is 0.

    x86 takes any number for that whose highest bit is set, and the last bits of others.
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

    # of bytes that the other vector has the highest bit is set
    first, second = shifted(128 - v.nbytes), shifted(-v.nbytes)

    def permuted(x: Any, y: Any) -> Any:
        x, y = (builder.bitcast(each, kind) for each in (x, y))
        if "tbl2" in name:
            found = v.call(name, kind, x, y, shifted(0))
        else:
            found = builder.or_(v.call(name, kind, x, first), v.call(name, kind, y, second))
        return builder.bitcast(found, v.type)

    return permuted


def _in_memory(v: Vector, order: Any) -> Permute:
    builder, memory = v.builder, v.local(ir.ArrayType(v.type, 2))

    def permuted(x: Any, y: Any) -> Any:
        v.store(x, memory)
        v.store(y, memory, v.nbytes)
        result = ir.Constant(v.type, ir.Undefined)
        for lane in range(v.lanes):
            number = builder.sext(builder.extract_element(order, I32(lane)), I64)
            there = builder.icmp_signed(">=", number, v.word(0))
            place = builder.mul(builder.select(there, number, v.word(0)), v.word(v.itemsize))
            item = builder.select(there, v.load_item(memory, place), v.item(0.0))
            result = builder.insert_element(result, item, I32(lane))
        return result

    return permuted


def lookup(v: Vector, table: Sequence[float]) -> Callable[[Any], Any] | None:
    """`find(numbers)`: of each lane item `number % 16` of a table of 16, for vectors of int32.

    None where no instruction of this machine has so long a table.
    """
    name = host().lookup
    if not name or v.lanes != len(table):
        return None
    items = ir.Constant(v.type, list(table))
    return lambda numbers: v.call(name, v.type, items, numbers)
