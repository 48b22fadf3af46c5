"""Vectors from memory and to it, all lanes or some."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from nnefc.kernels.vector.builder import Vector
from nnefc.kernels.vector.item_types import BITS
from nnefc.kernels.vector.lanes import Lanes, suffix, vector_type
from nnefc.kernels.vector.llvm_types import I8, I32, I64, memory_type


def mask(v: Vector, count: Any) -> Any:
    """The first `count` lanes (a 64-bit integer, any value), as an LLVM vector of i1."""
    kind = ir.VectorType(I32, v.lanes)
    few = v.builder.select(v.builder.icmp_signed("<", count, I64(v.lanes)), count, I64(v.lanes))
    some = v.builder.select(v.builder.icmp_signed(">", few, I64(0)), few, I64(0))
    limit = splat(v, "int32", v.builder.trunc(some, I32)).value
    numbers = ir.Constant(kind, list(range(v.lanes)))
    return v.builder.icmp_signed("<", numbers, limit)


def splat(v: Vector, dtype: str, item: Any) -> Lanes:
    """An item (i8 for bool, as it is in memory) in every lane."""
    if dtype == "bool":
        item = v.builder.icmp_unsigned("!=", item, I8(0))
    kind = vector_type(v, dtype)
    undefined = ir.Constant(kind, ir.Undefined)
    first = v.builder.insert_element(undefined, item, I32(0))
    zeros = ir.Constant(ir.VectorType(I32, v.lanes), None)
    return Lanes(v, dtype, v.builder.shuffle_vector(first, undefined, zeros))


def load_item(v: Vector, dtype: str, pointer: Any) -> Lanes:
    """The item at `pointer` in every lane."""
    kind = memory_type(dtype)
    return splat(v, dtype, v.builder.load(pointer, typ=kind, align=BITS[dtype] // 8))


def load(v: Vector, dtype: str, pointer: Any, mask: Any = None) -> Lanes:
    """Contiguous items; only those of `mask` (an LLVM vector of i1) are read, 0 for the others.

    A bool is any byte that is not 0.
    """
    kind, align = ir.VectorType(memory_type(dtype), v.lanes), BITS[dtype] // 8
    if mask is None:
        value = v.builder.load(pointer, typ=kind, align=align)
    else:
        name = f"llvm.masked.load.{suffix(v, dtype)}.p0"
        value = v.call(name, kind, pointer, I32(align), mask, ir.Constant(kind, None))
    if dtype == "bool":
        value = v.builder.icmp_unsigned("!=", value, ir.Constant(kind, None))
    return Lanes(v, dtype, value)


def store(x: Lanes, pointer: Any, mask: Any = None, *, stream: int = 0) -> None:
    """Contiguous items; only those of `mask` are written.

    `stream`: if not 0, past the caches; `pointer` is aligned to so many bytes.
    """
    v, value, align = x.v, x.value, BITS[x.dtype] // 8
    if x.dtype == "bool":
        value = v.builder.zext(value, ir.VectorType(I8, v.lanes))
    if mask is not None:
        name = f"llvm.masked.store.{suffix(v, x.dtype)}.p0"
        v.call(name, ir.VoidType(), value, pointer, I32(align), mask)
        return
    if stream:
        v.stream(value, pointer, align=stream)
    else:
        v.builder.store(value, pointer, align=align)


def in_parts(function: Callable[..., Lanes], lanes: int, *operands: Lanes) -> Lanes:
    """`function(*operands)`, a float32 vector, by a loop over vectors of `lanes` items.

    For long functions of vectors that are several registers wide: less code, and less to spill.
    """
    v = operands[0].v
    if v.lanes <= lanes:
        return function(*operands)
    part = Vector(v.builder, "float32", lanes)
    places = [_local(v, operand.dtype) for operand in operands]
    for operand, place in zip(operands, places, strict=True):
        store(operand, place)
    result = _local(v, "float32")
    with v.loop(0, v.word(v.lanes), lanes) as turn:
        given = [
            load(part, x.dtype, v.at(place, v.builder.mul(turn.index, I64(BITS[x.dtype] // 8))))
            for x, place in zip(operands, places, strict=True)
        ]
        store(function(*given), v.at(result, v.builder.mul(turn.index, I64(4))))
    return load(v, "float32", result)


def _local(v: Vector, dtype: str) -> Any:
    """Pointer to memory for a vector."""
    with v.builder.goto_entry_block():
        memory = v.builder.alloca(ir.VectorType(memory_type(dtype), v.lanes))
    return v.pointer(v.builder.ptrtoint(memory, I64))
