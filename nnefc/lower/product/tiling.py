"""Tiling of products: how a matrix C is divided into register tiles and units of work.

The rows and the columns of C are divided into parts.  A kernel computes one part of the rows times
one part of the columns in registers.  A unit of work consists of several such tiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from nnefc.ir import DType
from nnefc.kernels.executor.team_state import MAX_TILES
from nnefc.kernels.product.compressed_weights import compressed_rows
from nnefc.kernels.product.fixed_point import BLOCK, MOST_BYTES
from nnefc.kernels.product.matmul import K_BLOCK_COMPRESSED
from nnefc.kernels.product.stored_blocks import IN_FIXED_POINT
from nnefc.kernels.tile.matrix_tile import REGISTERS, ROWS
from nnefc.kernels.tile.register_tile import min_rows, tile_rows, tile_width
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering
from nnefc.lower.partition import ceil_div, partition_threads, units_per_tile
from nnefc.lower.product.compressed_weights import CompressedWeights
from nnefc.lower.product.operands import Product
from nnefc.support.machine_model import MACS_PER_NS, MATRIX_MACS_PER_NS, MEMORY_NS
from nnefc.symbolic.integers import hint, is_symbolic, largest, smallest, specialized

UNIT_NS = 20_000.0
"""Wanted duration of a unit: the rows and panels that it reads again stay in the cache."""
WIDENED_PARTS = 16
"""Parts of rows that share a widened panel of compressed weights."""
STREAM_NS = 0.035
"""Nanoseconds to stream a byte of compressed weights, with prefetching."""
STREAM_START_NS = 300.0
"""Nanoseconds until the first prefetched bytes arrive."""
FIX_NS = 0.17
"""Nanoseconds to convert an item of a row to fixed point."""
FIXED_PARTS = 8
"""Parts of rows of a unit in fixed point; few of them allow long blocks of the depth."""
K_BLOCK = 384
"""Block of the depth: the products that a tile sums sequentially."""


@dataclass(frozen=True, slots=True)
class ProductTiling:
    """Tiling of C, see `nnefc.kernels.product.matmul.gemm_layout`.

    `widths` is empty for compressed weights in registers, whose kernel handles any width.
    """

    m_parts: int
    n_parts: int
    heights: tuple[int, ...]
    widths: tuple[int, ...]
    tiles: tuple[tuple[int, ...], tuple[int, ...]]
    """(heights, widths) that the kernel is specialised for."""
    m_block: int
    n_block: int
    units: int
    unit_block: int
    k_block: int = K_BLOCK


def tile_product(product: Product, lower: Lowering) -> ProductTiling:
    """The tiling for a product of uncompressed matrices."""
    lanes = lanes_of(str(product.dtype))
    threads, vectors = partition_threads(lower.threads), ceil_div(product.n, lanes)
    m_parts = ceil_div(product.m, tile_rows())
    if lower.dynamic_shapes and product.m < min_rows():
        m_parts = product.m
    heights = balanced_sizes(hint(product.m), hint(m_parts))
    widest = tile_width(tile_rows() if lower.dynamic_shapes else heights[-1])
    n_parts = ceil_div(vectors, widest)
    widths = _widths(vectors, n_parts, widest)
    # nanoseconds of one part, and of a column of parts
    width = widths[-1] * lanes * hint(product.depth) * product.dtype.itemsize
    part = heights[-1] * width / (MACS_PER_NS * DType.FLOAT32.itemsize)
    m_block = balanced_block(m_parts, max(3, UNIT_NS / hint(part)))
    column = max(m_block * part, width * MEMORY_NS if m_parts == 1 else 0)
    n_block = balanced_block(n_parts, UNIT_NS / column)
    if (blocks := ceil_div(n_parts, n_block)) > 1 and m_parts == 1:
        # with few rows every thread gets equally many blocks, the same in consecutive products
        n_block = ceil_div(n_parts, ceil_div(blocks, threads) * threads)
    units = math.prod(product.batch) * ceil_div(m_parts, m_block) * ceil_div(n_parts, n_block)
    unit_block = product_units_per_tile(units, column * n_block)
    tiles = tile_sizes(heights, widths)
    if lower.dynamic_shapes and heights != (1,):
        # Dynamic models have a kernel for parts of at least `min_rows`, and one for parts of a
        # single row.  Both cover all numbers of rows, and read the same panels.
        tiles = tuple(range(min_rows(), tile_rows() + 1)), tiles[1]
    return ProductTiling(
        m_parts, n_parts, heights, widths, tiles, m_block, n_block, units, unit_block
    )


def tile_matrices(product: Product, lower: Lowering) -> ProductTiling:
    """The tiling for a product in matrix registers, whose kernels take tiles of any size."""
    lanes, threads = lanes_of("float32"), partition_threads(lower.threads)
    vectors = ceil_div(product.n, lanes)
    m_parts, n_parts = ceil_div(product.m, REGISTERS * ROWS), ceil_div(vectors, REGISTERS)
    panel = REGISTERS * lanes * hint(product.depth)
    rate = MATRIX_MACS_PER_NS * DType.BFLOAT16.itemsize / product.dtype.itemsize
    part = smallest([REGISTERS * ROWS, hint(product.m)]) * panel / rate
    column = largest([m_parts * part, panel * product.dtype.itemsize * MEMORY_NS])
    m_block = balanced_block(m_parts, max(3, UNIT_NS / part))
    n_block = balanced_block(n_parts, UNIT_NS / (column * m_block / hint(m_parts)))
    if (blocks := ceil_div(n_parts, n_block)) > 1 and m_parts == 1:
        n_block = ceil_div(n_parts, ceil_div(blocks, threads) * threads)
    units = math.prod(product.batch) * ceil_div(m_parts, m_block) * ceil_div(n_parts, n_block)
    unit_block = product_units_per_tile(units, UNIT_NS)
    return ProductTiling(m_parts, n_parts, (), (), ((), ()), m_block, n_block, units, unit_block)


def tile_direct(product: Product, weights: CompressedWeights, lower: Lowering) -> ProductTiling:
    """The tiling for compressed weights that are widened in registers."""
    fixed = weights.stored in IN_FIXED_POINT
    m_parts = ceil_div(product.m, compressed_rows())
    heights = balanced_sizes(hint(product.m), hint(m_parts))
    m_block = balanced_block(m_parts, FIXED_PARTS) if fixed else m_parts
    m_blocks = ceil_div(m_parts, m_block)
    highest = compressed_rows() if lower.dynamic_shapes else heights[-1]
    rows = smallest([m_block * highest, product.m])
    lanes = lanes_of(str(product.dtype))
    vectors = ceil_div(product.n, lanes)
    items = hint(rows * product.depth)
    panel_ns = max(weights.panels.step * STREAM_NS, items * lanes / MACS_PER_NS, 1)
    start_ns = STREAM_START_NS + (FIX_NS * items if fixed else 0)
    panels = units_per_tile(vectors * m_blocks, panel_ns, lower.threads, start_ns)
    n_parts = ceil_div(vectors, smallest([panels, vectors]))
    units = math.prod(product.batch) * m_blocks * n_parts
    k_block = max(product.depth, 1)
    if fixed:  # the memory for rows in fixed point is limited
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
    """Heights that the kernel is specialised for; few combinations, which networks share."""
    most = compressed_rows()
    if lower.dynamic_shapes and product.m > 1:
        return tuple(range(1, most + 1))
    return (most - 1, most) if set(heights) <= {most - 1, most} else heights


def tile_widened(product: Product, lower: Lowering) -> ProductTiling:
    """The tiling for compressed weights and many rows, which share widened panels."""
    tiling = tile_product(product, lower)
    m_block = balanced_block(tiling.m_parts, WIDENED_PARTS)
    units = math.prod(product.batch) * ceil_div(tiling.m_parts, m_block) * tiling.n_parts
    unit_block = ceil_div(units, MAX_TILES)
    k_block = K_BLOCK_COMPRESSED
    return replace(
        tiling, m_block=m_block, n_block=1, units=units, unit_block=unit_block, k_block=k_block
    )


def product_units_per_tile(units: int, cost: float) -> int:
    """Units per tile of a launch, for units of `cost` nanoseconds.

    Units are long already.  `partition.units_per_tile` would give fewer and longer tiles, with
    which products took up to 3 % longer on two threads of a loaded machine.
    """
    return smallest([largest([1, int(UNIT_NS / hint(cost)), ceil_div(units, MAX_TILES)]), units])


def tile_sizes(
    heights: tuple[int, ...], widths: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(heights, widths) that a kernel is specialised for; few combinations, which networks share.

    A single row gets all widths, which take little code.  Many rows get the two largest heights.
    """
    if heights == (1,):
        return heights, tuple(range(1, tile_width(1) + 1))
    largest = (tile_rows() - 1, tile_rows())
    return (largest if set(heights) <= set(largest) else heights), widths


def balanced_sizes(count: int, parts: int) -> tuple[int, ...]:
    """The one or two sizes of nearly equal parts of `count`, ascending."""
    return tuple(sorted({count // parts, ceil_div(count, parts)}))


def _widths(vectors: int, parts: int, widest: int) -> tuple[int, ...]:
    """The sizes of nearly equal parts; for symbolic `vectors`, a superset of them."""
    if not is_symbolic([vectors]):
        return balanced_sizes(vectors, parts)
    least = vectors // parts
    return (
        (widest - 1, widest)
        if least >= widest - 1
        else balanced_sizes(specialized(vectors), specialized(parts))
    )


def balanced_block(count: int, wanted: float) -> int:
    """A block size near `wanted` that divides `count` into nearly equal blocks."""
    blocks = max(1, round(hint(count) / max(hint(wanted), 1)))
    return ceil_div(count, blocks)
