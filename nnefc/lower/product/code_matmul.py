"""Lowering of products of codes, with or without an epilogue."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from nnefc.ir import DType, Expression, Op, Step, TensorType, Value
from nnefc.kernels.product import code_matmul as kernels
from nnefc.kernels.product import matrix_code_matmul as matrices
from nnefc.kernels.target.isa import host
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise import expression as elementwise
from nnefc.lower.product.code_panels import panels, row_terms
from nnefc.lower.product.code_rows import code_rows, word_kind
from nnefc.lower.product.operands import (
    Product,
    broadcast_matrix,
    epilogue_operands,
    read_product,
)
from nnefc.lower.product.pack import Matrix
from nnefc.lower.product.tiling import tile_matrices
from nnefc.lower.product.words import epilogue_of, launch_words, tile_words
from nnefc.symbolic.integers import hint

_MATRIX_ROWS: Final = 4
"""Fewest rows for which products in matrix registers are as fast as those in vectors."""
_MATRIX_DEPTH: Final = 32
"""The least depth for which they are."""
_SUMS: Final = Expression((DType.INT32,), (), (0,))


@lowering("code_matmul")
def code_matmul(lower: Lowering, op: Op) -> None:
    _launch(lower, op, _SUMS, [])


@lowering("fused_code_matmul")
def fused_code_matmul(lower: Lowering, op: Op) -> None:
    """A product of codes with an expression of its sums, which is applied tile by tile."""
    sums = Value(TensorType(DType.INT32, op.output.type.shape))
    values = [sums, *op.inputs[4:]]
    expression, values = elementwise.fold_literals(lower, op.attributes["expression"], values)
    dims = op.output.type.dims
    operands = [broadcast_matrix(lower.read(v), v.type, dims) for v in values[1:]]
    _launch(lower, op, expression, operands)


def _launch(lower: Lowering, op: Op, expression: Expression, operands: list[Matrix]) -> None:
    terms, dims = row_terms(lower, op), op.output.type.dims
    if terms is not None:
        expression = _with_term(expression)
        operands = [*operands, broadcast_matrix(terms.at, terms.type, dims)]
    expression, operands = epilogue_operands(lower, expression, operands, dims)
    at = lower.write(op.output)
    product = read_product(lower, op, at, expression, tuple(operands), turns=False)
    a = code_rows(lower, product)
    if terms is not None:
        terms.launch(lower, product, a)
    if _fits_matrices(product):
        tiling, kernel = tile_matrices(product, lower), matrices.product(epilogue_of(product))
    else:
        tiling = tile_words(lower, product, DType.INT32)
        kind = word_kind(product.dtype)
        kernel = kernels.product(*tiling.tiles, epilogue_of(product), kind)
    b = panels(lower, op, product, tiling.n_parts)
    launch_words(lower, product, tiling, kernel, a, b)


def _fits_matrices(product: Product) -> bool:
    """Whether matrix registers are there, and as fast as vectors or faster."""
    large = hint(product.m) >= _MATRIX_ROWS and hint(product.depth) >= _MATRIX_DEPTH
    return large and word_kind(product.dtype) == "codes" and bool(host().matrix_byte_dot)


def _with_term(expression: Expression) -> Expression:
    """The expression of its first input plus a further one, the last."""
    count = len(expression.inputs)

    def moved(operand: int) -> int:
        return count + 1 if operand == 0 else operand + 2 if operand >= count else operand

    steps = [Step("add", (0, count), DType.INT32)]
    for step in expression.steps:
        steps.append(replace(step, operands=tuple(map(moved, step.operands))))
    inputs = (*expression.inputs, DType.INT32)
    return Expression(inputs, tuple(steps), tuple(map(moved, expression.results)))
