"""Lowering of products of halves with known matrices, whose sums an expression is applied to."""

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
from nnefc.lower.product.half_weights import half_item, weight_exponent
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
    """A `fused_matmul` of halves and a known matrix, whose items are rounded to the same type."""
    dims = op.output.type.dims
    values = [Value(TensorType(SUMS, dims)), *op.inputs[2:]]
    expression, values = elementwise.fold_literals(lower, op.attributes["expression"], values)
    operands = [broadcast_matrix(lower.read(v), v.type, dims) for v in values[1:]]
    expression, operands = epilogue_operands(lower, expression, operands, dims)
    at = lower.write(op.output)
    product = read_product(lower, op, at, expression, tuple(operands), turns=False)
    weights, lanes = product.b.data, lanes_of(str(SUMS))
    assert weights is not None and not product.depth % WORD_HALVES, "`lower_precision` excludes it"
    a, epilogue, half = word_rows(lower, product), epilogue_of(product), product.dtype
    exponent = weight_exponent(weights, half)
    scaling = (exponent,) if exponent else ()
    if half is DType.BFLOAT16 and host().matrix_dot:
        tiling, kernel = tile_matrices(product, lower), matrices.product(epilogue)
    else:
        tiling = tile_words(lower, product, SUMS)
        kernel = kernels.product(half_item(half), *tiling.tiles, epilogue)
    matrix = weights.reshape(weights.shape[-2:])
    packing = (tiling.n_parts, lanes, WORD_HALVES, 1, *scaling)
    packed = lower.packed(matrix, "panels", packing, half)
    # sums of float16 are multiplied with it, those of bfloat16 begin with it
    number = 2.0**-exponent if half is DType.FLOAT16 else 0.0
    start = lower.table(np.full(ceil_div(product.n, lanes) * lanes, number, SUMS.numpy))
    none = (0,) * len(product.batch)
    b = Panels(packed, none, start, none)
    launch_words(lower, product, tiling, kernel, a, b)
