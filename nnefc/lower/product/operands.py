"""Matrix products before tiling: strided factors, with batch dimensions folded into rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnefc.ir import DType, Expression, Op, Shape, TensorType, Value
from nnefc.kernels.tile.expression_epilogue import Epilogue
from nnefc.lower.context import Lowering, QuantizedBlocks
from nnefc.lower.elementwise import expression as elementwise
from nnefc.lower.elementwise.canonical_operands import canonical_operands
from nnefc.lower.elementwise.kernel_expression import kernel_expression
from nnefc.lower.product.pack import Array, Matrix
from nnefc.program.program import Buffer, Ref
from nnefc.support.block_formats import BLOCK_ITEMS


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor [rows, columns] of a product.

    `data`: its items [*batch, rows, columns] if known, perhaps of a narrower type than the product.
    `blocks`: its quantized blocks, which exclude `data`.  `at` has memory only without both.
    """

    at: Matrix
    data: Array | None = None
    blocks: QuantizedBlocks | None = None

    @property
    def transposed(self) -> Factor:
        """The transpose."""
        data = None if self.data is None else self.data.swapaxes(-1, -2)
        return replace(self, at=self.at.transposed, data=data)


@dataclass(frozen=True, slots=True)
class Product:
    """C[m, n] = expression(A[m, depth] B[depth, n], operands) over a batch."""

    dtype: DType
    m: int
    n: int
    depth: int
    batch: Shape
    a: Factor
    b: Factor
    c: Matrix
    expression: Expression | None = None
    operands: tuple[Matrix, ...] = ()

    @property
    def transposed(self) -> Product:
        """The product of the transposes: C^T[n, m] = B^T[n, depth] A^T[depth, m]."""
        return replace(
            self,
            m=self.n,
            n=self.m,
            a=self.b.transposed,
            b=self.a.transposed,
            c=self.c.transposed,
            operands=tuple(x.transposed for x in self.operands),
        )


def read_product(
    lower: Lowering,
    op: Op,
    at: Ref,
    expression: Expression | None = None,
    operands: tuple[Matrix, ...] = (),
    *,
    turns: bool = True,
) -> Product:
    """The product of the first two operands of `op`, to be written to `at`.

    `turns`: it may be the product of the transposes, if that is faster.
    """
    a, b = op.inputs[:2]
    a_transposed, b_transposed = op.attributes["transposeA"], op.attributes["transposeB"]
    dims = op.output.type.dims
    blocks = lower.quantized_blocks(b) if reads_blocks(op, b) else None
    if blocks is not None and not b_transposed:
        blocks = replace(blocks, is_across=True)
    a_factor, b_factor = _factor(lower, a), _factor(lower, b, blocks)
    product = Product(
        dtype=a.type.dtype,
        m=dims[-2],
        n=dims[-1],
        depth=a.type.dims[-2 if a_transposed else -1],
        batch=dims[:-2],
        a=a_factor.transposed if a_transposed else a_factor,
        b=b_factor.transposed if b_transposed else b_factor,
        c=dense_matrix(at, TensorType(op.output.type.dtype, dims)),
        expression=expression,
        operands=operands,
    )
    product = _fold_batch(product)
    return product.transposed if turns and product.n == 1 < product.m else product


def dense_matrix(at: Ref, type_: TensorType) -> Matrix:
    """A dense tensor as a matrix; batch dimensions of extent 1 get stride 0."""
    *batch, rows, columns = type_.dims
    item = type_.dtype.itemsize
    volume = rows * columns * item
    pitches = tuple(
        volume * math.prod(batch[i + 1 :]) if batch[i] > 1 else 0 for i in range(len(batch))
    )
    return Matrix(at, columns * item, item, pitches)


def broadcast_matrix(at: Ref, type_: TensorType, dims: Shape) -> Matrix:
    """A dense tensor as a matrix, broadcast to `dims`."""
    *batch, row, step = (s * type_.dtype.itemsize for s in elementwise.strides(type_.dims, dims))
    return Matrix(at, row, step, tuple(batch))


