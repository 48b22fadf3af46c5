"""Lowering of products of codes with known matrices, with or without an epilogue."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from nnefc.ir import DType, Expression, Op, Shape, Step, TensorType, Value
from nnefc.kernels.product import code_matmul as kernels
from nnefc.kernels.product.code_matmul import code_layout
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.dot_words import WORD_CODES, word_dot
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise import expression as elementwise
from nnefc.lower.elementwise.expression import Strided, launch_strided
from nnefc.lower.movement.strided import copy_strided
from nnefc.lower.partition import ceil_div
from nnefc.lower.product.matmul import read_epilogue
from nnefc.lower.product.operands import (
    Product,
    broadcast_matrix,
    epilogue_operands,
    read_product,
)
from nnefc.lower.product.pack import Array, Matrix
from nnefc.lower.product.tiling import tile_product
from nnefc.ops.internal.code_matmul import weights_less_zero
from nnefc.program.program import Ref

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
    expression, operands = epilogue_operands(lower, expression, operands, dims)
    _launch(lower, op, expression, operands)


def _launch(lower: Lowering, op: Op, expression: Expression, operands: list[Matrix]) -> None:
    at = lower.write(op.output)
    product = read_product(lower, op, at, expression, tuple(operands), turns=False)
    weights = _weights(lower, op)
    words = ceil_div(product.depth, WORD_CODES)
    a = _code_rows(lower, product)
    tiling = tile_product(replace(product, dtype=DType.INT32, depth=words), lower)
    fields = {
        field: value
        for i, x in enumerate(product.operands)
        for field, value in x.fields(f"x{i}").items()
    }
    parameters = code_layout(len(product.operands)).pack(
        **a.fields("a"),
        **product.c.fields("c"),
        **fields,
        b=_panels(lower, weights, tiling.n_parts),
        start=_start(lower, op, weights),
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


# -- the second matrix


def _weights(lower: Lowering, op: Op) -> Array:
    """The second matrix less its zero points, int8 [depth, n]."""
    _, b, _, b_zero = op.inputs[:4]
    codes, zero = lower.data(b), lower.data(b_zero)
    assert codes is not None and zero is not None
    weights = weights_less_zero(np.broadcast_to(codes, b.type.dims), zero)
    assert weights is not None, "`float_reason` excludes it"
    weights = weights.reshape(weights.shape[-2:])
    return weights.swapaxes(0, 1) if op.attributes["transposeB"] else weights


def _panels(lower: Lowering, weights: Array, parts: int) -> Ref:
    """The second matrix in panels of words."""
    dot = word_dot()
    parameters = (parts, lanes_of("int32"), WORD_CODES, dot.planes)
    return lower.packed(weights, "panels", parameters, DType(dot.weights))


# -- the first matrix


def _kernel_codes() -> DType:
    """The item type of codes that the kernel reads."""
    return DType(host().codes)


def _shift(dtype: DType) -> int:
    """What is added to codes of another signedness, and to their zero points."""
    if dtype is _kernel_codes():
        return 0
    return 128 if dtype is DType.INT8 else -128


def _code_rows(lower: Lowering, product: Product) -> Matrix:
    """The first matrix, with rows of whole words of the type that the kernel reads."""
    rows = product.a.at
    dtype, whole = product.dtype, not product.depth % WORD_CODES
    if product.a.data is not None:
        data = product.a.data
        at = lower.derived([data], ("rows", str(dtype)), lambda: np.ascontiguousarray(data))
        pitches = elementwise.strides(data.shape, data.shape)
        rows = Matrix(at, pitches[-2], pitches[-1], pitches[:-2])
    if not (whole and rows.step == 1):
        rows = _copied(lower, product, rows)
    return rows if dtype is _kernel_codes() else _shifted(lower, product, rows)


def _pitch(product: Product) -> int:
    """Bytes of a row of whole words."""
    return ceil_div(product.depth, WORD_CODES) * WORD_CODES


def _scratch_rows(lower: Lowering, product: Product) -> Matrix:
    """Memory for the first matrix in rows of whole words."""
    pitch, batch = _pitch(product), product.batch
    pitches = tuple(math.prod(batch[i + 1 :]) * product.m * pitch for i in range(len(batch)))
    at = lower.scratch(math.prod(batch) * product.m * pitch)
    return Matrix(at, pitch, 1, pitches)


def _copied(lower: Lowering, product: Product, x: Matrix) -> Matrix:
    """A copy with rows of whole words; what follows the depth is multiplied by zeros."""
    y = _scratch_rows(lower, product)
    extents = (*product.batch, product.m, product.depth)
    copy_strided(lower, x.at, y.at, extents, (*x.batch, x.row, x.step), (*y.batch, y.row, 1), 1)
    return _read(y)


def _shifted(lower: Lowering, product: Product, x: Matrix) -> Matrix:
    """The codes of rows of whole words plus or minus 128, as the other type of 8 bits."""
    y = _scratch_rows(lower, product)
    dtype, codes = product.dtype, _kernel_codes()
    steps = (
        Step("bitcast", (0,), DType.UINT8),
        Step("literal", (), DType.UINT8, 128),
        Step("add", (1, 2), DType.UINT8),
        Step("bitcast", (3,), codes),
    )
    launch_strided(
        lower,
        Expression((dtype,), steps, (4,)),
        [Strided(x.at, dtype, (*x.batch, x.row, 1))],
        [Strided(y.at, codes, (*y.batch, y.row, 1))],
        (*product.batch, product.m, _pitch(product)),
    )
    return _read(y)


def _read(x: Matrix) -> Matrix:
    """Scratch that has been written."""
    return replace(x, at=Ref(x.at.buffer, x.at.offset))


# -- what sums begin with


def _start(lower: Lowering, op: Op, weights: Array) -> Ref:
    """-A_zero times the sums of the columns of B: int32, whole vectors."""
    a_zero, shift = op.inputs[2], _shift(op.inputs[0].type.dtype)
    lanes = lanes_of("int32")
    columns = weights.shape[1]
    padded: Shape = (ceil_div(columns, lanes) * lanes,)

    def scaled(factor: int) -> Array:
        sums = np.zeros(padded, np.int64)
        sums[:columns] = factor * weights.sum(0, dtype=np.int64)
        return sums.astype(np.int32)

    known = lower.scalar(a_zero)
    if known is not None:
        return lower.table(scaled(-(int(known) + shift)))
    sums, start = lower.table(scaled(-1)), lower.scratch(4 * padded[0])
    steps = (
        Step("cast", (0,), DType.INT32),
        Step("literal", (), DType.INT32, shift),
        Step("add", (2, 3), DType.INT32),
        Step("mul", (4, 1), DType.INT32),
    )
    dtype = a_zero.type.dtype
    launch_strided(
        lower,
        Expression((dtype, DType.INT32), steps, (5,)),
        [Strided(lower.read(a_zero), dtype, (0,)), Strided(sums, DType.INT32, (1,))],
        [Strided(start, DType.INT32, (1,))],
        padded,
    )
    return Ref(start.buffer, start.offset)
