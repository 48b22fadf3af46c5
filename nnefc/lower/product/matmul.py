"""Lowering of matmul (NNEF 1.0.2 section 4.7), with or without an epilogue; dot products."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from nnefc.ir import DType, Op, Shape, TensorType, Value
from nnefc.kernels.product import matmul as kernels
from nnefc.kernels.product.matmul import COMPRESSED, DOT_ROWS, DOTS, PANELS, gemm_layout
from nnefc.kernels.tile.panels import BATCH
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise import expression as elementwise
from nnefc.lower.partition import ceil_div, steps_per_unit, units_per_tile
from nnefc.lower.product import integer_matmul
from nnefc.lower.product.block_matmul import block_product, multiplies_blocks
from nnefc.lower.product.compressed_weights import compressed_weights, is_direct
from nnefc.lower.product.half_matmul import fused_half_matmul
from nnefc.lower.product.operands import (
    Factor,
    Product,
    broadcast_matrix,
    dense_matrix,
    epilogue_operands,
    read_epilogue,
    read_product,
)
from nnefc.lower.product.pack import Array, Matrix, pack, packed_bytes
from nnefc.lower.product.tiling import tile_direct, tile_product, tile_widened
from nnefc.program.program import Ref
from nnefc.support.machine_model import DOT_MACS_PER_NS

FEW_ROWS: Final = 8
"""Up to this many rows, a product with a transposed matrix is computed as dot products."""
PACKING_ROWS: Final = 512
"""With more rows than this, B is packed even if its rows are contiguous."""


@lowering("matmul")
def matmul(lower: Lowering, op: Op) -> None:
    launch(lower, read_product(lower, op, lower.write(op.output)))


@lowering("fused_matmul")
def fused_matmul(lower: Lowering, op: Op) -> None:
    """A product with an expression as epilogue, applied to tiles that are still in the cache."""
    if op.inputs[0].type.dtype.is_half:
        fused_half_matmul(lower, op)
        return
    result = Value(TensorType(op.inputs[0].type.dtype, op.output.type.shape))
    values = [result, *op.inputs[2:]]
    product = read_product(lower, op, lower.scratch(result.type.nbytes))
    if _use_dots(product):  # dot products have no epilogue
        lower.bind(result, Ref(product.c.at.buffer))
        launch(lower, product)
        elementwise.launch(lower, op.attributes["expression"], values, op.outputs)
        return
    dims = op.output.type.dims
    expression, values = elementwise.fold_literals(lower, op.attributes["expression"], values)
    operands = [broadcast_matrix(lower.read(v), v.type, dims) for v in values[1:]]
    expression, operands = epilogue_operands(lower, expression, operands, dims)
    product = read_product(lower, op, lower.write(op.output), expression, tuple(operands))
    launch(lower, product)


def launch(lower: Lowering, product: Product) -> None:
    """Launch the kernels that compute a product."""
    if product.dtype.is_integer:
        integer_matmul.launch(lower, product)
    elif _use_dots(product):
        a, b = (_resident(lower, factor, product.dtype) for factor in (product.a, product.b))
        zero = Matrix(lower.constant(zero_item(product.dtype)), 0, 0, (0,) * len(product.batch))
        transposed = product.transposed
        dots(
            lower,
            product.dtype,
            transposed.m,
            transposed.n,
            product.depth,
            b.transposed,
            a.transposed,
            transposed.c,
            zero,
            product.batch,
        )
    else:
        gemm(lower, product)


def _use_dots(product: Product) -> bool:
    """Whether dot products of contiguous rows of A and columns of B are faster than tiles."""
    if product.expression is not None:
        return False
    item = product.dtype.itemsize
    contiguous = product.a.at.step == item and product.b.at.row == item
    computed = product.b.data is None and product.b.blocks is None
    return product.m <= FEW_ROWS and computed and contiguous and product.n > 1


def _resident(lower: Lowering, factor: Factor, dtype: DType) -> Matrix:
    """A factor in memory; known data becomes a constant."""
    if factor.data is None:
        return factor.at
    type_ = TensorType(dtype, factor.data.shape)
    return dense_matrix(lower.constant(factor.data.astype(dtype.numpy, copy=False)), type_)


_zeros: dict[DType, Array] = {}


def zero_item(dtype: DType) -> Array:
    """A zero of each type; always the same array, so that programs share it."""
    return _zeros.setdefault(dtype, np.zeros(1, dtype.numpy))


def gemm(lower: Lowering, product: Product) -> None:
    """Launch a product by register tiles, and the packing of its factors."""
    weights = compressed_weights(lower, product)
    if weights is not None and multiplies_blocks(lower, product):
        block_product(lower, product, weights)
        return
    direct = weights is not None and is_direct(product, weights)
    if weights is None:
        tiling = tile_product(product, lower)
    elif direct:
        tiling = tile_direct(product, weights, lower)
    else:
        tiling = tile_widened(product, lower)
    item, lanes = product.dtype.itemsize, lanes_of(str(product.dtype))
    a, b = product.a, product.b
    a_packed = a.data is not None or (tiling.n_parts > 2 and a.at.step != item and not direct)
    a_at = (
        _packed(lower, product, a.transposed, product.m, tiling.m_parts, 1).transposed
        if a_packed
        else a.at
    )
    if weights is not None:
        b_at, b_packed = weights.panels, COMPRESSED
    elif b.data is not None or b.at.step != item or product.n % lanes or product.m > PACKING_ROWS:
        b_at, b_packed = _packed(lower, product, b, product.n, tiling.n_parts, lanes), PANELS
    else:
        b_at, b_packed = b.at, 0
    zero = Matrix(lower.constant(zero_item(product.dtype)), 0, 0, (0,) * len(product.batch))
    words = gemm_layout(len(product.operands)).pack(
        **_words(product, a_at, b_at, product.c, zero),
        **{
            field: value
            for i, x in enumerate(product.operands)
            for field, value in x.fields(f"x{i}").items()
        },
        m_block=tiling.m_block,
        n_block=tiling.n_block,
        m_parts=tiling.m_parts,
        n_parts=tiling.n_parts,
        a_packed=a_packed,
        b_packed=b_packed,
        k_block=tiling.k_block,
        operands=len(product.operands),
        units=tiling.units,
        unit_block=tiling.unit_block,
    )
    epilogue = None
    if product.expression is not None:
        epilogue = read_epilogue(product.expression, product.operands)
    stored = None if weights is None else weights.stored
    kernel = kernels.gemm(str(product.dtype), *tiling.tiles, epilogue, stored)
    lower.launch(kernel, words, ceil_div(tiling.units, tiling.unit_block))


def _packed(
    lower: Lowering, product: Product, factor: Factor, count: int, parts: int, unit: int
) -> Matrix:
    """A factor [depth, count] in `parts` panels: packed data if known, else by a kernel."""
    depth, dtype = product.depth, product.dtype
    if factor.data is None:
        return pack(lower, factor.at, dtype, depth, count, product.batch, parts=parts, unit=unit)
    data = factor.data
    at = lower.packed(data, "panels", (parts, unit), dtype)
    *batch, _, _ = data.shape
    nbytes = packed_bytes(depth, count, unit, dtype)
    pitches = (
        math.prod(batch[i + 1 :]) * nbytes if extent > 1 else 0 for i, extent in enumerate(batch)
    )
    return Matrix(at, 0, 0, tuple(pitches))


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
    """Launch C[m, n] = bias[m] + A[m, depth] B[depth, n] for few columns.

    Rows of A and columns of B must be contiguous.
    """
    m_block = ceil_div(steps_per_unit(m, n * depth / DOT_MACS_PER_NS), DOT_ROWS) * DOT_ROWS
    units = math.prod(batch) * ceil_div(m, m_block)
    unit_block = units_per_tile(units, m_block * n * depth / DOT_MACS_PER_NS, lower.threads)
    product = Product(dtype, m, n, depth, batch, Factor(a), Factor(b), c)
    words = DOTS.pack(
        **_words(product, a, b, c, bias), m_block=m_block, units=units, unit_block=unit_block
    )
    lower.launch(kernels.dots(str(dtype)), words, ceil_div(units, unit_block))


def _words(product: Product, a: Matrix, b: Matrix, c: Matrix, bias: Matrix) -> dict[str, Any]:
    """The parameters that the kernels of products have in common."""
    assert len(product.batch) <= BATCH
    words: dict[str, Any] = {
        "m": product.m,
        "n": product.n,
        "depth": product.depth,
        "batch_rank": len(product.batch),
        "batch": product.batch,
    }
    for name, matrix in (("a", a), ("b", b), ("c", c), ("bias", bias)):
        words |= matrix.fields(name)
    return words
