"""Matrix products of integers."""

from __future__ import annotations

import math

import numpy as np

from nnefc.ir import TensorType
from nnefc.kernels.product import integer_matmul as kernels
from nnefc.kernels.product.integer_matmul import HEIGHT, PRODUCT
from nnefc.lower.context import Lowering
from nnefc.lower.movement import strided
from nnefc.lower.partition import ceil_div, steps_per_unit, units_per_tile
from nnefc.lower.product.operands import Factor, Product, dense_matrix
from nnefc.lower.product.pack import Matrix
from nnefc.support.machine_model import DOT_MACS_PER_NS


def launch(lower: Lowering, product: Product) -> None:
    """Launch a product of integers of one type."""
    a, b = _resident(lower, product, product.a), _with_rows(lower, product)
    row_ns = product.n * product.depth / DOT_MACS_PER_NS
    m_block = ceil_div(steps_per_unit(product.m, row_ns), HEIGHT) * HEIGHT
    units = math.prod(product.batch) * ceil_div(product.m, m_block)
    unit_block = units_per_tile(units, min(m_block, product.m) * row_ns, lower.threads)
    words = PRODUCT.pack(
        **a.fields("a"),
        **b.fields("b"),
        **product.c.fields("c"),
        m=product.m,
        n=product.n,
        depth=product.depth,
        batch_rank=len(product.batch),
        batch=product.batch,
        m_block=m_block,
        units=units,
        unit_block=unit_block,
    )
    kernel = kernels.product(str(product.dtype))
    lower.launch(kernel, words, ceil_div(units, unit_block))


def _resident(lower: Lowering, product: Product, factor: Factor) -> Matrix:
    """A factor in memory; known data becomes a row-major constant."""
    data = factor.data
    if data is None:
        return factor.at
    kind = product.dtype.numpy
    at = lower.derived([data], ("rows", kind), lambda: np.ascontiguousarray(data, kind))
    return dense_matrix(at, TensorType(product.dtype, data.shape))


def _with_rows(lower: Lowering, product: Product) -> Matrix:
    """B with contiguous rows: a copy if necessary."""
    item, b = product.dtype.itemsize, _resident(lower, product, product.b)
    if b.step == item or product.n == 1:
        return b
    extents = [n if pitch else 1 for n, pitch in zip(product.batch, b.batch, strict=True)]
    shape = (*extents, product.depth, product.n)
    rows = lower.scratch(math.prod(shape) * item)
    pitches = strided.dense_pitches(shape, item)
    strided.copy_strided(lower, b.at, rows, shape, (*b.batch, b.row, b.step), pitches, item)
    batch = [p if n > 1 else 0 for n, p in zip(extents, pitches)]
    return Matrix(rows, product.n * item, item, tuple(batch))
