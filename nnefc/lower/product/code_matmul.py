"""Lowering of products of codes, with or without an epilogue."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from nnefc.ir import DType, Expression, Op, Step, TensorType, Value
from nnefc.kernels.product import code_matmul as kernels
from nnefc.kernels.product.code_matmul import code_layout
from nnefc.kernels.vector.dot_words import WORD_CODES
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise import expression as elementwise
from nnefc.lower.partition import ceil_div
from nnefc.lower.product.code_panels import panels, row_terms
from nnefc.lower.product.code_rows import code_rows
from nnefc.lower.product.matmul import read_epilogue
from nnefc.lower.product.operands import (
    broadcast_matrix,
    epilogue_operands,
    read_product,
)
from nnefc.lower.product.pack import Matrix
from nnefc.lower.product.tiling import tile_product

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
    words = ceil_div(product.depth, WORD_CODES)
    a = code_rows(lower, product)
    if terms is not None:
        terms.launch(lower, product, a)
    tiling = tile_product(replace(product, dtype=DType.INT32, depth=words), lower)
    b = panels(lower, op, product, tiling.n_parts)
    fields = {
        field: value
        for i, x in enumerate(product.operands)
        for field, value in x.fields(f"x{i}").items()
    }
    parameters = code_layout(len(product.operands)).pack(
        **a.fields("a"),
        **product.c.fields("c"),
        **fields,
        b=b.at,
        b_batch=b.batch,
        start=b.start,
        start_batch=b.start_batch,
        m=product.m,
        n=product.n,
        words=words,
        batch_rank=len(product.batch),
        batch=product.batch,
        m_block=tiling.m_block,
        n_block=tiling.n_block,
        m_parts=tiling.m_parts,
        n_parts=tiling.n_parts,
        units=tiling.units,
        unit_block=tiling.unit_block,
        operands=len(product.operands),
    )
    kernel = kernels.product(*tiling.tiles, read_epilogue(expression, product.operands))
    lower.launch(kernel, parameters, ceil_div(tiling.units, tiling.unit_block))


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
