"""Rows of codes as kernels of products read them: whole words of one signedness."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nnefc.ir import DType, Expression, Step
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.dot_words import WORD_CODES
from nnefc.lower.context import Lowering
from nnefc.lower.elementwise import expression as elementwise
from nnefc.lower.elementwise.expression import Strided, launch_strided
from nnefc.lower.movement.strided import copy_strided
from nnefc.lower.partition import ceil_div
from nnefc.lower.product.operands import Product
from nnefc.lower.product.pack import Matrix
from nnefc.program.program import Ref


def kernel_codes() -> DType:
    """The item type of codes that the kernel reads."""
    return DType(host().codes)


def shift_of(dtype: DType) -> int:
    """What is added to codes of another signedness, and to their zero points."""
    if dtype is kernel_codes():
        return 0
    return 128 if dtype is DType.INT8 else -128


def code_rows(lower: Lowering, product: Product) -> Matrix:
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
    return rows if dtype is kernel_codes() else _shifted(lower, product, rows)


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
    dtype, codes = product.dtype, kernel_codes()
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
