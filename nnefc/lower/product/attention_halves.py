"""Lowering of attention of halves (`nnefc.kernels.product.attention_halves`)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from nnefc.ir import DType, Expression, Shape, Step
from nnefc.kernels.product import attention_halves as kernels
from nnefc.kernels.product.attention_halves import UNIT_ROWS, attention_layout, blocking
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.dot_halves import SMALLER, WORD_HALVES
from nnefc.kernels.vector.dot_words import WORD_BYTES
from nnefc.lower.context import Lowering
from nnefc.lower.elementwise.expression import Strided, launch_strided
from nnefc.lower.partition import ceil_div
from nnefc.lower.product.attention_problem import AttentionProblem
from nnefc.lower.product.half_weights import half_item
from nnefc.lower.product.operands import read_epilogue
from nnefc.lower.product.pack import Matrix, pack
from nnefc.lower.product.tiling import balanced_sizes, product_units_per_tile, tile_sizes
from nnefc.ops.internal.half_rounding import rounding
from nnefc.program.program import Ref
from nnefc.support.alignment import CACHE_LINE
from nnefc.support.machine_model import HALF_MACS_PER_NS, MATRIX_MACS_PER_NS
from nnefc.symbolic.integers import is_symbolic

_WORDS: Final = DType.FLOAT32
"""The type as which kernels move words."""


def lower_halves(lower: Lowering, problem: AttentionProblem, half: DType, *, empty: bool) -> None:
    """Round q, k and v, pack k and v in words, and launch the kernel."""
    ((keys, k, v),) = problem.segments
    batch, depth, width, sizes = problem.batch, problem.depth, problem.width, blocking()
    smaller = SMALLER if half is DType.FLOAT16 else 1.0
    q = _rounded(lower, problem.q, (problem.rows, depth), batch, half, smaller)
    vectors = ceil_div(keys, sizes.lanes)
    key_parts = ceil_div(vectors, sizes.vectors)
    k = replace(_rounded(lower, k, (keys, depth), batch, half), step=WORD_BYTES).transposed
    words, unit = depth // WORD_HALVES, sizes.lanes
    k = pack(lower, k, _WORDS, words, keys, batch, parts=key_parts, unit=unit)
    v = _paired(lower, v, (keys, width), batch, half)
    m_parts = ceil_div(problem.rows, UNIT_ROWS)
    pitch = _pitch(vectors * sizes.lanes * DType.FLOAT32.itemsize)
    units = math.prod(batch) * m_parts
    macs = UNIT_ROWS * keys * (depth + width)
    rate = MATRIX_MACS_PER_NS / 2 if host().matrix_dot else HALF_MACS_PER_NS
    unit_block = product_units_per_tile(units, macs / rate)
    factor = _factor(problem.expression)
    matrices = {"q": q, "k": k, "v": v, "y": problem.y}
    matrices |= {f"x{i}": x for i, x in enumerate(problem.operands)}
    parameters = attention_layout(len(problem.operands)).pack(
        **{field: value for name, x in matrices.items() for field, value in x.fields(name).items()},
        rows=problem.rows,
        keys=keys,
        depth=depth,
        width=width,
        batch_rank=len(batch),
        batch=batch,
        m_parts=m_parts,
        key_parts=key_parts,
        pitch=pitch,
        units=units,
        unit_block=unit_block,
        empty=int(empty),
        factor=int(np.float32(factor).view(np.int32)),
        start=_start(lower, half),
        operands=len(problem.operands),
    )
    epilogue = None
    if problem.expression.steps and factor == 1:
        epilogue = read_epilogue(problem.expression, problem.operands)
    tiles = _all_tiles() if lower.dynamic_shapes else _tiles(problem.rows, keys, width)
    kernel = kernels.rows(half_item(half), *tiles, epilogue)
    lower.launch(kernel, parameters, ceil_div(units, unit_block))


def _start(lower: Lowering, half: DType) -> Ref:
    """What sums of bfloat16 begin with, and sums of float16 are multiplied with."""
    number = 1 / SMALLER if half is DType.FLOAT16 else 0.0
    sizes = blocking()
    return lower.constant(np.full(sizes.vectors * sizes.lanes, number, np.float32))


def _factor(expression: Expression) -> float:
    """The positive number that the expression multiplies scores with; 1 for another expression."""
    if len(expression.inputs) == 1 and len(expression.steps) == 2:
        number, product = expression.steps
        if number.op == "literal" and product.op == "mul" and set(product.operands) == {0, 1}:
            value = float(number.value or 0)
            return value if 0 < value < math.inf else 1.0
    return 1.0


def _tiles(rows: int, keys: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(heights, widths) of tiles; none for matrix registers, which take any."""
    if host().matrix_dot:
        return (), ()
    sizes = blocking()
    units = balanced_sizes(rows, ceil_div(rows, UNIT_ROWS))
    heights = {h for n in units for h in balanced_sizes(n, ceil_div(n, sizes.rows))}
    vectors = (ceil_div(n, sizes.lanes) for n in (keys, width))
    widths = {w for n in vectors for w in balanced_sizes(n, ceil_div(n, sizes.vectors))}
    return tile_sizes(tuple(sorted(heights)), tuple(sorted(widths)))


