"""Dot products of words of two bfloat16, added to a lane of float32.

    sums[lane] += halves[lane][0] * weights[lane][0] + halves[lane][1] * weights[lane][1]

Sums are float32.  Instructions may flush subnormal numbers, and round the two products in their own
order, so bits may differ between instruction sets.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.llvm_types import BFLOAT

WORD_HALVES: Final = 2
"""Items of 16 bits of a word."""


@dataclass(frozen=True)
class HalfDot:
    """One instruction that adds two products; a `dot_words.WordDot`."""

    name: str
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


def half_dot() -> HalfDot:
    """The products of bfloat16 of this machine, which has such an instruction."""
    assert host().bfloat16_dot, "no kernel multiplies bfloat16 here"
    return HalfDot(host().bfloat16_dot)
