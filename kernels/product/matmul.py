"""Matrix products over batches: blocked on the register tile, or as dot products.

Operands have strides, so that transposition and broadcasting are data.  Rows and columns of C are
cut into nearly equal parts, at most as large as a tile, so that no tile is nearly empty: 197 rows
are 22 parts of 8 and 3 of 7.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.family import Kernel, KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.product.compressed_weights import (
    WIDEN_ARGUMENTS,
    compressed_rows,
    compressed_tile,
    widen_panel,
)
from nnefc.kernels.product.fixed_point import BLOCK, FIX_ARGUMENTS, MOST_BYTES, fix_rows
from nnefc.kernels.product.stored_blocks import IN_FIXED_POINT
from nnefc.kernels.tile import register_tile
from nnefc.kernels.tile.expression_epilogue import (
    APPLY_ARGUMENTS,
    Epilogue,
    apply_rows,
    operand_fields,
    place_operands,
)
from nnefc.kernels.tile.panels import BATCH, batch_offset
from nnefc.kernels.tile.register_tile import (
    TILE_ARGUMENTS,
    covering_tiles,
    local_bytes,
    product_tile,
)
from nnefc.kernels.vector.item_types import ITEMSIZE
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.memory import LOAD, STORE, address, helper, load_word, procedure

_SHARED = [
    *operand_fields("a", "b", "c", "bias"),
    f"m n depth batch_rank batch:{BATCH} m_block units unit_block",
]
DOTS = Layout(" ".join(_SHARED))
"""Parameters of `matmul.dots`: C[m, n] = bias[m] + A[m, depth] B[depth, n].