def _all_tiles() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """`_tiles` for any number of rows, keys and columns."""
    if host().matrix_dot:
        return (), ()
    sizes = blocking()
    units = range(UNIT_ROWS // 2, UNIT_ROWS + 1)
    least = min(n // ceil_div(n, sizes.rows) for n in units)
    return tuple(range(least, sizes.rows + 1)), tuple(range(1, sizes.vectors + 1))


def _pitch(nbytes: int) -> int:
    """Bytes between rows of scores of `nbytes`.

    Rows a multiple of 1024 bytes apart would compete for the same lines of the first-level cache.
    """
    if is_symbolic([nbytes]):
        return (ceil_div(nbytes, CACHE_LINE) // 2 * 2 + 1) * CACHE_LINE
    return nbytes + CACHE_LINE if nbytes % 1024 == 0 else nbytes


def _along(x: Matrix, batch: Shape) -> tuple[int, ...]:
    """Items of float32 along the batch."""
    assert len(x.batch) == len(batch)
    return tuple(step // DType.FLOAT32.itemsize for step in x.batch)


def _dense(lower: Lowering, rows: int, row: int, dtype: DType, batch: Shape) -> Matrix:
    """Memory for `rows` contiguous rows of `row` items for each item of a batch."""
    item = dtype.itemsize
    pitches = tuple(math.prod(batch[i + 1 :]) * rows * row * item for i in range(len(batch)))
    at = lower.scratch(math.prod(batch) * rows * row * item)
    return Matrix(at, row * item, item, pitches)


def _written(x: Matrix) -> Matrix:
    return replace(x, at=Ref(x.at.buffer, x.at.offset))


def _rounded(
    lower: Lowering,
    x: Matrix,
    extents: tuple[int, int],
    batch: Shape,
    half: DType,
    factor: float = 1.0,
) -> Matrix:
    """`factor` times a matrix of rows and columns, as halves."""
    rows, columns = extents
    y = _dense(lower, rows, columns, half, batch)
    item, steps = DType.FLOAT32.itemsize, rounding(0, 1, half, factor)
    launch_strided(
        lower,
        Expression((DType.FLOAT32,), steps, (len(steps),)),
        [Strided(x.at, DType.FLOAT32, (*_along(x, batch), x.row // item, 1))],
        [Strided(y.at, half, (*(n // half.itemsize for n in y.batch), columns, 1))],
        (*batch, rows, columns),
    )
    return _written(y)


def _paired(
    lower: Lowering, x: Matrix, extents: tuple[int, int], batch: Shape, half: DType
) -> Matrix:
    """Words of two rows each, for whole steps; those beyond the last row are 0."""
    rows, columns = extents
    step, item = blocking().step, DType.FLOAT32.itemsize
    words, pairs, row = (
        ceil_div(rows, step) * step // WORD_HALVES,
        rows // WORD_HALVES,
        x.row // item,
    )
    y = _dense(lower, words, columns, DType.UINT32, batch)
    along, into = _along(x, batch), tuple(n // item for n in y.batch)

    def part(first: int, count: int, sources: int) -> None:
        """Words `first` to `first` + `count` - 1, which have items of `sources` rows."""
        if not count:
            return
        places = [
            Ref(x.at.buffer, x.at.offset + (first * WORD_HALVES + i) * x.row)
            for i in range(sources)
        ]
        launch_strided(
            lower,
            _word(sources, half),
            [Strided(at, DType.FLOAT32, (*along, WORD_HALVES * row, 1)) for at in places],
            [
                Strided(
                    replace(y.at, offset=y.at.offset + first * y.row),
                    DType.UINT32,
                    (*into, columns, 1),
                )
            ],
            (*batch, count, columns),
        )

    part(0, pairs, 2)
    part(pairs, rows % WORD_HALVES, 1)
    filled = ceil_div(rows, WORD_HALVES)
    part(filled, words - filled, 0)
    return _written(y)


def _word(sources: int, half: DType) -> Expression:
    """A word of up to two float32, rounded to halves: the first is the lower one."""
    steps: list[Step] = []
    given = (DType.FLOAT32,) * sources

    def add(op: str, *operands: int, dtype: DType = DType.UINT32, value: int | None = None) -> int:
        steps.append(Step(op, operands, dtype, value))
        return sources + len(steps) - 1

    def bits(source: int) -> int:
        steps.extend(rounding(source, sources + len(steps), half))
        return add("cast", add("bitcast", sources + len(steps) - 1, dtype=DType.UINT16))

    if not sources:
        result = add("literal", value=0)
        return Expression(given, tuple(steps), (result,))
    result = bits(0)
    if sources > 1:
        result = add("bitor", result, add("shift_left", bits(1), add("literal", value=16)))
    return Expression(given, tuple(steps), (result,))
