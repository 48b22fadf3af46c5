"""Matrix products of integers, which wrap around in their type.

A tile of C stays in registers along the depth; a step multiplies an item of A in all lanes by
vectors of a row of B.  Rows of B and C are contiguous; A and batches have strides.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from functools import cache
from typing import Any

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.target import isa
from nnefc.kernels.tile.expression_epilogue import operand_fields
from nnefc.kernels.tile.panels import BATCH, batch_offset
from nnefc.kernels.vector.item_types import BITS
from nnefc.kernels.vector.lanes import Lanes
from nnefc.kernels.vector.memory import address, load_word
from nnefc.kernels.vector.vector_builder import Vector, vector_intrinsic

HEIGHT, WIDTH = 4, 2
"""Rows x vectors of a tile."""

PRODUCT = Layout(
    " ".join(
        [
            *operand_fields("a", "b", "c"),
            f"m n depth batch_rank batch:{BATCH} m_block units unit_block",
        ]
    )
)
"""Parameters of `integer_matmul.product`: as `nnefc.kernels.product.matmul.DOTS`, without bias.

b_step and c_step are the item size.  A unit of work is `m_block` rows of a batch item, a tile
`unit_block` of `units`.
"""
(
    A,
    A_ROW,
    A_STEP,
    A_BATCH,
    B,
    B_ROW,
    _,
    B_BATCH,
    C,
    C_ROW,
    _,
    C_BATCH,
    M,
    N,
    DEPTH,
    BATCH_RANK,
    BATCH_EXTENTS,
    M_BLOCK,
    UNITS,
    UNIT_BLOCK,
) = PRODUCT.offsets


@family()
def product(item: str) -> KernelFunction:
    """C[m, n] = A[m, depth] B[depth, n]."""
    multiply = rows_product(item)

    def product(bases, params, first, last):
        a, b, c = (
            address(bases, params + A),
            address(bases, params + B),
            address(bases, params + C),
        )
        a_row, c_row = load_word(params + A_ROW), load_word(params + C_ROW)
        m, m_block = load_word(params + M), load_word(params + M_BLOCK)
        unit_block, units = load_word(params + UNIT_BLOCK), load_word(params + UNITS)
        blocks = (m + m_block - 1) // m_block
        for t in range(first * unit_block, min(last * unit_block, units)):
            number, row = t // blocks, t % blocks * m_block
            multiply(
                a + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, A_BATCH, number) + row * a_row,
                b + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, B_BATCH, number),
                c + batch_offset(params, BATCH_RANK, BATCH_EXTENTS, C_BATCH, number) + row * c_row,
                min(m_block, m - row),
                params,
            )

    return product


@cache
def rows_product(item: str) -> Any:
    """Intrinsic `multiply(a, b, c, rows, params)` for `rows` rows of A and C at these addresses."""
    lanes = isa.host().vector_bits // BITS[item]

    @vector_intrinsic(item, lanes, 5, apart=True)
    def multiply(v: Vector, a, b, c, rows, params):
        loops = _TileLoops(v, a, b, c, params)
        whole = v.builder.sub(rows, v.builder.srem(rows, v.word(HEIGHT)))
        loops.rows(v.word(0), whole, HEIGHT)
        loops.rows(whole, rows, 1)

    return multiply


class _TileLoops:
    """Emits the loops over tiles of C."""

    def __init__(self, v: Vector, a: Any, b: Any, c: Any, params: Any) -> None:
        self._v = v
        self._a, self._b, self._c = (v.pointer(at) for at in (a, b, c))
        fields = (A_ROW, A_STEP, B_ROW, C_ROW, N, DEPTH)
        words = [self._word(params, field) for field in fields]
        self._a_row, self._a_step, self._b_row, self._c_row, self._n, self._depth = words

    def _word(self, params: Any, field: int) -> Any:
        v = self._v
        return v.builder.load(v.pointer(v.builder.add(params, v.word(field))), typ=v.word(0).type)

    def rows(self, start: Any, stop: Any, height: int) -> None:
        """Compute rows `start` to `stop` - 1, `height` at a time."""
        v, b = self._v, self._v.builder
        width = WIDTH * v.lanes
        whole = b.sub(self._n, b.srem(self._n, v.word(width)))
        with v.loop(start, stop, height) as row:
            with v.loop(0, whole, width) as column:
                self._tile(row.index, column.index, height, WIDTH)
            with v.loop(whole, self._n, v.lanes) as column:
                mask = v.wide_mask(b.sub(self._n, column.index))
                self._tile(row.index, column.index, height, 1, mask)

    def _tile(
        self, row: Any, column: Any, height: int, width: int, mask: Lanes | None = None
    ) -> None:
        """Compute a tile of C; `mask` selects columns of its only vector."""
        v, b = self._v, self._v.builder
        across = b.mul(column, v.word(v.itemsize))
        rows = [b.add(row, v.word(i)) for i in range(height)]
        a = [v.at(self._a, b.mul(i, self._a_row)) for i in rows]
        zero = v.zero()
        start = v.at(self._b, across)
        with v.loop(0, self._depth, 1, [zero] * (height * width)) as k:
            below = v.at(start, b.mul(k.index, self._b_row))
            vectors = [v.load(v.at(below, j * v.nbytes), mask=mask) for j in range(width)]
            along = b.mul(k.index, self._a_step)
            items = [v.load_splat(v.at(at, along)) for at in a]
            sums = iter(k.values)
            k.next = [next(sums) + x * y for x in items for y in vectors]
        sums = iter(k.values)
        for i in rows:
            target = v.at(v.at(self._c, b.mul(i, self._c_row)), across)
            for j in range(width):
                next(sums).store(v.at(target, j * v.nbytes), mask=mask)
