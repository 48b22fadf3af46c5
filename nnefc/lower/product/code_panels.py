"""The second matrix of products of codes in panels of words, and the terms of its zero points.

Sums begin with the term of a column, -A_zero times the sums of the columns of B.  If B has a zero
point that is not subtracted from its items, the epilogue adds a term of each row
(`nnefc.kernels.product.code_panels`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from nnefc.ir import DType, Expression, Op, Shape, Step, TensorType, Value
from nnefc.kernels.product import code_panels as kernels
from nnefc.kernels.product.code_panels import PACK, ROWS
from nnefc.kernels.vector.dot_words import WORD_BYTES, WORD_CODES, dot_of, word_dot, word_items
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering
from nnefc.lower.elementwise.expression import Strided, launch_strided
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.lower.product.code_rows import shift_of, word_kind
from nnefc.lower.product.operands import Product
from nnefc.lower.product.pack import Array, Matrix
from nnefc.lower.product.words import Panels
from nnefc.ops.core.broadcast import align
from nnefc.ops.internal.code_matmul import differences_fit, weights_less_zero
from nnefc.program.program import Ref
from nnefc.support.machine_model import VECTOR_ITEMS_PER_NS

HIGHEST_BIT: Final = 0x80
"""The bit that differs between a code of uint8 and that code less 128, of int8."""


def panels(lower: Lowering, op: Op, product: Product, parts: int) -> Panels:
    """The second matrix in `parts` panels; a kernel packs it if it is computed."""
    weights = _weights(lower, op)
    a_zero, shift = op.inputs[2], shift_of(product.dtype)
    if weights is None:
        zero = _zero(lower, a_zero, shift)
        return _pack(lower, product, op.inputs[1].type.dtype, zero, parts)
    if product.b.data is not None:  # without the dimensions of the batch that are rows now
        weights = weights.reshape(*product.b.data.shape[:-2], *weights.shape[-2:])
    kind, lanes, batch = word_kind(product.dtype), lanes_of("int32"), weights.shape[:-2]
    dot, word = dot_of(kind), word_items(kind)
    at = lower.packed(weights, "panels", (parts, lanes, word, dot.planes), DType(dot.weights))
    columns = ceil_div(product.n, lanes) * lanes
    nbytes = ceil_div(product.depth, word) * dot.planes * WORD_BYTES * columns
    sums = np.zeros((*batch, columns), np.int64)
    sums[..., : product.n] = weights.sum(-2, dtype=np.int64)
    start = _known_start(lower, sums, a_zero, shift)
    return Panels(at, _pitches(batch, nbytes), start, _pitches(batch, 4 * columns))


def _pitches(batch: Shape, nbytes: int) -> Shape:
    """Bytes along each dimension of a batch of `nbytes` bytes an item; 0 for extents of 1."""
    return tuple(
        math.prod(batch[i + 1 :]) * nbytes if extent != 1 else 0 for i, extent in enumerate(batch)
    )


# -- known matrices


def _weights(lower: Lowering, op: Op) -> Array | None:
    """The second matrix in int8, [.., depth, n]; None if it is computed.

    Its zero point is subtracted, or the middle of its codes if int8 does not hold the differences.
    For codes of 16 bits, the differences are int16.
    """
    a, b, _, b_zero = op.inputs[:4]
    codes, zero = lower.data(b), lower.data(b_zero)
    if codes is None:
        return None
    codes = np.broadcast_to(codes, b.type.dims)
    weights = None if zero is None else weights_less_zero(codes, zero)
    if weights is None and word_kind(a.type.dtype) == "pairs":
        assert zero is not None, "`float_reason` excludes it"
        x, z = align(codes.astype(np.int16), zero.astype(np.int16))
        weights = x - z
    if weights is None:
        weights = codes if b.type.dtype is DType.INT8 else (codes ^ HIGHEST_BIT).view(np.int8)
    return weights.swapaxes(-1, -2) if op.attributes["transposeB"] else weights


def _known_start(lower: Lowering, columns: Array, a_zero: Value, shift: int) -> Ref:
    """-(A_zero + shift) times the sums of the columns, int32."""
    known = lower.scalar(a_zero)
    if known is not None:
        return lower.table((-(int(known) + shift) * columns).astype(np.int32))
    sums, start = lower.table((-columns).astype(np.int32)), lower.scratch(4 * columns.size)
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
        (columns.size,),
    )
    return Ref(start.buffer, start.offset)


# -- computed matrices


def _pack(lower: Lowering, product: Product, dtype: DType, zero: Ref, parts: int) -> Panels:
    """Launch a kernel that packs the second matrix."""
    x, depth, count = product.b.at, product.depth, product.n
    extents = tuple(n if pitch else 1 for n, pitch in zip(product.batch, x.batch, strict=True))
    columns = ceil_div(count, lanes_of("int32")) * lanes_of("int32")
    nbytes = ceil_div(depth, WORD_CODES) * word_dot().planes * WORD_CODES * columns
    y, start = (lower.scratch(math.prod(extents) * n) for n in (nbytes, 4 * columns))
    batch, start_batch = _pitches(extents, nbytes), _pitches(extents, 4 * columns)
    contiguous_rows = x.step == 1
    assert contiguous_rows or x.row == 1, "tensors are dense"
    work = math.prod(extents) * parts
    cost = depth * ceil_div(count, parts) / VECTOR_ITEMS_PER_NS
    tile = units_per_tile(work, cost, lower.threads)
    words = PACK.pack(
        x=x.at,
        y=y,
        start=start,
        zero=zero,
        depth=depth,
        count=count,
        pitch=x.row if contiguous_rows else x.step,
        panels=parts,
        flip=0 if dtype is DType.INT8 else HIGHEST_BIT,
        batch_rank=len(extents),
        batch=extents,
        x_batch=x.batch,
        y_batch=batch,
        start_batch=start_batch,
        tiles=work,
        tile_block=tile,
    )
    lower.launch(kernels.words(contiguous_rows), words, ceil_div(work, tile))
    return Panels(Ref(y.buffer), batch, Ref(start.buffer), start_batch)


# -- zero points of the second matrix


@dataclass(frozen=True, slots=True)
class RowTerms:
    """The terms of the rows of A for a zero point of B, an operand of the epilogue."""

    at: Ref
    type: TensorType
    a_zero: Ref
    b_zero: Ref

    def launch(self, lower: Lowering, product: Product, a: Matrix) -> None:
        """Launch a kernel that computes them from rows of codes."""
        y = next(x for x in product.operands if x.at == self.at)
        extents = tuple(n if pitch else 1 for n, pitch in zip(product.batch, y.batch, strict=True))
        work = math.prod(extents) * product.m
        tile = units_per_tile(work, product.depth / VECTOR_ITEMS_PER_NS, lower.threads)
        words = ROWS.pack(
            x=a.at,
            y=Ref(self.at.buffer, writes=True),
            x_zero=self.a_zero,
            y_zero=self.b_zero,
            rows=product.m,
            depth=product.depth,
            x_row=a.row,
            y_row=y.row,
            batch_rank=len(extents),
            batch=extents,
            x_batch=a.batch,
            y_batch=y.batch,
            tiles=work,
            tile_block=tile,
        )
        lower.launch(kernels.row_terms(), words, ceil_div(work, tile))


def row_terms(lower: Lowering, op: Op) -> RowTerms | None:
    """The terms of rows, in memory that a launch has to fill; None if they are zero."""
    a, b, a_zero, b_zero = op.inputs[:4]
    codes, zero = lower.data(b), lower.data(b_zero)
    if codes is not None and zero is not None and differences_fit(a.type.dtype, codes, zero):
        return None
    shift = 0 if b.type.dtype is DType.INT8 else -HIGHEST_BIT
    known = lower.scalar(b_zero)
    if known is not None and int(known) + shift == 0:
        return None
    *batch, rows, _ = op.output.type.dims
    extents = tuple(1 if n == 1 else m for n, m in zip(a.type.dims[:-2], batch, strict=True))
    type_ = TensorType(DType.INT32, (*extents, rows, 1))
    a_shift = shift_of(a.type.dtype)
    at = Ref(lower.scratch(type_.nbytes).buffer)
    return RowTerms(at, type_, _zero(lower, a_zero, a_shift), _zero(lower, b_zero, shift))


def _zero(lower: Lowering, zero: Value, shift: int) -> Ref:
    """A zero point plus `shift`, int32."""
    known = lower.scalar(zero)
    if known is not None:
        return lower.table(np.array([int(known) + shift], np.int32))
    at, dtype = lower.scratch(DType.INT32.itemsize), zero.type.dtype
    steps = (
        Step("cast", (0,), DType.INT32),
        Step("literal", (), DType.INT32, shift),
        Step("add", (1, 2), DType.INT32),
    )
    launch_strided(
        lower,
        Expression((dtype,), steps, (3,)),
        [Strided(lower.read(zero), dtype, (0,))],
        [Strided(at, DType.INT32, (1,))],
        (1,),
    )
    return Ref(at.buffer)
