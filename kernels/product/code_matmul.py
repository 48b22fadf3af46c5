"""Matrix products of codes: int32 sums of products of bytes, then an expression of each sum.

Codes of A have the type `Isa.codes`, B is int8 in panels of words (`packing.panels`); or A is
int16, and B is int16, too.  Sums wrap around, so all instruction sets and partitions give the same
bits.  See `word_product`.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.product.word_product import word_product
from nnefc.kernels.tile.expression_epilogue import Epilogue
from nnefc.kernels.tile.register_tile import covering_tiles
from nnefc.kernels.vector.dot_words import WordKind, dot_of


def _substitutes(
    heights: tuple[int, ...],
    widths: tuple[int, ...],
    epilogue: Epilogue,
    kind: WordKind = "codes",
) -> Iterator[Kernel]:
    """The kernel with all tiles that products of other sizes need."""
    yield product(*covering_tiles(heights, widths), epilogue, kind)


@family(substitutes=_substitutes)
def product(
    heights: tuple[int, ...],
    widths: tuple[int, ...],
    epilogue: Epilogue,
    kind: WordKind = "codes",
) -> KernelFunction:
    """Product with tiles of the `heights` and `widths`; the epilogue's first input is the sums.

    `kind`: what the words of A are.
    """
    return word_product(dot_of(kind), heights, widths, epilogue)
