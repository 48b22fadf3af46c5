"""Matrix products of halves: float32 sums of products, then an expression of each sum.

A and B are bfloat16 or float16, B in panels of words (`packing.panels`).  The order of a sum does
not depend on the partition, so all partitions give the same bits.  See `word_product`.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.product.word_product import word_product
from nnefc.kernels.tile.expression_epilogue import Epilogue
from nnefc.kernels.tile.register_tile import covering_tiles
from nnefc.kernels.vector.dot_halves import Half, half_dot
from nnefc.kernels.vector.quick_halves import quick


def _substitutes(
    item: Half, heights: tuple[int, ...], widths: tuple[int, ...], epilogue: Epilogue
) -> Iterator[Kernel]:
    """The kernel with all tiles that products of other sizes need."""
    yield product(item, *covering_tiles(heights, widths), epilogue)


@family(substitutes=_substitutes)
def product(
    item: Half, heights: tuple[int, ...], widths: tuple[int, ...], epilogue: Epilogue
) -> KernelFunction:
    """Product with tiles of the `heights` and `widths`; the epilogue's first input is the sums."""
    return word_product(half_dot(item), heights, widths, epilogue, quick)
