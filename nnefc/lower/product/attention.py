"""Lowering of fused attention (`nnefc.ops.internal.attention`).

The kernel computes the softmax online, block of keys by block of keys (Milakov & Gimelshein 2018).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from nnefc.ir import DType, Op, TensorType, Value
from nnefc.kernels.parameters import Words
from nnefc.kernels.product import attention as kernels
from nnefc.kernels.product.attention import MAX_ROWS, SCORES_BYTES, attention_layout
from nnefc.kernels.tile.register_tile import min_rows, tile_rows, tile_width
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise import expression as elementwise
from nnefc.lower.partition import ceil_div, partition_threads
from nnefc.lower.product.attention_halves import lower_halves
from nnefc.lower.product.attention_problem import AttentionProblem
from nnefc.lower.product.matmul import zero_item
from nnefc.lower.product.operands import broadcast_matrix, epilogue_operands, read_epilogue
from nnefc.lower.product.pack import Matrix, pack
from nnefc.lower.product.tiling import (
    UNIT_NS,
    balanced_block,
    balanced_sizes,
    product_units_per_tile,
    tile_sizes,
)
from nnefc.ops.internal.attention import expression_start, tensor_views
from nnefc.program.program import Ref
from nnefc.support.alignment import CACHE_LINE
from nnefc.support.machine_model import MACS_PER_NS, MEMORY_NS
from nnefc.symbolic.integers import hint, is_symbolic, largest, smallest

KEY_BLOCK: Final = 512
"""Approximate keys of a block, if the scores of all keys do not fit."""
LONG_UNIT_NS: Final = 150_000.0
"""Most nanoseconds of a unit of several row tiles, which read panels of keys from the L1 cache."""
UNITS_PER_THREAD: Final = 16
"""Units per thread that leave no thread waiting, before units become longer than others."""


@dataclass(frozen=True, slots=True)
class _Tiling:
    """How rows, keys and columns are divided into register tiles."""

    m_parts: int
    heights: tuple[int, ...]
    columns: int
    """Maximum width of a tile, in vectors."""
    width_parts: int
    widths: tuple[int, ...]
    k_rows: bool
    """Whether k is read in place, row by row; else it is packed.  `v_rows`: likewise."""
    v_rows: bool


@dataclass(frozen=True, slots=True)
class KeySegment:
    """Consecutive keys and their values, as the kernel reads them."""

    keys: int
    k: Matrix
    v: Matrix
    panels: int
    block: int
    """Panels of keys per block, whose scores are held at a time."""
    pitch: int
    """Bytes from row to row of these scores."""


@lowering("attention")
def attention(lower: Lowering, op: Op) -> None:
    problem = _read_problem(lower, op)
    if problem.rows == 1 and problem.diagonal >= problem.keys - 1 and problem.shares_keys:
        problem = _heads_as_rows(problem)
    if half := op.attributes.get("rounded"):
        lower_halves(lower, problem, DType(half), empty=op.attributes["empty"])
        return
    tiling = _choose_tiling(lower, problem)
    segments = list(_read_segments(lower, problem, tiling))
    pitch = 0
    for segment in segments:
        pitch = largest([pitch, segment.pitch])
    m_block, block_ns = _row_block(problem, tiling, pitch, partition_threads(lower.threads))
    units = math.prod(problem.batch) * ceil_div(tiling.m_parts, m_block)
    unit_block = product_units_per_tile(units, block_ns)
    words = _pack_words(
        problem,
        tiling,
        segments,
        m_block=m_block,
        pitch=pitch,
        units=units,
        unit_block=unit_block,
        empty=int(op.attributes["empty"]),
        zero=lower.constant(zero_item(problem.dtype)),
    )
    epilogue = None
    if problem.expression.steps:
        epilogue = read_epilogue(problem.expression, problem.operands)
    tiles = tile_sizes(tiling.heights, tiling.widths)
    kernel = kernels.rows(str(problem.dtype), *tiles, epilogue)
    lower.launch(kernel, words, ceil_div(units, unit_block))


def _read_problem(lower: Lowering, op: Op) -> AttentionProblem:
    """The matrices of an attention operation, and their extents."""
    dtype, a = op.output.type.dtype, op.attributes
    *batch, rows, keys = dims = tuple(a["scores"])
    axes = [i for i, extent in enumerate(batch) if extent > 1]

    def matrix(at: Ref, strides: tuple[int, ...]) -> Matrix:
        first, *along, row, step = (s * dtype.itemsize for s in strides)
        at = replace(at, offset=at.offset + first)
        return Matrix(at, row, step, tuple(along[i] for i in axes))

    q, *others = (matrix(lower.read(x), strides) for x, _, strides in tensor_views(op)[:-1])
    y = matrix(lower.write(op.output), a["y"])
    scores = Value(TensorType(dtype, dims))
    expression, (_, *values) = elementwise.fold_literals(
        lower, a["expression"], [scores, *op.inputs[expression_start(op) :]]
    )
    operands = [broadcast_matrix(lower.read(x), x.type, dims) for x in values]
    expression, operands = epilogue_operands(lower, expression, operands, dims)
    return AttentionProblem(
        dtype=dtype,
        rows=rows,
        keys=keys,
        depth=a["depth"],
        width=a["width"],
        batch=tuple(batch[i] for i in axes),
        q=q,
        y=y,
        segments=tuple(zip(a["keys"], others[::2], others[1::2], strict=True)),
        expression=expression,
        operands=tuple(replace(x, batch=tuple(x.batch[i] for i in axes)) for x in operands),
        diagonal=a["diagonal"],
    )


def _heads_as_rows(problem: AttentionProblem) -> AttentionProblem:
    """Turn single rows of heads that share keys (grouped queries) into rows of one product."""

    def fold(x: Matrix) -> Matrix:
        return replace(x, row=x.batch[-1], batch=x.batch[:-1])

    def drop(x: Matrix) -> Matrix:
        return replace(x, batch=x.batch[:-1])

    return replace(
        problem,
        rows=problem.batch[-1],
        batch=problem.batch[:-1],
        q=fold(problem.q),
        y=fold(problem.y),
        segments=tuple((keys, drop(k), drop(v)) for keys, k, v in problem.segments),
        operands=tuple(map(fold, problem.operands)),
    )


def _choose_tiling(lower: Lowering, problem: AttentionProblem) -> _Tiling:
    lanes, item = lanes_of(str(problem.dtype)), problem.dtype.itemsize
    m_parts = ceil_div(problem.rows, tile_rows())
    if not lower.dynamic_shapes:
        heights = balanced_sizes(problem.rows, m_parts)
    elif problem.rows < min_rows():
        m_parts, heights = problem.rows, (1,)
    else:
        heights = tuple(range(min_rows(), tile_rows() + 1))
    columns = tile_width(heights[-1])
    vectors = [ceil_div(n, lanes) for n in (problem.width, *(s[0] for s in problem.segments))]
    widths = range(1, columns + 1)
    if not lower.dynamic_shapes:
        widths = {size for n in vectors for size in balanced_sizes(n, ceil_div(n, columns))}
    few, step = problem.has_few_rows, problem.q.step
    in_rows = all(v.step == item for _, _, v in problem.segments)
    return _Tiling(
        m_parts,
        heights,
        columns,
        ceil_div(vectors[0], columns),
        tuple(sorted(widths)),
        k_rows=few and all(k.step == step == item for _, k, _ in problem.segments),
        v_rows=few and problem.width % lanes == 0 and in_rows,
    )


def _read_segments(
    lower: Lowering, problem: AttentionProblem, tiling: _Tiling
) -> Iterator[KeySegment]:
    """The segments of keys; k and v are packed into panels unless they are read in place."""
    dtype, batch = problem.dtype, problem.batch
    lanes = lanes_of(str(dtype))
    for keys, k, v in problem.segments:
        vectors = ceil_div(keys, lanes)
        panels = ceil_div(vectors, tiling.columns)
        if not tiling.k_rows:
            depth = problem.depth
            k = pack(lower, k.transposed, dtype, depth, keys, batch, parts=panels, unit=lanes)
        if not tiling.v_rows:
            parts = tiling.width_parts
            v = pack(lower, v, dtype, keys, problem.width, batch, parts=parts, unit=lanes)
        block, pitch = _key_block(panels, vectors, tiling.heights[-1], dtype)
        yield KeySegment(keys, k, v, panels, block, pitch)


def _key_block(panels: int, vectors: int, height: int, dtype: DType) -> tuple[int, int]:
    """(panels of keys per block, bytes from row to row of their scores)."""
    lanes = lanes_of(str(dtype))
    block = panels
    widest = ceil_div(vectors, panels)
    if 4 * height * vectors * lanes * dtype.itemsize > SCORES_BYTES:
        block = balanced_block(panels, KEY_BLOCK / (widest * lanes))
    pitch = smallest([block * widest, vectors]) * lanes * dtype.itemsize
    # rows a multiple of 1024 bytes apart would compete for the same lines of the first-level cache
    if is_symbolic([pitch]):
        return block, ceil_div(pitch, 2 * CACHE_LINE) * 2 * CACHE_LINE + CACHE_LINE
    return block, pitch + CACHE_LINE if pitch % 1024 == 0 else pitch


def _row_block(
    problem: AttentionProblem, tiling: _Tiling, pitch: int, threads: int
) -> tuple[int, float]:
    """(row tiles of a unit, nanoseconds of a unit)."""
    height, item = tiling.heights[-1], problem.dtype.itemsize
    most = smallest([MAX_ROWS, SCORES_BYTES // pitch]) // height
    macs = hint(problem.keys) * hint(problem.depth + problem.width)
    cost = height * macs * item / (MACS_PER_NS * DType.FLOAT32.itemsize)
    few = problem.has_few_rows
    every = cost * hint(tiling.m_parts * math.prod(problem.batch))
    unit_ns = min(max(UNIT_NS, every / (UNITS_PER_THREAD * threads)), LONG_UNIT_NS)
    wanted = tiling.m_parts if few else balanced_block(tiling.m_parts, unit_ns / cost)
    m_block = smallest([wanted, most])
    if few:
        cost = max(cost, macs * item * MEMORY_NS / hint(m_block))
    return m_block, cost * m_block


def _pack_words(
    problem: AttentionProblem,
    tiling: _Tiling,
    segments: Sequence[KeySegment],
    **fields: int | Ref,
) -> Words:
    """The parameters of the kernel; `fields` are those not derived from the other arguments."""
    matrices = {"q": problem.q, "y": problem.y}
    for i, segment in enumerate(segments):
        matrices |= {f"k{i}": segment.k, f"v{i}": segment.v}
        fields |= {f"keys{i}": segment.keys, f"panels{i}": segment.panels}
        fields |= {f"block{i}": segment.block}
    matrices |= {f"x{i}": x for i, x in enumerate(problem.operands)}
    return attention_layout(len(problem.operands), len(segments)).pack(
        **{field: value for name, x in matrices.items() for field, value in x.fields(name).items()},
        **fields,
        rows=problem.rows,
        depth=problem.depth,
        width=problem.width,
        batch_rank=len(problem.batch),
        batch=problem.batch,
        m_parts=tiling.m_parts,
        width_parts=tiling.width_parts,
        k_rows=tiling.k_rows,
        v_rows=tiling.v_rows,
        diagonal=problem.diagonal,
        parts=len(segments),
        operands=len(problem.operands),
    )
