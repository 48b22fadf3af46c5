"""Matrix products of many rows with weights in blocks, then an expression of each sum.

    C[m, n] = expression(A[m, depth] B[depth, n], operands)

Rows of A are in groups of words (`block_rows`).  B is in panels as in `compressed_weights`.  A unit
of work is some groups of rows and the panels of a tile, whose blocks are decoded to memory that
stays in the L1 cache, a few at a time, for all of these rows.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

from __future__ import annotations

from functools import cache
from typing import Final

from nnefc.kernels.abi import BASE_LIBM
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.product.block_panels import (
    BLOCKS_AT_ONCE,
    DECODE_ARGUMENTS,
    VECTORS,
    decode_panels,
)
from nnefc.kernels.product.block_rows import RowKind, block_bytes, group_rows, is_matrix
from nnefc.kernels.product.block_tile import TILE_ARGUMENTS, block_tile, tile_bytes, tile_panels
from nnefc.kernels.tile.expression_epilogue import (
    CONVERT_ARGUMENTS,
    Epilogue,
    convert_rows,
    operand_fields,
    place_operands,
)
from nnefc.kernels.tile.matrix_tile import ROWS, WORDS, begin_matrices, end_matrices
from nnefc.kernels.tile.panels import BATCH, batch_offset, part_start
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.memory import address, helper, load_word, procedure


def block_layout(operands: int) -> Layout:
    """Parameters of `block_matmul.product`.

    - c and operands `x0`, `x1`, ... of the expression: as in `matmul.gemm_layout`
    - `a`: groups of rows, `a_group` bytes apart; `b`: panels, `b_step` bytes apart, whose blocks
      are `b_row` bytes apart
    - `blocks`: blocks of the depth; `n_parts`: parts of the columns, each at most the panels of a
      tile; a unit of work is `group_block` groups and a part, a tile `unit_block` of `units`
    """
    fields = [
        *operand_fields("c"),
        f"a:ref a_group a_batch:{BATCH} b:ref b_row b_step m n blocks batch_rank batch:{BATCH}",
        "group_block n_parts units unit_block operands",
        *operand_fields(*(f"x{i}" for i in range(operands))),
    ]
    return Layout(" ".join(fields))


(
    C,
    C_ROW,
    C_STEP,
    C_BATCH,
    A,
    A_GROUP,
    A_BATCH,
    B,
    B_ROW,
    B_STEP,
    M,
    N,
    BLOCKS,
    BATCH_RANK,
    BATCH_EXTENTS,
    GROUP_BLOCK,
    N_PARTS,
    UNITS,
    UNIT_BLOCK,
    OPERANDS,
) = block_layout(0).offsets

SUMS_BYTES: Final = 32 << 10
"""Most bytes of the sums of a unit."""


def most_groups(kind: RowKind) -> int:
    """Most groups of rows of a unit."""
    return SUMS_BYTES // tile_bytes(kind)


@family()
def product(stored: str, kind: RowKind, epilogue: Epilogue) -> KernelFunction:
    """Product with weights `stored` in blocks; the epilogue's first input is the sums."""
    run_blocks = _block_loops(kind)
    decode, tile = decode_panels(stored, kind, tile_panels(kind)), block_tile(kind)
    finish = convert_rows("float32", epilogue)
    table = local_bytes(16 * max(len(epilogue.repeated), 1))
    vector = 4 * lanes_of("float32")
    memory = local_bytes(BLOCKS_AT_ONCE * tile_panels(kind) * VECTORS * vector)
    sums = local_bytes(SUMS_BYTES)

    def integer_product(bases, params, first, last):
        run_blocks(
            *(bases, params, first, last),
            *(decode(), tile(), finish(), table(), memory(), sums()),
        )

    def matrix_product(bases, params, first, last):
        begin_matrices(ROWS, WORDS)
        run_blocks(
            *(bases, params, first, last),
            *(decode(), tile(), finish(), table(), memory(), sums()),
        )
        end_matrices()

    return matrix_product if is_matrix(kind) else integer_product


@cache
def _block_loops(kind: RowKind):
    """Helper `run_blocks(bases, params, first, last, decode, tile, finish, table, memory, sums)`.

    Kernels differ in the addresses of `decode_panels`, `block_tile` and `convert_rows`, a table for
    operands, and memory for decoded blocks and sums.
    """
    lanes, group = lanes_of("float32"), group_rows(kind)
    block, tile_sums = block_bytes(kind), tile_bytes(kind)
    pitch = tile_panels(kind) * 4 * lanes
    call_decode, call_tile = procedure(DECODE_ARGUMENTS), procedure(TILE_ARGUMENTS)
    call_finish = procedure(CONVERT_ARGUMENTS)

    @helper
    def run_blocks(bases, params, first, last, decode, tile, finish, table, memory, sums):
        a0, b0 = address(bases, params + A), address(bases, params + B)
        c0 = address(bases, params + C)
        m, n, blocks = load_word(params + M), load_word(params + N), load_word(params + BLOCKS)
        a_group, b_row = load_word(params + A_GROUP), load_word(params + B_ROW)
        b_step = load_word(params + B_STEP)
        c_row, c_step = load_word(params + C_ROW), load_word(params + C_STEP)
        group_block, n_parts = load_word(params + GROUP_BLOCK), load_word(params + N_PARTS)
        groups, panels = (m + group - 1) // group, (n + lanes - 1) // lanes
        row_blocks = (groups + group_block - 1) // group_block
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        libm = load_word(bases + 8 * BASE_LIBM)
        for t in range(first * unit_block, min(last * unit_block, units)):
            top = t % row_blocks * group_block
            bottom = min(top + group_block, groups)
            part = t // row_blocks % n_parts
            number = t // row_blocks // n_parts
            panel = part_start(part, panels, n_parts)
            some_panels = part_start(part + 1, panels, n_parts) - panel
            a = a0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, A_BATCH, number)
            for k in range(0, blocks, BLOCKS_AT_ONCE):
                some = min(BLOCKS_AT_ONCE, blocks - k)
                call_decode(
                    *(decode, some, some_panels, b0 + panel * b_step + k * b_row, b_step, memory)
                )
                for i in range(top, bottom):
                    target = sums + (i - top) * tile_sums
                    fresh = 1 if k == 0 else 0
                    rows = min(group, m - i * group)
                    at = a + i * a_group + k * block
                    call_tile(tile, rows, some, at, memory, target, fresh)
            row, column = top * group, panel * lanes
            height, count = min(bottom * group, m) - row, min(some_panels * lanes, n - column)
            place_operands(bases, params, OPERANDS, BATCH_RANK, number, row, column, table)
            c = c0 + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, C_BATCH, number)
            c += row * c_row + column * c_step
            call_finish(finish, height, count, sums, pitch, c, c_row, table, libm)

    return run_blocks
