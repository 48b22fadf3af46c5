"""Launches of products whose unit of the depth is a word of 32 bits.

See `nnefc.kernels.product.word_product`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from nnefc.ir import DType, Shape
from nnefc.kernels.family import Kernel
from nnefc.kernels.product.word_product import word_layout
from nnefc.kernels.tile.expression_epilogue import Epilogue
from nnefc.kernels.vector.dot_words import WORD_BYTES
from nnefc.lower.context import Lowering
from nnefc.lower.elementwise import expression as elementwise
from nnefc.lower.movement.strided import copy_strided
from nnefc.lower.partition import ceil_div
from nnefc.lower.product.operands import Product, read_epilogue
from nnefc.lower.product.pack import Matrix
from nnefc.lower.product.tiling import ProductTiling, tile_product
from nnefc.program.program import Ref


@dataclass(frozen=True, slots=True)
class Panels:
    """The second matrix and what sums of its columns begin with, with bytes along the batch."""

    at: Ref
    batch: Shape
    start: Ref
    start_batch: Shape


def tile_words(lower: Lowering, product: Product, sums: DType) -> ProductTiling:
    """The tiling of a product over words, whose sums have the type `sums`."""
    words = row_pitch(product) // WORD_BYTES
    return tile_product(replace(product, dtype=sums, depth=words), lower)


def launch_words(
    lower: Lowering,
    product: Product,
    tiling: ProductTiling,
    kernel: Kernel,
    a: Matrix,
    b: Panels,
) -> None:
    """Launch a kernel of a product with an expression; `a`: rows of whole words."""
    fields = {
        field: value
        for i, x in enumerate(product.operands)
        for field, value in x.fields(f"x{i}").items()
    }
    parameters = word_layout(len(product.operands)).pack(
        **a.fields("a"),
        **product.c.fields("c"),
        **fields,
        b=b.at,
        b_batch=b.batch,
        start=b.start,
        start_batch=b.start_batch,
        m=product.m,
        n=product.n,
        words=row_pitch(product) // WORD_BYTES,
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
    lower.launch(kernel, parameters, ceil_div(tiling.units, tiling.unit_block))


def epilogue_of(product: Product) -> Epilogue:
    """The epilogue of a product with an expression."""
    assert product.expression is not None
    return read_epilogue(product.expression, product.operands)


# -- the first matrix


def word_rows(lower: Lowering, product: Product) -> Matrix:
    """The first matrix, with rows of whole words."""
    rows = product.a.at
    if product.a.data is not None:
        data, dtype = product.a.data, product.dtype
        at = lower.derived(
            [data],
            ("rows", str(dtype)),
            lambda: np.ascontiguousarray(data.astype(dtype.numpy, copy=False)),
        )
        pitches = tuple(x * dtype.itemsize for x in elementwise.strides(data.shape, data.shape))
        rows = Matrix(at, pitches[-2], pitches[-1], pitches[:-2])
    whole = not product.depth * product.dtype.itemsize % WORD_BYTES
    return rows if whole and rows.step == product.dtype.itemsize else _copied(lower, product, rows)


def row_pitch(product: Product) -> int:
    """Bytes of a row of whole words."""
    return ceil_div(product.depth * product.dtype.itemsize, WORD_BYTES) * WORD_BYTES


def scratch_rows(lower: Lowering, product: Product) -> Matrix:
    """Memory for the first matrix in rows of whole words."""
    pitch, batch = row_pitch(product), product.batch
    pitches = tuple(math.prod(batch[i + 1 :]) * product.m * pitch for i in range(len(batch)))
    at = lower.scratch(math.prod(batch) * product.m * pitch)
    return Matrix(at, pitch, product.dtype.itemsize, pitches)


def _copied(lower: Lowering, product: Product, x: Matrix) -> Matrix:
    """A copy with rows of whole words; what follows the depth is multiplied by zeros."""
    y = scratch_rows(lower, product)
    extents = (*product.batch, product.m, product.depth)
    item = product.dtype.itemsize
    steps = (*x.batch, x.row, x.step), (*y.batch, y.row, item)
    copy_strided(lower, x.at, y.at, extents, *steps, item)
    return read_back(y)


def read_back(x: Matrix) -> Matrix:
    """Scratch that has been written."""
    return replace(x, at=Ref(x.at.buffer, x.at.offset))
