"""Matrix products over words: sums of products, then an expression of each sum.

    C[m, n] = expression(start[n] + sum over k of A[m, k] B[k, n], operands)

where a `ChainDot` multiplies the sum with start[n].

B is in panels of words (`packing.panels`), A in rows of words (`vector.dot_words`,
`vector.dot_halves`).  Rows and columns of C are cut into parts as in
`nnefc.kernels.product.matmul`; a part is summed in registers, and finished while it is in the L1
cache.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from functools import cache

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.family import KernelFunction
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.expression_epilogue import (
    CONVERT_ARGUMENTS,
    Epilogue,
    convert_rows,
    operand_fields,
    place_operands,
)
from nnefc.kernels.tile.panels import BATCH, batch_offset, part_start
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.tile.word_tile import WORD_TILE_ARGUMENTS, word_tile
from nnefc.kernels.vector.dot_words import WORD_BYTES, WordDot
from nnefc.kernels.vector.emit_expression import Quick
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.memory import address, helper, load_word, procedure


def word_layout(operands: int) -> Layout:
    """Parameters of `code_matmul.product` and `half_matmul.product`.

    - a, c and operands `x0`, `x1`, ... of the expression: as in `matmul.gemm_layout`; rows of A
      are readable up to whole words
    - `b`: panels; `start`: sums, or factors of `ChainDot`, whole vectors; bytes along the
      batch: `b_batch`, `start_batch`
    - `m`, `n`: rows and columns of C; `words`: words of the depth
    - `m_parts`, `n_parts`: parts of rows and columns; a unit of work is `m_block` x `n_block` parts
      of a batch item, a tile `unit_block` of `units`
    """
    fields = [
        *operand_fields("a", "c"),
        f"b:ref b_batch:{BATCH} start:ref start_batch:{BATCH} m n words batch_rank batch:{BATCH}",
        "m_block n_block m_parts n_parts units unit_block operands",
        *operand_fields(*(f"x{i}" for i in range(operands))),
    ]
    return Layout(" ".join(fields))


(
    A,
    A_ROW,
    _,
    A_BATCH,
    C,
    C_ROW,
    C_STEP,
    C_BATCH,
    B,
    B_BATCH,
    START,
    START_BATCH,
    M,
    N,
    WORDS,
    BATCH_RANK,
    BATCH_EXTENTS,
    M_BLOCK,
    N_BLOCK,
    M_PARTS,
    N_PARTS,
    UNITS,
    UNIT_BLOCK,
    OPERANDS,
) = word_layout(0).offsets


def word_product(
    dot: WordDot,
    heights: tuple[int, ...],
    widths: tuple[int, ...],
    epilogue: Epilogue,
    quick: Quick | None = None,
) -> KernelFunction:
    """Product with tiles of the `heights` and `widths`; the epilogue's first input is the sums.

    `quick`: functions for the epilogue, see `emit_expression.emit`.
    """
    run_blocks = word_loops(dot.planes)
    tile, finish = word_tile(dot, heights, widths), convert_rows(dot.sums, epilogue, quick)
    row = widths[-1] * lanes_of(dot.sums) * WORD_BYTES
    table, sums = local_bytes(16 * max(len(epilogue.repeated), 1)), local_bytes(heights[-1] * row)

    def product(bases, params, first, last):
        run_blocks(bases, params, first, last, tile(), finish(), table(), sums(), row)

    return product


@cache
def word_loops(planes: int):
    """Helper `run_blocks(bases, params, first, last, tile, finish, table, sums, sums_row)`.

    The loops of a product, translated once.  Kernels differ in the addresses of `word_tile` and
    `convert_rows`, a table for operands, and memory for the sums of a tile.
    """
    lanes = lanes_of("int32")
    call_tile, call_finish = procedure(WORD_TILE_ARGUMENTS), procedure(CONVERT_ARGUMENTS)

    @helper
    def run_blocks(bases, params, first, last, tile, finish, table, sums, sums_row):
        a0, b0 = address(bases, params + A), address(bases, params + B)
        c0, start0 = address(bases, params + C), address(bases, params + START)
        m, n, words = load_word(params + M), load_word(params + N), load_word(params + WORDS)
        a_row, c_row = load_word(params + A_ROW), load_word(params + C_ROW)
        c_step = load_word(params + C_STEP)
        m_parts, n_parts = load_word(params + M_PARTS), load_word(params + N_PARTS)
        m_block, n_block = load_word(params + M_BLOCK), load_word(params + N_BLOCK)
        m_blocks, n_blocks = (m_parts + m_block - 1) // m_block, (n_parts + n_block - 1) // n_block
        vectors = (n + lanes - 1) // lanes
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        libm = load_word(bases + 8 * BASE_LIBM)
        for t in range(first * unit_block, min(last * unit_block, units)):
            i_first = t % m_blocks * m_block
            i_end = min(i_first + m_block, m_parts)
            j_first = t // m_blocks % n_blocks * n_block
            j_end = min(j_first + n_block, n_parts)
            number = t // m_blocks // n_blocks
            a = a0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, A_BATCH, number)
            b = b0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, B_BATCH, number)
            c = c0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, C_BATCH, number)
            starts = start0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, START_BATCH, number)
            for j in range(j_first, j_end):
                column = part_start(j, vectors, n_parts) * lanes
                width = part_start(j + 1, vectors, n_parts) * lanes - column
                count = min(width, n - column)
                panel = b + column * words * planes * WORD_BYTES
                start = starts + column * 4
                # the tiles of a panel prefetch the next one, which may be in main memory
                step, tiles = width * planes * WORD_BYTES, i_end - i_first
                share, ahead = (step + tiles - 1) // max(tiles, 1), panel + step * words
                for i in range(i_first, i_end):
                    row = part_start(i, m, m_parts)
                    height = part_start(i + 1, m, m_parts) - row
                    call_tile(
                        *(tile, height, count, words),
                        *(a + row * a_row, a_row, panel, width * WORD_BYTES),
                        *(start, sums, sums_row, ahead + (i - i_first) * share * words, share),
                    )
                    place_operands(bases, params, OPERANDS, BATCH_RANK, number, row, column, table)
                    target = c + row * c_row + column * c_step
                    call_finish(
                        *(finish, height, count, sums, sums_row, target, c_row, table, libm)
                    )

    return run_blocks