def epilogue_operands(
    lower: Lowering, expression: Expression, operands: Sequence[Matrix], dims: Shape
) -> tuple[Expression, list[Matrix]]:
    """(expression, operands) of an epilogue in canonical form; its first input is the product."""
    return canonical_operands(
        expression,
        operands,
        lambda number: Matrix(lower.table(number), 0, 0, (0,) * (len(dims) - 2)),
        fixed=1,
        kind=lambda x: not x.step,
    )


def read_epilogue(expression: Expression, operands: Sequence[Matrix]) -> Epilogue:
    """The epilogue of a product: `expression` of the result and the operands."""
    repeated = tuple(not x.step for x in operands)
    return Epilogue(kernel_expression(expression), repeated)


def reads_blocks(op: Op, value: Value) -> bool:
    """Whether `op` is a product that can read the quantized blocks of its weights `value`."""
    if op.name not in ("matmul", "fused_matmul") or op.inputs.count(value) > 1:
        return False
    *batch, rows, columns = value.type.dims
    return (
        op.inputs[1] is value
        and all(extent == 1 for extent in batch)
        and columns % BLOCK_ITEMS == 0
        and (rows > 1 if op.attributes["transposeB"] else rows % BLOCK_ITEMS == 0)
    )


def _factor(lower: Lowering, value: Value, blocks: QuantizedBlocks | None = None) -> Factor:
    data = lower.stored_data(value) if blocks is None else None
    # Known data is packed at compile time, so it needs no memory of its own.
    known = data is not None or blocks is not None
    at = Ref(Buffer("constant", 0)) if known else lower.read(value)
    return Factor(dense_matrix(at, value.type), data, blocks)


def _fold_batch(product: Product) -> Product:
    """Drop batch dimensions of extent 1, and fold others into rows where strides allow it."""
    axes = [i for i, extent in enumerate(product.batch) if extent > 1]
    product = _select_batch(product, axes)
    while product.batch and not product.b.at.batch[-1] and _rows_are_contiguous(product):
        product = _fold_rows(product)
    return product


def _select_batch(product: Product, axes: list[int]) -> Product:
    """The product with the batch dimensions `axes` only; the others have extent 1."""

    def matrix(x: Matrix) -> Matrix:
        return replace(x, batch=tuple(x.batch[i] for i in axes))

    def factor(x: Factor) -> Factor:
        data = x.data
        if data is not None:
            data = data.reshape(*(data.shape[i] for i in axes), *data.shape[-2:])
        return replace(x, at=matrix(x.at), data=data)

    return replace(
        product,
        batch=tuple(product.batch[i] for i in axes),
        a=factor(product.a),
        b=factor(product.b),
        c=matrix(product.c),
        operands=tuple(map(matrix, product.operands)),
    )


def _rows_are_contiguous(product: Product) -> bool:
    """Whether consecutive batch items have evenly spaced rows, in A, C and the operands."""
    matrices = (product.a.at, product.c, *product.operands)
    return product.m == 1 or all(x.batch[-1] == product.m * x.row for x in matrices)


def _fold_rows(product: Product) -> Product:
    """Fold the last batch dimension into rows."""
    extent = product.batch[-1]

    def matrix(x: Matrix) -> Matrix:
        return replace(x, row=x.batch[-1] if product.m == 1 else x.row, batch=x.batch[:-1])

    a, b = product.a, product.b
    a_data = a.data if a.data is None else a.data.reshape(*a.data.shape[:-3], -1, a.data.shape[-1])
    b_data = b.data if b.data is None else b.data.reshape(*b.data.shape[:-3], *b.data.shape[-2:])
    return replace(
        product,
        m=product.m * extent,
        batch=product.batch[:-1],
        a=replace(a, at=matrix(a.at), data=a_data),
        b=replace(b, at=replace(b.at, batch=b.at.batch[:-1]), data=b_data),
        c=matrix(product.c),
        operands=tuple(map(matrix, product.operands)),
    )
