"""Lowering of products of bfloat16 with known matrices, whose sums an expression is applied to."""

from __future__ import annotations

import numpy as np

from nnefc.ir import DType, Op, TensorType, Value
from nnefc.kernels.product import half_matmul as kernels
from nnefc.kernels.product import matrix_matmul as matrices
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.dot_halves import WORD_HALVES
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering
from nnefc.lower.elementwise import expression as elementwise
from nnefc.lower.partition import ceil_div
from nnefc.lower.product.operands import broadcast_matrix, epilogue_operands, read_product
from nnefc.lower.product.tiling import tile_matrices
from nnefc.lower.product.words import (
    Panels,
    epilogue_of,
    launch_words,
    tile_words,
    word_rows,
)

SUMS = DType.FLOAT32


def fused_half_matmul(lower: Lowering, op: Op) -> None:
    """A `fused_matmul` of bfloat16 and a known matrix, whose items are rounded to bfloat16."""
    dims = op.output.type.dims
    values = [Value(TensorType(SUMS, dims)), *op.inputs[2:]]
    expression, values = elementwise.fold_literals(lower, op.attributes["expression"], values)
    operands = [broadcast_matrix(lower.read(v), v.type, dims) for v in values[1:]]
    expression, operands = epilogue_operands(lower, expression, operands, dims)
    at = lower.write(op.output)
    product = read_product(lower, op, at, expression, tuple(operands), turns=False)
    weights, lanes = product.b.data, lanes_of(str(SUMS))
    assert weights is not None and not product.depth % WORD_HALVES, "`lower_precision` excludes it"
    a, epilogue = word_rows(lower, product), epilogue_of(product)
    if host().matrix_dot:
        tiling, kernel = tile_matrices(product, lower), matrices.product(epilogue)
    else:
        tiling = tile_words(lower, product, SUMS)
        kernel = kernels.product(*tiling.tiles, epilogue)
    matrix = weights.reshape(weights.shape[-2:])
    packing = (tiling.n_parts, lanes, WORD_HALVES, 1)
    packed = lower.packed(matrix, "panels", packing, product.dtype)
    start = lower.table(np.zeros(ceil_div(product.n, lanes) * lanes, SUMS.numpy))
    none = (0,) * len(product.batch)
    b = Panels(packed, none, start, none)
    launch_words(lower, product, tiling, kernel, a, b)
