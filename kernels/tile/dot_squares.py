"""Products of pairs of rows with pairs of columns: one instruction adds 2 x 2 sums.

The operands are two rows of eight codes or four bfloat16 each, which are two words of each row, and
two columns of as many weights.  Two vectors of words of weights that follow each other along the
depth, as all panels of words have them, are interleaved in registers to pairs of columns.  Sums of
two rows and the columns of a vector are two vectors of squares, which take the places of the rows'
vectors.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nnefc.kernels.codegen.llvm_ir import ir
from nnefc.kernels.vector.dot_words import WORD_BYTES, WordDot
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.lanes import Lanes, shuffle_two
from nnefc.kernels.vector.llvm_types import BFLOAT, I32
from nnefc.kernels.vector.vector_builder import Vector

_LOW: Final = (0, 1, 4, 5)
_HIGH: Final = (2, 3, 6, 7)
_COLUMNS: Final = ((0, 4, 1, 5), (2, 6, 3, 7))
"""Orders of the lanes of two vectors of four: halves of both, and their interleaved halves."""


def exchanged(sums: Sequence[Lanes], width: int) -> list[Lanes]:
    """Sums of rows of `width` vectors with those of two rows each as squares, or back.

    A last row without another stays as it is.
    """
    result = list(sums)
    for first in range(0, len(sums) - width, 2 * width):
        for j in range(first, first + width):
            pair = sums[j], sums[j + width]
            for place, order in ((j, _LOW), (j + width, _HIGH)):
                result[place] = shuffle_two(*pair, pair[0].v, order)
    return result


def add_squares(
    v: Vector,
    name: str,
    squares: Sequence[Lanes],
    pairs: Iterable[Lanes],
    last: Sequence[Any],
    words: Sequence[tuple[Lanes, Lanes]],
    dot: WordDot,
) -> list[Lanes]:
    """The sums, with the products of two words of each row.

    v: of int32.  name: of the instruction.  squares: as of `exchanged`.  pairs: two words of each
    of two rows; each is emitted before its products.  last: two words of a last row without
    another, which `dot` multiplies.  words: two words of the columns of each vector.
    """
    width, result = len(words), list(squares)
    columns = [[shuffle_two(x, y, v, order) for order in _COLUMNS] for x, y in words]
    for i, codes in enumerate(pairs):
        for j, halves in enumerate(columns):
            for half, weights in enumerate(halves):
                place = (2 * i + half) * width + j
                result[place] = _add(name, result[place], codes, weights, dot.weights)
    for k, word in enumerate(last):
        codes = dot.codes(v.splat(word))
        for j, both in enumerate(words, len(result) - width):
            result[j] = dot.add(result[j], codes, [both[k]])
    return result


def two_rows(v: Vector, rows: Sequence[Any]) -> Lanes:
    """Two words of each of two rows, in a vector; `rows`: pointers, not aligned."""
    half = ir.VectorType(I32, 2)
    halves = [v.builder.load(row, typ=half, align=1) for row in rows]
    order = ir.Constant(ir.VectorType(I32, 4), [*range(4)])
    return v.value(v.builder.shuffle_vector(*halves, order))


def _add(name: str, sums: Lanes, codes: Lanes, weights: Lanes, item: str) -> Lanes:
    v, kind = sums.v, BFLOAT if item == "bfloat16" else ir.IntType(8)
    items = ir.VectorType(kind, v.lanes * WORD_BYTES // ITEMSIZE[item])
    operands = [v.builder.bitcast(x.value, items) for x in (codes, weights)]
    return sums.same(v.call(name, sums.value.type, sums.value, *operands))
