"""Dot products of words of two halves, added to a lane of float32.

    sums[lane] += halves[lane][0] * weights[lane][0] + halves[lane][1] * weights[lane][1]

Sums of bfloat16 are float32.  Instructions may flush subnormal numbers, and round the two products
in their own order, so bits may differ between instruction sets.

Products of float16 are first summed in float16, by vectors of multiply-adds, of which one has twice
as many items as in float32.  A lane of a word has two chains, one of its first items and one of its
second items.  After `CHAIN` words the chains are added to the sums and begin anew.  So errors
depend on `CHAIN` and hardly on the depth.  Weights are multiplied with a power of two, such that
chains cannot overflow (`LARGEST_WEIGHT`); complete sums are multiplied with its inverse.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.llvm_types import BFLOAT, FLOAT, I32

WORD_HALVES: Final = 2
"""Items of 16 bits of a word."""
CHAIN: Final = 16
"""Words that a chain of float16 sums.

The error of random sums is 7e-4 of their size, of which 3e-4 come from rounding the operands.  It
would be 5e-4 with 4 words, 9e-4 with 32, and 1.2e-3 with 64, and 7e-3 with a single chain of 4,608
products.  bfloat16 has 2.3e-3.
"""
LARGEST_WEIGHT: Final = 2.0**-5 / (1 + 2.0**-6)
"""Bound of weights, such that a chain, and the sum of two, exceeds no item of the other operand.

It is the inverse of the number of products, less their roundings.
"""
SMALLER: Final = 2.0**-6
"""Factor of computed operands of chains, instead of that of weights."""
Half = Literal["bfloat16", "float16"]
"""Item type of halves that kernels multiply."""


@dataclass(frozen=True)
class HalfDot:
    """One instruction that adds two products; a `dot_words.WordDot`."""

    name: str
    squares: str = ""
    """`Isa.bfloat16_squares`: `kernels.tile.dot_squares` uses it for pairs of rows, with the same
    bits."""
    sums: str = "float32"
    weights: str = "bfloat16"
    planes: int = 1
    instructions: int = 1

    def codes(self, words: Lanes) -> Sequence[Lanes]:
        return [words]

    def add(self, sums: Lanes, codes: Sequence[Lanes], weights: Sequence[Lanes]) -> Lanes:
        v = sums.v
        kind = ir.VectorType(BFLOAT, WORD_HALVES * v.lanes)
        operands = [v.builder.bitcast(x.value, kind) for x in (*codes, *weights)]
        return sums.same(v.call(self.name, sums.value.type, sums.value, *operands))

    def planes_of(self, words: Lanes) -> Sequence[Lanes]:
        return [words]


@dataclass(frozen=True)
class ChainDot:
    """Multiply-adds of float16, which end with `flush`; a `dot_words.WordDot`."""

    name: str
    pair_sums: str = ""
    """`Isa.pair_sums`."""
    sums: str = "float32"
    weights: str = "float16"
    planes: int = 1
    instructions: int = 1

    def codes(self, words: Lanes) -> Sequence[Lanes]:
        return [words]

    def add(self, sums: Lanes, codes: Sequence[Lanes], weights: Sequence[Lanes]) -> Lanes:
        """The chains `sums`, words of two float16 each, with the products added."""
        v = sums.v
        operands = [_float16(x) for x in (*codes, *weights, sums)]
        chains = v.call(self.name, operands[0].type, *operands)
        return sums.same(v.builder.bitcast(chains, sums.value.type))

    def flush(self, sums: Sequence[Lanes], chains: Sequence[Lanes]) -> list[Lanes]:
        """The float32 sums, with both chains of each lane added."""
        result: list[Lanes] = []
        for first in range(0, len(sums), 2):
            pair = [*chains[first : first + 2], chains[first]][:2]
            result += map(operator.add, sums[first : first + 2], self._widened(*pair))
        return result

    def planes_of(self, words: Lanes) -> Sequence[Lanes]:
        return [words]

    def _widened(self, x: Lanes, y: Lanes) -> list[Lanes]:
        """The sums of the chains of each lane of two vectors, as float32."""
        v, b = x.v, x.v.builder
        pair, count = [_float16(x), _float16(y)], WORD_HALVES * v.lanes
        if self.pair_sums:
            both = v.call(self.pair_sums, pair[0].type, *pair)
        else:
            both = b.fadd(*(b.shuffle_vector(*pair, _every_second(i, count)) for i in range(2)))
        wide = ir.VectorType(FLOAT, v.lanes)
        halves = (b.shuffle_vector(both, both, _numbers(i, v.lanes)) for i in (0, v.lanes))
        return [Lanes(v, "float32", b.fpext(half, wide)) for half in halves]


HalfProducts = HalfDot | ChainDot


def half_dot(item: Half) -> HalfProducts:
    """The products of halves of this machine, which has such an instruction."""
    isa = host()
    name = isa.float16_fma if item == "float16" else isa.bfloat16_dot
    assert name, f"no kernel multiplies {item} here"
    return (
        ChainDot(name, isa.pair_sums) if item == "float16" else HalfDot(name, isa.bfloat16_squares)
    )


def _float16(x: Lanes) -> Any:
    """Words as an LLVM vector of float16."""
    return x.v.builder.bitcast(x.value, ir.VectorType(ir.HalfType(), WORD_HALVES * x.v.lanes))


def _every_second(first: int, count: int) -> Any:
    return _order(range(first, 2 * count, 2))


def _numbers(first: int, count: int) -> Any:
    return _order(range(first, first + count))


def _order(numbers: range) -> Any:
    return ir.Constant(ir.VectorType(I32, len(numbers)), list(numbers))