For each operand x, `x_row`, `x_step` and `x_batch` are the bytes between rows, between columns and
along the batch dimensions; 0 where bias is repeated.  `batch_rank` and `batch` are the number and
extents of batch dimensions.  a_step and b_row are the item size.  A unit of work is `m_block` rows
of a batch item, a tile `unit_block` of `units`.
"""


def gemm_layout(operands: int) -> Layout:
    """Parameters of `matmul.gemm`: those of `DOTS`, the tiling of C, and operands of an epilogue.

    - `m_parts`, `n_parts`: parts of the rows and columns of C, at most as large as a tile; a unit
      is `m_block` x `n_block` parts
    - `a_packed`: A is in panels, each the columns of its transpose that are a part of the rows
    - `b_packed`: 0 if rows of B are contiguous and whole vectors; `PANELS` for panels of
      `nnefc.kernels.tile.panels`; `COMPRESSED` for panels of
      `nnefc.kernels.product.compressed_weights`, with the bytes of a block of all columns of a
      panel in b_row and of a panel in b_step
    - `k_block`: depth of the products of a tile
    - `operands`: operands of the epilogue, `x0`, `x1`, ..., laid out like C
    """
    cut = "n_block m_parts n_parts a_packed b_packed k_block operands"
    return Layout(" ".join([*_SHARED, cut, *operand_fields(*(f"x{i}" for i in range(operands)))]))


(
    A,
    A_ROW,
    A_STEP,
    A_BATCH,
    B,
    B_ROW,
    B_STEP,
    B_BATCH,
    C,
    C_ROW,
    C_STEP,
    C_BATCH,
    BIAS,
    BIAS_ROW,
    _,
    BIAS_BATCH,
    M,
    N,
    DEPTH,
    BATCH_RANK,
    BATCH_EXTENTS,
    M_BLOCK,
    UNITS,
    UNIT_BLOCK,
    N_BLOCK,
    M_PARTS,
    N_PARTS,
    A_PACKED,
    B_PACKED,
    K_BLOCK,
    OPERANDS,
) = gemm_layout(0).offsets


PANELS: Final = 1
COMPRESSED: Final = 2
"""Values of `b_packed`, besides 0."""
K_BLOCK_COMPRESSED: Final = 256
"""Most rows of compressed panels that are widened at a time."""


def _substitutes(
    item: str,
    heights: tuple[int, ...],
    widths: tuple[int, ...],
    epilogue: Epilogue | None,
    stored: str | None,
) -> Iterator[Kernel]:
    """The kernel with all tiles that products of other sizes need."""
    if widths:
        yield gemm(item, *covering_tiles(heights, widths), epilogue, stored)
    else:
        yield gemm(item, tuple(range(1, compressed_rows() + 1)), (), epilogue, stored)


@family(substitutes=_substitutes)
def gemm(
    item: str,
    heights: tuple[int, ...],
    widths: tuple[int, ...],
    epilogue: Epilogue | None = None,
    stored: str | None = None,
) -> KernelFunction:
    """Matrix product with tiles of the `heights` and `widths`.

    `stored`: storage format of compressed weights (`STORED`).  The tile reads them directly if
    `widths` is empty; otherwise they are widened first.
    """
    run_blocks = _gemm_loops(item)
    if stored is not None and not widths:
        tile = compressed_tile(stored, heights)
    else:
        tile = product_tile(item, heights, widths)
    finish = _nothing if epilogue is None else apply_rows(item, epilogue)
    table = _nothing if epilogue is None else local_bytes(16 * max(len(epilogue.repeated), 1))
    fix = widen = memory = _nothing
    if stored is not None and widths:
        widen = widen_panel(stored)
        memory = local_bytes(K_BLOCK_COMPRESSED * widths[-1] * lanes_of(item) * ITEMSIZE[item])
    elif stored in IN_FIXED_POINT:
        fix, memory = fix_rows(), local_bytes(MOST_BYTES)

    def matmul(bases, params, first, last):
        run_blocks(bases, params, first, last, tile(), finish(), table(), fix(), widen(), memory())

    return matmul


@helper
def _nothing():
    """Stands for an absent function or buffer; its address is 0."""
    return 0


@cache
def _gemm_loops(item: str):
    """Helper `run_blocks(bases, params, first, last, tile, finish, table, fix, widen, memory)`.

    The loops of `gemm`, translated once per item type.  Kernels differ in the addresses of
    `product_tile`, `apply_rows` (or 0), a table for its operands, `fix_rows` and `widen_panel` (or
    0), and memory for the results of these two.
    """
    size, lanes = ITEMSIZE[item], lanes_of(item)
    call_tile, call_finish = procedure(TILE_ARGUMENTS), procedure(APPLY_ARGUMENTS)
    call_fix, call_widen = procedure(FIX_ARGUMENTS), procedure(WIDEN_ARGUMENTS)

    @helper
    def run_blocks(bases, params, first, last, tile, finish, table, fix, widen, memory):
        a0, b0 = address(bases, params + A), address(bases, params + B)
        c0, bias0 = address(bases, params + C), address(bases, params + BIAS)
        m, n, depth = load_word(params + M), load_word(params + N), load_word(params + DEPTH)
        a_row, a_step = load_word(params + A_ROW), load_word(params + A_STEP)
        b_row, b_step = load_word(params + B_ROW), load_word(params + B_STEP)
        c_row, bias_row = load_word(params + C_ROW), load_word(params + BIAS_ROW)
        a_packed, b_packed = load_word(params + A_PACKED), load_word(params + B_PACKED)
        m_parts, n_parts = load_word(params + M_PARTS), load_word(params + N_PARTS)
        m_block, n_block = load_word(params + M_BLOCK), load_word(params + N_BLOCK)
        m_blocks, n_blocks = (m_parts + m_block - 1) // m_block, (n_parts + n_block - 1) // n_block
        vectors = (n + lanes - 1) // lanes
        height0, higher = m // m_parts, m % m_parts
        width0, wider = vectors // n_parts, vectors % n_parts
        k_block = load_word(params + K_BLOCK)
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        libm = load_word(bases + 8 * BASE_LIBM)
        fixed = -1
        for t in range(first * unit_block, min(last * unit_block, units)):
            i_first = t % m_blocks * m_block
            i_end = min(i_first + m_block, m_parts)
            j_first = t // m_blocks % n_blocks * n_block
            j_end = min(j_first + n_block, n_parts)
            number = t // m_blocks // n_blocks
            a = a0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, A_BATCH, number)
            b = b0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, B_BATCH, number)
            c = c0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, C_BATCH, number)
            bias = bias0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, BIAS_BATCH, number)
            top = i_first * height0 + min(i_first, higher)
            bottom = i_end * height0 + min(i_end, higher)
            for k in range(0, depth, k_block):
                some = min(k_block, depth - k)
                # unless the unit before has left these rows in memory
                part = (number * m_blocks + t % m_blocks) * depth + k
                if fix != 0 and fixed != part:
                    fixed = part
                    call_fix(fix, bottom - top, some, a + top * a_row + k * a_step, a_row, memory)
                for j in range(j_first, j_end):
                    start = (j * width0 + min(j, wider)) * lanes
                    width = (width0 + 1 if j < wider else width0) * lanes
                    count = min(width, n - start)
                    if b_packed == COMPRESSED:
                        panel, pitch = b + start // lanes * b_step + k // BLOCK * b_row, b_step
                        if widen != 0:
                            call_widen(widen, some, width, panel, pitch, memory)
                            panel, pitch = memory, width * size
                    elif b_packed:
                        panel, pitch = b + (start * depth + k * width) * size, width * size
                    else:
                        panel, pitch = b + start * size + k * b_row, b_row
                    target = c + start * size
                    row = top
                    for i in range(i_first, i_end):
                        height = height0 + 1 if i < higher else height0
                        if a_packed:
                            rows = a + (row * depth + k * height) * size
                            pitch_a, step_a = size, height * size
                        elif fix != 0:
                            pitch_a, step_a = some * size, size
                            rows = memory + (row - top) * pitch_a
                        else:
                            rows = a + row * a_row + k * a_step
                            pitch_a, step_a = a_row, a_step
                        fresh = 1 if k == 0 else 0
                        call_tile(
                            *(tile, height, count, some),
                            *(rows, pitch_a, step_a, panel, pitch),
                            *(target + row * c_row, c_row, bias + row * bias_row, bias_row),
                            fresh,
                        )
                        row += height
                    if finish != 0 and k + some == depth:
                        place_operands(
                            bases, params, OPERANDS, BATCH_RANK, number, top, start, table
                        )
                        block = target + top * c_row
                        call_finish(finish, row - top, count, block, c_row, table, libm)

    return run_blocks


DOT_ROWS = 4


@family()
def dots(item: str) -> KernelFunction:
    """Matrix product for few columns, as dot products of contiguous rows of A and columns of B."""
    load, store = LOAD[item], STORE[item]
    multiply, local = register_tile.dots(item, DOT_ROWS), local_bytes(DOT_ROWS * 8)

    def matmul(bases, params, first, last):
        a0, b0 = address(bases, params + A), address(bases, params + B)
        c0, bias0 = address(bases, params + C), address(bases, params + BIAS)
        m, n, depth = (
            load_word(params + M),
            load_word(params + N),
            load_word(params + DEPTH),
        )
        a_row, b_step = load_word(params + A_ROW), load_word(params + B_STEP)
        c_row, c_step = load_word(params + C_ROW), load_word(params + C_STEP)
        bias_row, m_block = load_word(params + BIAS_ROW), load_word(params + M_BLOCK)
        m_blocks = (m + m_block - 1) // m_block
        sums = local()
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for t in range(first * unit_block, min(last * unit_block, units)):
            i_first = t % m_blocks * m_block
            i_end = min(i_first + m_block, m)
            number = t // m_blocks
            a = a0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, A_BATCH, number)
            b = b0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, B_BATCH, number)
            c = c0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, C_BATCH, number)
            bias = bias0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, BIAS_BATCH, number)
            for i in range(i_first, i_end, DOT_ROWS):
                count = min(DOT_ROWS, i_end - i)
                for j in range(n):
                    multiply(count, depth, a + i * a_row, a_row, b + j * b_step, sums)
                    for r in range(count):
                        value = load(sums, r) + load(bias + (i + r) * bias_row)
                        store(c + (i + r) * c_row + j * c_step, value)

    return matmul
