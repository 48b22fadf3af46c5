"""How products are cut into parts of the sizes of tiles, and these into units of work."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from nnefc.ir import DType
from nnefc.kernels.executor.team_state import MAX_TILES
from nnefc.kernels.product.compressed import IN_FIXED_POINT, compressed_rows
from nnefc.kernels.product.fixed_point import BLOCK, MOST_BYTES
from nnefc.kernels.product.matmul import K_BLOCK_COMPRESSED
from nnefc.kernels.tile.register_tile import tile_rows, tile_width
from nnefc.kernels.vector.builder import lanes_of
from nnefc.lower.context import Lowering
from nnefc.lower.partition import ceil_div, partition_threads, per_tile
from nnefc.lower.product.compressed import Compressed
from nnefc.lower.product.operands import Product
from nnefc.support.machine_model import MACS_PER_NS, MEMORY_NS
from nnefc.symbolic.integers import hint, is_symbolic, largest, smallest, specialized

UNIT_NS = 20_000.0
"""What a unit of work should take: rows and panels that it reads again stay close."""
WIDENED_PARTS = 16
"""Parts of rows that meet a panel of weights that was widened for them."""
STREAM_NS = 0.035
"""Nanoseconds for a byte of compressed weights, which are fetched ahead."""
STREAM_START_NS = 300.0
"""Until what was fetched ahead arrives."""
FIX_NS = 0.17
"""To convert an item of a row to fixed point."""
FIXED_PARTS = 8
"""Parts of rows in fixed point that a unit has: the depth is walked in long pieces then."""
K_BLOCK = 384
"""Depth that a tile walks at a time: products of a sum that are added one after the other."""


@dataclass(frozen=True, slots=True)
class ProductTiling:
    """How C is cut: see `nnefc.kernels.product.matmul.gemm_layout`; the tile of compressed weights
    has any width.
    """

    m_parts: int
    n_parts: int
    heights: tuple[int, ...]
    widths: tuple[int, ...]
    tiles: tuple[tuple[int, ...], tuple[int, ...]]
    """Heights and widths that the kernel has code for."""
    m_block: int
    n_block: int
    units: int
    unit_block: int
    k_block: int = K_BLOCK


def tile_product(product: Product, lower: Lowering) -> ProductTiling:
    lanes = lanes_of(str(product.dtype))
    threads, vectors = lower.threads, ceil_div(product.n, lanes)
    m_parts = ceil_div(product.m, tile_rows())
    if lower.growing and product.m < min_rows():
        m_parts = product.m
    heights = balanced_sizes(hint(product.m), hint(m_parts))
    widest = tile_width(tile_rows() if lower.growing else heights[-1])
    n_parts = ceil_div(vectors, widest)
    widths = _widths(vectors, n_parts, widest)
    # nanoseconds of one part, and of a block of parts below each other
    width = widths[-1] * lanes * hint(product.depth) * product.dtype.itemsize
    part = heights[-1] * width / (MACS_PER_NS * DType.FLOAT32.itemsize)
    m_block = balanced_block(m_parts, max(3, UNIT_NS / hint(part)))
    column = max(m_block * part, width * MEMORY_NS if m_parts == 1 else 0)
    n_block = balanced_block(n_parts, UNIT_NS / column)
    if (blocks := ceil_div(n_parts, n_block)) > 1 and m_parts == 1:
        # every thread has as many of a few rows, and of one product after the other the same ones
        n_block = ceil_div(
            n_parts, ceil_div(blocks, partition_threads(threads)) * partition_threads(threads)
        )
    units = math.prod(product.batch) * ceil_div(m_parts, m_block) * ceil_div(n_parts, n_block)
    unit_block = units_per_tile(units, column * n_block)
    tiles = tile_sizes(heights, widths)
    if lower.growing and heights != (1,):
        tiles = tuple(range(min_rows(), tile_rows() + 1)), tiles[1]
    return ProductTiling(
        m_parts, n_parts, heights, widths, tiles, m_block, n_block, units, unit_block
    )


def tile_direct(product: Product, weights: Compressed, lower: Lowering) -> ProductTiling:
    """For compressed weights that stay in registers: units of some rows and panels."""
    fixed = weights.stored == IN_FIXED_POINT
    m_parts = ceil_div(product.m, compressed_rows())
    heights = balanced_sizes(hint(product.m), hint(m_parts))
    m_block = balanced_block(m_parts, FIXED_PARTS) if fixed else m_parts
    m_blocks = ceil_div(m_parts, m_block)
    highest = compressed_rows() if lower.growing else heights[-1]
    rows = smallest([m_block * highest, product.m])
    lanes = lanes_of(str(product.dtype))
    vectors = ceil_div(product.n, lanes)
    items = hint(rows * product.depth)
    panel_ns = max(weights.panels.step * STREAM_NS, items * lanes / MACS_PER_NS, 1)
    start_ns = STREAM_START_NS + (FIX_NS * items if fixed else 0)
    panels = per_tile(vectors * m_blocks, panel_ns, lower.threads, start_ns)
    n_parts = ceil_div(vectors, smallest([panels, vectors]))
    units = math.prod(product.batch) * m_blocks * n_parts
    k_block = max(product.depth, 1)
    if fixed:  # there is memory for so many items of each row
        k_block = MOST_BYTES // (DType.FLOAT32.itemsize * rows) // BLOCK * BLOCK
        assert k_block > 0
    return ProductTiling(
        m_parts=m_parts,
        n_parts=n_parts,
        heights=heights,
        widths=(),
        tiles=(_direct_heights(product, heights, lower), ()),
        m_block=m_block,
        n_block=1,
        units=units,
        unit_block=ceil_div(units, MAX_TILES),
        k_block=k_block,
    )


def _direct_heights(product: Product, heights: tuple[int, ...], lower: Lowering) -> tuple[int, ...]:
    """Heights that a kernel has code for: few different ones."""
    most = compressed_rows()
    if lower.growing and product.m > 1:
        return tuple(range(1, most + 1))
    return (most - 1, most) if set(heights) <= {most - 1, most} else heights


def tile_widened(product: Product, lower: Lowering) -> ProductTiling:
    """For many rows and compressed weights: a panel is widened once for many of them."""
    tiling = tile_product(product, lower)
    m_block = balanced_block(tiling.m_parts, WIDENED_PARTS)
    units = math.prod(product.batch) * ceil_div(tiling.m_parts, m_block) * tiling.n_parts
    unit_block = ceil_div(units, MAX_TILES)
    k_block = K_BLOCK_COMPRESSED
    return replace(
        tiling, m_block=m_block, n_block=1, units=units, unit_block=unit_block, k_block=k_block
    )


def units_per_tile(units: int, cost: float) -> int:
    """Units of a tile, for units of `cost` nanoseconds.

    Units are long already: with the tiles of `per_tile`, fewer and longer, products of two threads
    took up to 3 % more time while others used the processor.
    """
    return smallest([largest([1, int(UNIT_NS / hint(cost)), ceil_div(units, MAX_TILES)]), units])


def tile_sizes(
    heights: tuple[int, ...], widths: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(heights, widths) that a kernel has code for: few different ones, which networks share.

    Of a single row all widths are little code; many rows are cut into the two largest heights.
    """
    if heights == (1,):
        return heights, tuple(range(1, tile_width(1) + 1))
    largest = (tile_rows() - 1, tile_rows())
    return (largest if set(heights) <= set(largest) else heights), widths


def min_rows() -> int:
    """The fewest rows of a part where many rows are cut into nearly equal parts.

    Models whose shapes change with each call have code for parts of so many rows and more, and for
    parts of one row: two kernels for all numbers of rows, which read the same panels.
    """
    return ceil_div(tile_rows(), 2)


def balanced_sizes(count: int, parts: int) -> tuple[int, ...]:
    """The sizes of nearly equal parts, in order."""
    return tuple(sorted({count // parts, ceil_div(count, parts)}))


def _widths(vectors: int, parts: int, widest: int) -> tuple[int, ...]:
    """The sizes of nearly equal parts, or, where they are symbolic, sizes that they are among."""
    if not is_symbolic([vectors]):
        return balanced_sizes(vectors, parts)
    least = vectors // parts
    return (
        (widest - 1, widest)
        if least >= widest - 1
        else balanced_sizes(specialized(vectors), specialized(parts))
    )


def balanced_block(count: int, wanted: float) -> int:
    """A size of blocks, about as wanted, that cuts `count` into nearly equal ones."""
    blocks = max(1, round(hint(count) / max(hint(wanted), 1)))
    return ceil_div(count, blocks)
