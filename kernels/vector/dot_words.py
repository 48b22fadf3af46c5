"""Dot products of words: four codes of a lane times four weights, added to a lane of int32.

    sums[lane] += sum over j < 4 of codes[lane][j] * weights[lane][j]

Codes are bytes of the type `Isa.codes`, weights are int8.  Sums are exact and wrap around, for all
codes and weights: no instruction used here saturates.  So all instruction sets give the same bits.

Weights are packed as the instructions read them.  A vector of words of weights takes `planes`
vectors of items `weights`; plane p has the weights p, p + planes, ... of each word.

Words may also be pairs of int16, multiplied with pairs of int16: `pair_dot`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.lane_builder import LaneBuilder
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.llvm_types import I32

WORD_CODES: Final = 4
"""Codes of a word."""
PAIR_ITEM: Final = "int16"
"""Type of the numbers of pairs."""
WORD_PAIR: Final = 2
"""Numbers of 16 bits of a word."""
WordKind = Literal["codes", "pairs"]
"""Four codes, or two numbers of 16 bits."""
WORD_BYTES: Final = 4
"""Bytes of a word, of codes or of other items."""


class WordDot(Protocol):
    """How an instruction set multiplies words."""

    @property
    def sums(self) -> str:
        """Item type of sums."""
        ...

    @property
    def weights(self) -> str:
        """Item type of packed weights."""
        ...

    @property
    def planes(self) -> int:
        """Vectors of packed weights per vector of words."""
        ...

    @property
    def instructions(self) -> int:
        """Instructions of `add` for one vector of sums."""
        ...

    def codes(self, words: Lanes) -> Sequence[Lanes]:
        """Words of codes (int32) as operands of `add`; many products share them."""
        ...

    def add(self, sums: Lanes, codes: Sequence[Lanes], weights: Sequence[Lanes]) -> Lanes:
        """The sums, with the products added; `weights`: one int32 vector per plane."""
        ...

    def planes_of(self, words: Lanes) -> Sequence[Lanes]:
        """Words of four int8 (int32) as packed weights: one int32 vector per plane."""
        ...


def word_dot() -> WordDot:
    """The fastest exact products of this machine."""
    isa = host()
    if isa.byte_dot:
        return DotInstruction(isa.byte_dot, isa.byte_squares)
    return _Pairs(isa.pair_products) if isa.pair_products else _Products()


def pair_dot() -> WordDot:
    """Products of words of two int16, except that a pair of -2^15 with another may wrap around."""
    return PairDot(host().pair_products)


def dot_of(kind: WordKind) -> WordDot:
    """The products of words of a kind."""
    return word_dot() if kind == "codes" else pair_dot()


def word_items(kind: WordKind) -> int:
    """Codes or numbers of a word."""
    return WORD_CODES if kind == "codes" else WORD_PAIR


@dataclass(frozen=True)
class DotInstruction:
    """One instruction that adds four products of bytes."""

    name: str
    squares: str = ""
    """The instruction of `kernels.tile.dot_squares` for pairs of rows, or empty."""
    sums: str = "int32"
    weights: str = "int8"
    planes: int = 1
    instructions: int = 1

    def codes(self, words: Lanes) -> Sequence[Lanes]:
        return [words]

    def add(self, sums: Lanes, codes: Sequence[Lanes], weights: Sequence[Lanes]) -> Lanes:
        v, operands = sums.v, [x.value for x in (*codes, *weights)]
        if "aarch64" in self.name:
            operands = [vector_items(v, x, 8) for x in operands]
        return sums.same(v.call(self.name, sums.value.type, sums.value, *operands))

    def planes_of(self, words: Lanes) -> Sequence[Lanes]:
        return [words]


@dataclass(frozen=True)
class _Pairs:
    """An instruction that adds two products of 16 bits in 32 bits, for unsigned codes.

    Products of pairs of bytes added in 16 bits could saturate.
    """

    name: str
    sums: str = "int32"
    weights: str = "int16"
    planes: int = 2
    instructions: int = 4

    def codes(self, words: Lanes) -> Sequence[Lanes]:
        v, b = words.v, words.v.builder
        high = b.lshr(vector_items(v, words.value, 16), _splat16(v, 8))
        return [words & 0x00FF00FF, words.same(vector_items(v, high, 32))]

    def add(self, sums: Lanes, codes: Sequence[Lanes], weights: Sequence[Lanes]) -> Lanes:
        for x, y in zip(codes, weights, strict=True):
            sums = sums + _pair_products(self.name, x, y)
        return sums

    def planes_of(self, words: Lanes) -> Sequence[Lanes]:
        v, b = words.v, words.v.builder
        high, bits = vector_items(v, words.value, 16), _splat16(v, 8)
        planes = b.ashr(b.shl(high, bits), bits), b.ashr(high, bits)
        return [words.same(vector_items(v, plane, 32)) for plane in planes]


@dataclass(frozen=True)
class PairDot:
    """Two products of int16, added in 32 bits."""

    name: str
    """Of the intrinsic, or empty for multiplications of halves of vectors."""
    sums: str = "int32"
    weights: str = "int16"
    planes: int = 1
    instructions: int = 2

    def codes(self, words: Lanes) -> Sequence[Lanes]:
        return [words]

    def add(self, sums: Lanes, codes: Sequence[Lanes], weights: Sequence[Lanes]) -> Lanes:
        (x,), (y,) = codes, weights
        if self.name:
            return sums + _pair_products(self.name, x, y)
        v, b = sums.v, sums.v.builder
        halves = [vector_items(v, z.value, 16) for z in (x, y)]
        total = sums.value
        for first in range(2):  # multiply-adds of NEON
            order = _numbers(range(first, 2 * v.lanes, 2))
            factors = [b.sext(b.shuffle_vector(z, z, order), total.type) for z in halves]
            total = b.add(total, b.mul(*factors))
        return sums.same(total)

    def planes_of(self, words: Lanes) -> Sequence[Lanes]:
        return [words]


@dataclass(frozen=True)
class _Products:
    """Products of signed bytes in 16 bits, added pairwise in 32 bits, as NEON does."""

    sums: str = "int32"
    weights: str = "int8"
    planes: int = 1
    instructions: int = 6

    def codes(self, words: Lanes) -> Sequence[Lanes]:
        return [words]

    def add(self, sums: Lanes, codes: Sequence[Lanes], weights: Sequence[Lanes]) -> Lanes:
        v, b = sums.v, sums.v.builder
        short = ir.VectorType(ir.IntType(16), WORD_CODES * v.lanes)
        bytes_ = [vector_items(v, x.value, 8) for x in (*codes, *weights)]
        products = b.mul(*(b.sext(x, short) for x in bytes_))
        wide = b.sext(products, ir.VectorType(I32, WORD_CODES * v.lanes))
        while wide.type.count > v.lanes:
            count = wide.type.count
            even, odd = (
                b.shuffle_vector(wide, wide, _numbers(range(first, count, 2))) for first in range(2)
            )
            wide = b.add(even, odd)
        return sums + sums.same(wide)

    def planes_of(self, words: Lanes) -> Sequence[Lanes]:
        return [words]


def _pair_products(name: str, x: Lanes, y: Lanes) -> Lanes:
    """The sums of two products of 16 bits, by an intrinsic on words of two."""
    v = x.v
    return x.same(v.call(name, x.value.type, *(vector_items(v, z.value, 16) for z in (x, y))))


def vector_items(v: LaneBuilder, value: Any, bits: int) -> Any:
    """A vector of 32-bit items bitcast to integers of `bits` bits, or back."""
    return v.builder.bitcast(value, ir.VectorType(ir.IntType(bits), 32 * v.lanes // bits))


def _splat16(v: LaneBuilder, number: int) -> Any:
    """A number in every 16-bit item of a vector of 32-bit items."""
    return ir.Constant(ir.VectorType(ir.IntType(16), 2 * v.lanes), [number] * (2 * v.lanes))


def _numbers(order: range) -> Any:
    return ir.Constant(ir.VectorType(I32, len(order)), list(order))
