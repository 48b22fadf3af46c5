"""Rows of codes as kernels of products read them: whole words of one signedness."""

from __future__ import annotations

from nnefc.ir import DType, Expression, Step
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.dot_words import WordKind
from nnefc.lower.context import Lowering
from nnefc.lower.elementwise.expression import Strided, launch_strided
from nnefc.lower.product.operands import Product
from nnefc.lower.product.pack import Matrix
from nnefc.lower.product.words import read_back, row_pitch, scratch_rows, word_rows


def word_kind(dtype: DType) -> WordKind:
    """What the words of codes are."""
    return "codes" if dtype.itemsize == 1 else "pairs"


def kernel_codes(dtype: DType) -> DType:
    """The item type in which the kernel reads codes of a type."""
    return DType(host().codes) if dtype.itemsize == 1 else DType.INT16


def shift_of(dtype: DType) -> int:
    """What is added to codes of another signedness, and to their zero points."""
    if dtype is kernel_codes(dtype):
        return 0
    half = 1 << 8 * dtype.itemsize - 1
    return half if dtype.is_signed else -half


def code_rows(lower: Lowering, product: Product) -> Matrix:
    """The first matrix, with rows of whole words of the type that the kernel reads."""
    rows = word_rows(lower, product)
    return rows if product.dtype is kernel_codes(product.dtype) else _shifted(lower, product, rows)


def _shifted(lower: Lowering, product: Product, x: Matrix) -> Matrix:
    """The codes of rows of whole words, with the highest bit flipped, as the other type."""
    y = scratch_rows(lower, product)
    dtype, codes = product.dtype, kernel_codes(product.dtype)
    bits = DType.UINT8 if dtype.itemsize == 1 else DType.UINT16
    steps = (
        Step("bitcast", (0,), bits),
        Step("literal", (), bits, 1 << 8 * dtype.itemsize - 1),
        Step("add", (1, 2), bits),
        Step("bitcast", (3,), codes),
    )
    launch_strided(
        lower,
        Expression((dtype,), steps, (4,)),
        [Strided(x.at, dtype, (*x.batch, x.row, dtype.itemsize))],
        [Strided(y.at, codes, (*y.batch, y.row, dtype.itemsize))],
        (*product.batch, product.m, row_pitch(product) // dtype.itemsize),
    )
    return read_back(y)
