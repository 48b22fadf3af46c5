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


class Narrowing:
    """Narrows four vectors of int32 to one vector of an 8-bit type, saturated.

    `added`: an LLVM item of int16, which is added to the items; the sums must not exceed int32.
    `bounds`: LLVM items of the type, the least and the largest result, or none.
    """

    def __init__(self, v: Vector, dtype: str, added: Any, bounds: Sequence[Any]) -> None:
        self._v, self._packs = v, host().packs
        self._bytes = Vector(v.builder, dtype, FOUR * v.lanes)
        self._bounds = [self._bytes.splat(bound) for bound in bounds]
        self._halves = Vector(v.builder, "int16", 2 * v.lanes)
        if self._packs:
            self._added = self._halves.splat(added)
        else:
            self._added = v.splat(v.builder.sext(added, I32))

    def narrowed(self, vectors: Sequence[Lanes]) -> Lanes:
        """The four vectors, one after the other."""
        items = self._packed(vectors) if self._packs else self._converted(vectors)
        return clamp(items, *self._bounds) if self._bounds else items

    def _converted(self, vectors: Sequence[Lanes]) -> Lanes:
        v, dtype = self._v, self._bytes.dtype
        low, high = (constant(v, "int32", bound) for bound in limits(dtype))
        parts = [convert(clamp(x + self._added, low, high), dtype) for x in vectors]
        while len(parts) > 1:
            wide = Vector(v.builder, dtype, 2 * parts[0].v.lanes)
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [shuffle_two(x, y, wide, range(wide.lanes)) for x, y in pairs]
        return parts[0]

    def _packed(self, vectors: Sequence[Lanes]) -> Lanes:
        """By the instructions of `Isa.packs`."""
        v, halves, bytes_ = self._v, self._halves, self._bytes

        def packed(x: Any, y: Any, types: str, kind: Any) -> Any:
            return v.call(self._packs.format(types), kind, x, y)

        adds = f"llvm.sadd.sat.v{halves.lanes}i16"
        first, second = (
            v.call(
                adds,
                halves.type,
                packed(x.value, y.value, "ssdw", halves.type),
                self._added.value,
            )
            for x, y in (vectors[:2], vectors[2:])
        )
        types = "uswb" if bytes_.dtype == "uint8" else "sswb"
        mixed = packed(first, second, types, bytes_.type)
        # each quarter has four bytes of each of the vectors
        quarters = v.lanes // QUARTER
        order = [QUARTER * quarter + each for each in range(FOUR) for quarter in range(quarters)]
        words = shuffle(v.value(v.builder.bitcast(mixed, v.type)), v, order)
        return bytes_.value(v.builder.bitcast(words.value, bytes_.type))
