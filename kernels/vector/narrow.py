"""Narrows four vectors of int32 to one vector of bytes, saturated."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.item_types import limits
from nnefc.kernels.vector.lanes import Lanes, clamp, constant, shuffle, shuffle_two
from nnefc.kernels.vector.llvm_types import I32
from nnefc.kernels.vector.vector_builder import Vector

FOUR: Final = 4
"""Vectors of int32 that fill one of bytes."""
QUARTER: Final = 4
"""Items of int32 of 128 bits."""


def narrowed(v: Vector, vectors: Sequence[Lanes], added: Any, dtype: str) -> Lanes:
    """Four vectors of int32 plus `added`, one after the other, saturated to an 8-bit type.

    `added`: an LLVM item of int16.  Its sums with the items must not exceed int32.
    """
    if host().packs:
        return _packed(v, vectors, added, dtype)
    number = v.splat(v.builder.sext(added, I32))
    low, high = (constant(v, "int32", bound) for bound in limits(dtype))
    parts = [convert(clamp(x + number, low, high), dtype) for x in vectors]
    while len(parts) > 1:
        wide = Vector(v.builder, dtype, 2 * parts[0].v.lanes)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [shuffle_two(x, y, wide, range(wide.lanes)) for x, y in pairs]
    return parts[0]


def _packed(v: Vector, vectors: Sequence[Lanes], added: Any, dtype: str) -> Lanes:
    """`narrowed` by the instructions of `Isa.packs`."""
    b, name, halves = v.builder, host().packs, Vector(v.builder, "int16", 2 * v.lanes)
    bytes_ = Vector(b, dtype, FOUR * v.lanes)

    def packed(x: Any, y: Any, types: str, kind: Any) -> Any:
        return v.call(name.format(types), kind, x, y)

    number = halves.splat(added).value
    adds = f"llvm.sadd.sat.v{halves.lanes}i16"
    first, second = (
        v.call(adds, halves.type, packed(x.value, y.value, "ssdw", halves.type), number)
        for x, y in (vectors[:2], vectors[2:])
    )
    mixed = packed(first, second, "uswb" if dtype == "uint8" else "sswb", bytes_.type)
    # each quarter has four bytes of each of the vectors
    quarters = v.lanes // QUARTER
    order = [QUARTER * quarter + each for each in range(FOUR) for quarter in range(quarters)]
    words = shuffle(v.value(b.bitcast(mixed, v.type)), v, order)
    return bytes_.value(b.bitcast(words.value, bytes_.type))
