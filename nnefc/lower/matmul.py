"""matmul (section 4.7), and products of matrices for other lowerings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nnefc.ir import DType, Op, Shape
from nnefc.kernels.matmul import BATCH, DOT_ROWS, MATMUL
from nnefc.kernels.template import Kernel
from nnefc.kernels.tile import panel_columns, tile_rows
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.partition import block, tiles
from nnefc.runtime.program import Ref

FEW_ROWS = 8
"""Up to so many, a product with a transposed matrix is a set of dot products."""
TILE_FLOPS = 4e6


@dataclass(frozen=True, slots=True)
class Matrix:
    """Where items are: bytes from row to row, column to column, and along the batch dimensions."""

    at: Ref
    row: int
    step: int
    batch: tuple[int, ...] = ()


@lowering("matmul")
def matmul(lower: Lowering, op: Op) -> None:
    a_value, b_value = op.inputs
    dtype, item = op.output.type.dtype, op.output.type.dtype.itemsize
    *batch, m, n = op.output.type.dims
    a_transposed, b_transposed = op.attributes["transposeA"], op.attributes["transposeB"]
    depth = a_value.type.dims[-2 if a_transposed else -1]
    a = _operand(lower.read(a_value), a_value.type.dims, a_transposed, item)
    b = _operand(lower.read(b_value), b_value.type.dims, b_transposed, item)
    volume = m * n * item
    pitches = tuple(volume * math.prod(batch[i + 1 :]) for i in range(len(batch)))
    c = Matrix(lower.write(op.output), n * item, item, pitches)
    zero = Matrix(lower.constant(_zero(dtype)), 0, 0, (0,) * len(batch))
    # A few rows against contiguous columns, or the other way round, are dot products.
    if m <= FEW_ROWS and a.step == item and b.row == item:
        flip = Matrix(b.at, b.step, b.row, b.batch), Matrix(a.at, a.step, a.row, a.batch)
        turned = Matrix(c.at, c.step, c.row, c.batch)
        dots(lower, dtype, n, m, depth, flip[0], flip[1], turned, zero, tuple(batch))
    elif n == 1 and a.step == item and b.row == item:
        dots(lower, dtype, m, n, depth, a, b, c, zero, tuple(batch))
    else:
        gemm(lower, dtype, m, n, depth, a, b, c, zero, tuple(batch))


_zeros: dict[DType, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}


def _zero(dtype: DType) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """One array per type, so that programs share it."""
    return _zeros.setdefault(dtype, np.zeros(1, dtype.numpy))


def _operand(at: Ref, shape: Shape, transposed: bool, item: int) -> Matrix:
    """Batch dimensions of extent 1 are repeated."""
    *batch, rows, columns = shape
    volume = rows * columns * item
    pitches = tuple(
        volume * math.prod(batch[i + 1 :]) if extent > 1 else 0 for i, extent in enumerate(batch)
    )
    row, step = columns * item, item
    if transposed:
        row, step = step, row
    return Matrix(at, row, step, pitches)


def gemm(
    lower: Lowering,
    dtype: DType,
    m: int,
    n: int,
    depth: int,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    bias: Matrix,
    batch: Shape,
) -> None:
    """C[m, n] = bias[m] + A[m, depth] B[depth, n]; C's columns are contiguous."""
    columns, rows = panel_columns(str(dtype)), tile_rows()
    wanted = min(16, max(int(math.prod(batch) * m * n * depth / TILE_FLOPS), 1))
    wanted = tiles(wanted, math.prod(batch))
    n_parts = min(wanted, tiles(n, columns))
    m_parts = min(tiles(wanted, n_parts), tiles(m, 4 * rows))
    n_block = tiles(tiles(n, columns), n_parts) * columns
    m_block = tiles(tiles(m, rows), m_parts) * rows
    _launch(lower, "matmul.gemm", dtype, (m, n, depth), (a, b, c, bias), batch, m_block, n_block)


def dots(
    lower: Lowering,
    dtype: DType,
    m: int,
    n: int,
    depth: int,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    bias: Matrix,
    batch: Shape,
) -> None:
    """The same for few columns; rows of A and columns of B are contiguous."""
    m_block = tiles(block(m, n * depth / 16), DOT_ROWS) * DOT_ROWS
    _launch(lower, "matmul.dots", dtype, (m, n, depth), (a, b, c, bias), batch, m_block, n)


def _launch(
    lower: Lowering,
    family: str,
    dtype: DType,
    extents: tuple[int, int, int],
    matrices: tuple[Matrix, Matrix, Matrix, Matrix],
    batch: Shape,
    m_block: int,
    n_block: int,
) -> None:
    assert len(batch) <= BATCH
    m, n, depth = extents
    a, b, c, bias = matrices
    units = math.prod(batch) * tiles(m, m_block) * tiles(n, n_block)
    unit_block = block(units, m_block * n_block * depth / 32)
    words = MATMUL.pack(
        a=a.at,
        b=b.at,
        c=c.at,
        bias=bias.at,
        m=m,
        n=n,
        depth=depth,
        a_row=a.row,
        a_step=a.step,
        b_row=b.row,
        b_step=b.step,
        c_row=c.row,
        c_step=c.step,
        bias_row=bias.row,
        batch_rank=len(batch),
        batch=batch,
        a_batch=a.batch,
        b_batch=b.batch,
        c_batch=c.batch,
        bias_batch=bias.batch,
        m_block=m_block,
        n_block=n_block,
        units=units,
        unit_block=unit_block,
    )
    lower.launch(Kernel(family, (str(dtype),)), words, tiles(units, unit_block))
