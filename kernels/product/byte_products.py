"""Sums of products of bytes, four to a lane of int32.

    sum[lane] = start[lane] + sum over terms, and over j < 4, of codes[lane][j] * digits[lane][j]

Codes are below 16, digits are signed; both are bytes in vectors of int32.  Sums are exact: up to
`TERMS` terms fit into 16 bits, in which machines without a 32-bit dot product add.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.dot_words import DotInstruction, vector_items
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.llvm_types import I32

TERMS: Final = 8
"""Most terms of a sum: 8 terms of 2 products of at most 15 * 128 are less than 2^15."""


class ByteSum(Protocol):
    """A sum to which terms are added."""

    def add(self, codes: Lanes, digits: Lanes) -> None:
        """Add the products of two vectors of bytes."""
        ...

    def total(self) -> Lanes:
        """The sums, int32."""
        ...


def byte_sum(start: Lanes) -> ByteSum:
    """A sum that begins at `start` (int32), with the best instructions of the machine."""
    isa = host()
    if isa.byte_dot:
        return _Dots(start, DotInstruction(isa.byte_dot))
    return _Pairs(start, isa.byte_pairs) if isa.byte_pairs else _Halves(start)


class _Dots:
    """A sum by an instruction that adds four products to 32 bits."""

    def __init__(self, start: Lanes, dot: DotInstruction) -> None:
        self._sum, self._dot = start, dot

    def add(self, codes: Lanes, digits: Lanes) -> None:
        self._sum = self._dot.add(self._sum, self._dot.codes(codes), [digits])

    def total(self) -> Lanes:
        return self._sum


class _Pairs:
    """A sum by an instruction that adds two products in 16 bits."""

    def __init__(self, start: Lanes, name: str) -> None:
        self._start, self._name = start, name
        self._sum = ir.Constant(_kind(start.v, 16), None)

    def add(self, codes: Lanes, digits: Lanes) -> None:
        v = codes.v
        bytes_ = (vector_items(v, x.value, 8) for x in (codes, digits))
        self._sum = v.builder.add(self._sum, v.call(self._name, self._sum.type, *bytes_))

    def total(self) -> Lanes:
        return self._start + _sums_of_pairs(self._start, self._sum)


class _Halves:
    """A sum by multiplications of 16 bits, one for each half of the bytes."""

    def __init__(self, start: Lanes) -> None:
        self._start = start
        self._sums: list[Any] = [ir.Constant(_kind(start.v, 16), None)] * 2

    def add(self, codes: Lanes, digits: Lanes) -> None:
        v, b = codes.v, codes.v.builder
        count = 2 * v.lanes
        for half in range(2):
            order = range(half * count, (half + 1) * count)
            bytes_ = [vector_items(v, x.value, 8) for x in (codes, digits)]
            wide = [b.sext(_shuffled(v, x, x, order), _kind(v, 16)) for x in bytes_]
            self._sums[half] = b.add(self._sums[half], b.mul(*wide))

    def total(self) -> Lanes:
        v, count = self._start.v, 4 * self._start.v.lanes
        x, y = self._sums
        even, odd = (_shuffled(v, x, y, range(first, count, 2)) for first in range(2))
        return self._start + _sums_of_pairs(self._start, v.builder.add(even, odd))


def _sums_of_pairs(like: Lanes, items: Any) -> Lanes:
    """The sum of the two 16-bit integers of each lane."""
    pairs = like.same(vector_items(like.v, items, 32))
    return ((pairs << 16) >> 16) + (pairs >> 16)


def _kind(v: LaneBuilder, bits: int) -> Any:
    """LLVM type of a vector of 32-bit items as integers of `bits` bits."""
    return ir.VectorType(ir.IntType(bits), 32 * v.lanes // bits)


def _shuffled(v: LaneBuilder, x: Any, y: Any, order: Iterable[int]) -> Any:
    """The vector of items order[i] of the concatenation of x and y."""
    numbers = list(order)
    return v.builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(numbers)), numbers))
