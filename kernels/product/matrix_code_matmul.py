"""Matrix products of codes in matrix registers: int32 sums, then an expression of each sum.

As `code_matmul`, with the same panels (`nnefc.kernels.tile.matrix_tile`).  A tile has at most 32
rows and 32 columns, and if there are 16 rows, at least 16.
"""

# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# (numba is not typed)

from __future__ import annotations

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.product.word_product import WORDS, M, word_loops
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.expression_epilogue import Epilogue, convert_rows
from nnefc.kernels.tile.matrix_tile import (
    REGISTERS,
    ROW_BYTES,
    ROWS,
    begin_matrices,
    end_matrices,
    matrix_tile,
)
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.memory import load_word


@family()
def product(epilogue: Epilogue) -> KernelFunction:
    """Product; the epilogue's first input is the sums."""
    run_blocks, tile = word_loops(1), matrix_tile(host().matrix_byte_dot, codes=True)
    finish = convert_rows("int32", epilogue)
    row = REGISTERS * ROW_BYTES
    table = local_bytes(16 * max(len(epilogue.repeated), 1))
    sums = local_bytes(REGISTERS * ROWS * row)

    def product(bases, params, first, last):
        begin_matrices(load_word(params + M), max(load_word(params + WORDS), 1))
        run_blocks(bases, params, first, last, tile(), finish(), table(), sums(), row)
        end_matrices()

    return product
