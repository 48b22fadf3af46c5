"""Lowering of products of bfloat16 with known matrices, whose sums an expression is applied to."""

from __future__ import annotations

import numpy as np

from nnefc.ir import DType, Op, TensorType, Value
from nnefc.kernels.product import half_matmul as kernels
from nnefc.kernels.vector.dot_halves import WORD_HALVES, half_dot
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering
from nnefc.lower.elementwise import expression as elementwise
from nnefc.lower.partition import ceil_div
from nnefc.lower.product.operands import broadcast_matrix, epilogue_operands, read_product
from nnefc.lower.product.words import Panels, launch_words, tile_words, word_rows

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
    weights, dot, lanes = product.b.data, half_dot(), lanes_of(str(SUMS))
    assert weights is not None and not product.depth % WORD_HALVES, "`lower_precision` excludes it"
    a, tiling = word_rows(lower, product), tile_words(lower, product, SUMS)
    matrix = weights.reshape(weights.shape[-2:])
    packing = (tiling.n_parts, lanes, WORD_HALVES, dot.planes)
    packed = lower.packed(matrix, "panels", packing, DType(dot.weights))
    start = lower.table(np.zeros(ceil_div(product.n, lanes) * lanes, SUMS.numpy))
    none = (0,) * len(product.batch)
    b = Panels(packed, none, start, none)
    launch_words(lower, product, tiling, kernels.product, a, b)
