"""Rows of codes as kernels of products read them: whole words of one signedness."""

from __future__ import annotations

from nnefc.ir import DType, Expression, Step
from nnefc.kernels.target.isa import host
from nnefc.lower.context import Lowering
from nnefc.lower.elementwise.expression import Strided, launch_strided
from nnefc.lower.product.operands import Product
from nnefc.lower.product.pack import Matrix
from nnefc.lower.product.words import read_back, row_pitch, scratch_rows, word_rows


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
    rows = word_rows(lower, product)
    return rows if product.dtype is kernel_codes() else _shifted(lower, product, rows)


def _shifted(lower: Lowering, product: Product, x: Matrix) -> Matrix:
    """The codes of rows of whole words plus or minus 128, as the other type of 8 bits."""
    y = scratch_rows(lower, product)
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
        (*product.batch, product.m, row_pitch(product)),
    )
    return read_back(y)
