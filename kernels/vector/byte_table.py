"""Looks up bytes in a table of 256 bytes, by instructions that permute 16 to 128 bytes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.llvm_types import I8, I64
from nnefc.kernels.vector.vector_builder import Vector

PART: Final = 16
"""Bytes of a part of the table that one instruction of most instruction sets permutes."""
_PARTS: Final = 16
_PARTS_OF_HALF: Final = 8
LookUp = Callable[[Sequence[Any]], list[Any]]
"""`look_up(indices)`: the bytes of the table at vectors of unsigned bytes."""


def byte_table(v: Vector, table: Any) -> LookUp | None:
    """The lookup in the 256 bytes at the pointer `table`; None without such an instruction.

    `v`: vectors of bytes that fill a register.
    """
    isa = host()
    if isa.byte_permute:
        return _of_halves(v, table, isa.byte_permute)
    if "tbl4" in isa.byte_shuffle:
        return _of_quarters(v, table, isa.byte_shuffle)
    if not isa.byte_shuffle:
        return None
    selects = "avx512" in isa.permute  # by a mask, in one instruction
    return (_of_parts if selects else _of_differences)(v, table, isa.byte_shuffle)


def _of_halves(v: Vector, table: Any, name: str) -> LookUp:
    """By an instruction on two vectors of 64 bytes, which reads seven bits of an index."""
    quarters = [v.load(table, i * v.nbytes).value for i in range(4)]

    def look_up(indices: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for x in indices:
            low, high = (
                v.call(name, v.type, a, x, b) for a, b in zip(quarters[::2], quarters[1::2])
            )
            found.append(_selected(v, x, 0, low, high))
        return found

    return look_up


def _of_quarters(v: Vector, table: Any, name: str) -> LookUp:
    """By an instruction on four vectors of 16 bytes; an index out of range gives 0."""
    parts = [v.load(table, i * PART).value for i in range(16)]
    builder = v.builder

    def look_up(indices: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for x in indices:
            total = v.zero().value
            for i in range(4):
                moved = builder.sub(x, _every(v, 64 * i))
                total = builder.or_(total, v.call(name, v.type, *parts[4 * i : 4 * i + 4], moved))
            found.append(total)
        return found

    return look_up


def _of_parts(v: Vector, table: Any, name: str) -> LookUp:
    """By an instruction on 16 bytes, which reads four bits of an index below 128.

    All 16 parts of the table are looked up, and results are selected by the other bits.
    """
    builder, few = v.builder, Vector(v.builder, v.dtype, PART)
    repeated = ir.Constant(
        ir.VectorType(ir.IntType(32), v.lanes), [i % PART for i in range(v.lanes)]
    )

    def part(number: int) -> Any:
        """A part of the table in each 16 bytes of a vector; loaded where it is used."""
        loaded = few.load(table, number * PART).value
        return builder.shuffle_vector(loaded, loaded, repeated) if v.lanes > PART else loaded

    def chosen(first: int, bit: int, indices: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The results from the parts `first` on, by the bits of the indices from `bit` on."""
        if bit == 4:
            bytes_ = part(first)
            return [v.call(name, v.type, bytes_, x) for x in given]
        half = 1 << 3 - bit
        low = chosen(first, bit + 1, indices, given)
        if bit == 0:  # indices from 128 on give 0
            given = [builder.xor(x, _every(v, 128)) for x in indices]
        high = chosen(first + half, bit + 1, indices, given)
        return [_selected(v, x, bit, *pair) for x, *pair in zip(indices, low, high, strict=True)]

    return lambda indices: chosen(0, 0, indices, indices)


def _of_differences(v: Vector, table: Any, name: str) -> LookUp:
    """By an instruction on 16 bytes, which reads four bits of an index below 128, and else gives 0.

    Nothing is selected: part i of a half of the table counts for all indices from 16 i on, as its
    difference (exclusive or) from the part before.
    """
    builder, few = v.builder, Vector(v.builder, v.dtype, PART)
    with builder.goto_entry_block():
        room = builder.alloca(ir.ArrayType(few.type, _PARTS))
        room.align = PART
    differences = v.pointer(builder.ptrtoint(room, I64))
    parts = [few.load(table, i * PART).value for i in range(_PARTS)]
    for i, part in enumerate(parts):
        difference = builder.xor(parts[i - 1], part) if i % _PARTS_OF_HALF else part
        few.value(difference).store(differences, i * PART)
    repeated = ir.Constant(
        ir.VectorType(ir.IntType(32), v.lanes), [i % PART for i in range(v.lanes)]
    )

    def look_up(indices: Sequence[Any]) -> list[Any]:
        totals: list[Any] = [v.zero().value] * len(indices)
        for half in range(0, _PARTS, _PARTS_OF_HALF):
            left = [builder.xor(x, _every(v, 128)) for x in indices] if half else list(indices)
            for i in range(half, half + _PARTS_OF_HALF):
                loaded = few.load(differences, i * PART).value
                bytes_ = builder.shuffle_vector(loaded, loaded, repeated)
                for k, x in enumerate(left):
                    # saturated: what is negative stays so, and gives 0
                    moved = (
                        v.call(f"llvm.ssub.sat.v{v.lanes}i8", v.type, x, _every(v, PART))
                        if i > half
                        else x
                    )
                    left[k] = moved
                    totals[k] = builder.xor(totals[k], v.call(name, v.type, bytes_, moved))
        return totals

    return look_up


def _selected(v: Vector, x: Any, bit: int, low: Any, high: Any) -> Any:
    """`high` where bit 7 - `bit` of x is set, else `low`."""
    moved = v.builder.shl(x, _every(v, bit)) if bit else x
    return v.builder.select(v.builder.icmp_signed("<", moved, v.zero().value), high, low)


def _every(v: Vector, number: int) -> Any:
    """A number in every byte."""
    return ir.Constant(v.type, [I8(number & 255).constant] * v.lanes)
