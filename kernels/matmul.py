"""Matrix products over batches: blocked on the register tile, or as dot products.

Operands are named by strides, so that transposition and broadcasting are data.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.isa import host
from nnefc.kernels.memory import ITEMSIZE, LOAD, STORE, address, helper, load_word
from nnefc.kernels.rows import copy_row
from nnefc.kernels.template import KernelFunction, Layout, family
from nnefc.kernels.tile import (
    PANEL_BYTES,
    dots,
    local_bytes,
    panel_columns,
    panel_depth,
    register_tile,
    tile_height,
    tile_rows,
)

BATCH = 6

MATMUL = Layout(
    "a:ref b:ref c:ref bias:ref m n depth a_row a_step b_row b_step c_row c_step bias_row "
    "batch_rank batch:6 a_batch:6 b_batch:6 c_batch:6 bias_batch:6 m_block n_block units unit_block"
)
"""Parameters of the `matmul` kernels: C[m, n] = bias[m] + A[m, depth] B[depth, n].

x_row and x_step are the distances of rows and columns in bytes, `bias_row` that of the items
of bias (0: one for all).  There are `batch_rank` batch dimensions of extents `batch`, in which
the operands advance by so many bytes.  A unit is m_block x n_block of C, a tile `unit_block`
of `units`.
`matmul.gemm`: c_step is the item size.  `matmul.dots`: so are a_step and b_row.
"""
(
    A,
    B,
    C,
    BIAS,
    M,
    N,
    DEPTH,
    A_ROW,
    A_STEP,
    B_ROW,
    B_STEP,
    C_ROW,
    C_STEP,
    BIAS_ROW,
    BATCH_RANK,
    BATCH_EXTENTS,
    A_BATCH,
    B_BATCH,
    C_BATCH,
    BIAS_BATCH,
    M_BLOCK,
    N_BLOCK,
    UNITS,
    UNIT_BLOCK,
) = MATMUL.offsets


@helper
def batch_offset(params, pitches, number):
    """Offset of an operand in batch item `number`; `pitches` is where its distances are."""
    offset = 0
    for d in range(load_word(params + BATCH_RANK) - 1, -1, -1):
        extent = load_word(params + BATCH_EXTENTS + 8 * d)
        offset += number % extent * load_word(params + pitches + 8 * d)
        number = number // extent
    return offset


@family("matmul.gemm")
def gemm(item: str) -> KernelFunction:
    size = ITEMSIZE[item]
    columns, depth_limit, rows = panel_columns(item), panel_depth(item), tile_rows()
    height = tile_height()
    load, store = LOAD[item], STORE[item]
    tile, copy = register_tile(item, *host().tile), copy_row(item)
    panel = local_bytes(PANEL_BYTES)

    @helper
    def pack(packed, b, row, step, depth, count):
        if step == size:
            for k in range(depth):
                copy(packed + k * columns * size, b + k * row, count)
        else:
            for j in range(count):
                for k in range(depth):
                    store(packed, k * columns + j, load(b + j * step + k * row))

    def matmul(bases, params, first, last):
        a0, b0 = address(bases, params + A), address(bases, params + B)
        c0, bias0 = address(bases, params + C), address(bases, params + BIAS)
        m, n, depth = load_word(params + M), load_word(params + N), load_word(params + DEPTH)
        a_row, a_step = load_word(params + A_ROW), load_word(params + A_STEP)
        b_row, b_step = load_word(params + B_ROW), load_word(params + B_STEP)
        c_row, bias_row = load_word(params + C_ROW), load_word(params + BIAS_ROW)
        m_block, n_block = load_word(params + M_BLOCK), load_word(params + N_BLOCK)
        m_blocks, n_blocks = (m + m_block - 1) // m_block, (n + n_block - 1) // n_block
        packed = panel()
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        for t in range(first * unit_block, min(last * unit_block, units)):
            j_first = t % n_blocks * n_block
            j_end = min(j_first + n_block, n)
            i_first = t // n_blocks % m_blocks * m_block
            i_end = min(i_first + m_block, m)
            number = t // n_blocks // m_blocks
            a = a0 + batch_offset(params, A_BATCH, number)
            b = b0 + batch_offset(params, B_BATCH, number)
            c = c0 + batch_offset(params, C_BATCH, number)
            bias = bias0 + batch_offset(params, BIAS_BATCH, number)
            for k in range(0, depth, depth_limit):
                some = min(depth_limit, depth - k)
                for j in range(j_first, j_end, columns):
                    count = min(columns, j_end - j)
                    source, pitch = b + k * b_row + j * b_step, b_row
                    # Whole panels that few rows use are read where they are.
                    if b_step != size or count < columns or i_end - i_first > 2 * rows:
                        pack(packed, source, b_row, b_step, some, count)
                        source, pitch = packed, columns * size
                    i = i_first
                    while i < i_end:
                        some_rows = height(i_end - i)
                        tile(
                            some_rows,
                            count,
                            some,
                            a + i * a_row + k * a_step,
                            a_row,
                            a_step,
                            source,
                            pitch,
                            c + i * c_row + j * size,
                            c_row,
                            bias + i * bias_row,
                            bias_row,
                            1 if k == 0 else 0,
                        )
                        i += some_rows

    return matmul


DOT_ROWS = 4


@family("matmul.dots")
def matmul_dots(item: str) -> KernelFunction:
    """For a few columns: rows of A and columns of B are contiguous."""
    load, store = LOAD[item], STORE[item]
    multiply, local = dots(item, DOT_ROWS), local_bytes(DOT_ROWS * 8)

    def matmul(bases, params, first, last):
        a0, b0 = address(bases, params + A), address(bases, params + B)
        c0, bias0 = address(bases, params + C), address(bases, params + BIAS)
        m, n, depth = load_word(params + M), load_word(params + N), load_word(params + DEPTH)
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
            a = a0 + batch_offset(params, A_BATCH, number)
            b = b0 + batch_offset(params, B_BATCH, number)
            c = c0 + batch_offset(params, C_BATCH, number)
            bias = bias0 + batch_offset(params, BIAS_BATCH, number)
            for i in range(i_first, i_end, DOT_ROWS):
                count = min(DOT_ROWS, i_end - i)
                for j in range(n):
                    multiply(count, depth, a + i * a_row, a_row, b + j * b_step, sums)
                    for r in range(count):
                        value = load(sums, r) + load(bias + (i + r) * bias_row)
                        store(c + (i + r) * c_row + j * c_step, value)

    return matmul
