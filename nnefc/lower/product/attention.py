"""attention: see `nnefc.ops.internal.attention`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnefc.ir import DType, Op, Shape, TensorType, Value
from nnefc.kernels.product import attention as kernels
from nnefc.kernels.product.attention import MAX_ROWS, SCORES_BYTES, attention_layout
from nnefc.kernels.tile.epilogue import Epilogue
from nnefc.kernels.tile.register_tile import tile_rows, tile_width
from nnefc.kernels.vector.builder import lanes_of
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise import expression as elementwise
from nnefc.lower.partition import ceil_div
from nnefc.lower.product.matmul import zero_item
from nnefc.lower.product.operands import broadcast_matrix
from nnefc.lower.product.pack import Matrix, pack
from nnefc.lower.product.tiling import (
    UNIT_NS,
    balanced_block,
    balanced_sizes,
    min_rows,
    tile_sizes,
    units_per_tile,
)
from nnefc.ops.internal.attention import expression_start, tensor_views
from nnefc.program.program import Ref
from nnefc.support.hardware import CACHE_LINE
from nnefc.support.machine_model import MACS_PER_NS, MEMORY_NS
from nnefc.symbolic.integers import hint, is_symbolic, largest, smallest

FEW_ROWS = 8
"""Up to so many read k and v as they are."""
KEYS = 512
"""Keys of a block, about, where not all fit."""


@dataclass(frozen=True, slots=True)
class KeySegment:
    """Some of the keys, and the values that belong to them."""

    keys: int
    k: Matrix
    v: Matrix
    panels: int
    block: int
    """Panels of keys at a time."""


@lowering("attention")
def attention(lower: Lowering, op: Op) -> None:
    dtype, a = op.output.type.dtype, op.attributes
    *batch, rows, keys = a["scores"]
    depth, width = a["depth"], a["width"]
    kept = [i for i, extent in enumerate(batch) if extent > 1]
    extents = tuple(batch[i] for i in kept)
    item, lanes = dtype.itemsize, lanes_of(str(dtype))

    def matrix(at: Ref, where: tuple[int, ...]) -> Matrix:
        first, *strides, row, step = (s * item for s in where)
        at = replace(at, offset=at.offset + first)
        return Matrix(at, row, step, tuple(strides[i] for i in kept))

    q, *places = (matrix(lower.read(x), where) for x, _, where in tensor_views(op)[:-1])
    y = matrix(lower.write(op.output), a["y"])
    dims = tuple(a["scores"])
    expression, (_, *others) = elementwise.fold_literals(
        lower, a["expression"], [Value(TensorType(dtype, dims)), *op.inputs[expression_start(op) :]]
    )
    operands = [broadcast_matrix(lower.read(x), x.type, dims) for x in others]
    operands = [replace(x, batch=tuple(x.batch[i] for i in kept)) for x in operands]
    epilogue = None
    if expression.steps:
        repeated = tuple(not x.step for x in operands)
        epilogue = Epilogue(elementwise.kernel_expression(expression), repeated)
    if rows == 1 and a["diagonal"] >= keys - 1 and _shared(places, extents):
        # single rows of heads that share keys are rows of one product
        q, y, *operands = (
            replace(x, row=x.batch[-1], batch=x.batch[:-1]) for x in (q, y, *operands)
        )
        places = [replace(x, batch=x.batch[:-1]) for x in places]
        extents, rows = extents[:-1], extents[-1]
    m_parts, width_vectors = ceil_div(rows, tile_rows()), ceil_div(width, lanes)
    if not lower.growing:
        heights = balanced_sizes(rows, m_parts)
    elif rows < min_rows():
        m_parts, heights = rows, (1,)
    else:
        heights = tuple(range(min_rows(), tile_rows() + 1))
    columns = tile_width(heights[-1])
    width_parts = ceil_div(width_vectors, columns)
    widths = set(range(1, columns + 1))
    if not lower.growing:
        widths = {*balanced_sizes(width_vectors, width_parts)}
    few = rows <= FEW_ROWS
    k_rows = few and all(k.step == q.step == item for k in places[::2])
    v_rows = few and width % lanes == 0 and all(v.step == item for v in places[1::2])
    parts: list[KeySegment] = []
    pitch = 0
    for count, k, v in zip(a["keys"], places[::2], places[1::2], strict=True):
        vectors = ceil_div(count, lanes)
        panels = ceil_div(vectors, columns)
        if not lower.growing:
            widths |= {*balanced_sizes(vectors, panels)}
        if not k_rows:
            k = pack(lower, k.transposed, dtype, depth, count, extents, parts=panels, unit=lanes)
        if not v_rows:
            v = pack(lower, v, dtype, count, width, extents, parts=width_parts, unit=lanes)
        block, room = _key_block(panels, vectors, heights[-1], dtype)
        parts.append(KeySegment(count, k, v, panels, block))
        pitch = largest([pitch, room])
    room = smallest([MAX_ROWS, SCORES_BYTES // pitch]) // heights[-1]
    macs = hint(keys) * hint(depth + width)
    cost = heights[-1] * macs * item / (MACS_PER_NS * DType.FLOAT32.itemsize)
    m_block = smallest([m_parts if few else balanced_block(m_parts, UNIT_NS / cost), room])
    if few:
        cost = max(cost, macs * item * MEMORY_NS / hint(m_block))
    units = math.prod(extents) * ceil_div(m_parts, m_block)
    unit_block = units_per_tile(units, cost * m_block)
    named = {"q": q, "y": y}
    for i, part in enumerate(parts):
        named |= {f"k{i}": part.k, f"v{i}": part.v}
    named |= {f"x{i}": x for i, x in enumerate(operands)}
    words = attention_layout(len(operands), len(parts)).pack(
        **{name: x.at for name, x in named.items()},
        **{f"{name}_row": x.row for name, x in named.items()},
        **{f"{name}_step": x.step for name, x in named.items()},
        **{f"{name}_batch": x.batch for name, x in named.items()},
        **{f"keys{i}": part.keys for i, part in enumerate(parts)},
        **{f"panels{i}": part.panels for i, part in enumerate(parts)},
        **{f"block{i}": part.block for i, part in enumerate(parts)},
        rows=rows,
        depth=depth,
        width=width,
        batch_rank=len(extents),
        batch=extents,
        m_parts=m_parts,
        width_parts=width_parts,
        m_block=m_block,
        pitch=pitch,
        k_rows=k_rows,
        v_rows=v_rows,
        units=units,
        unit_block=unit_block,
        diagonal=a["diagonal"],
        empty=int(a["empty"]),
        zero=lower.constant(zero_item(dtype)),
        parts=len(parts),
        operands=len(operands),
    )
    tiles = tile_sizes(heights, tuple(sorted(widths)))
    lower.launch(
        kernels.rows(str(dtype), *tiles, epilogue),
        words,
        ceil_div(units, unit_block),
    )


def _shared(places: Sequence[Matrix], extents: Shape) -> bool:
    """Whether keys and values are the same for a few items of the last dimension of the batch."""
    return bool(extents) and extents[-1] <= FEW_ROWS and not any(x.batch[-1] for x in places)


def _key_block(parts: int, vectors: int, height: int, dtype: DType) -> tuple[int, int]:
    """(panels of keys whose scores are held at a time, bytes from row to row of them)."""
    lanes = lanes_of(str(dtype))
    block = parts
    widest = ceil_div(vectors, parts)
    if 4 * height * vectors * lanes * dtype.itemsize > SCORES_BYTES:
        block = balanced_block(parts, KEYS / (widest * lanes))
    pitch = smallest([block * widest, vectors]) * lanes * dtype.itemsize
    # rows a multiple of 1024 apart would compete for lines of the first cache
    if is_symbolic([pitch]):
        return block, ceil_div(pitch, 2 * CACHE_LINE) * 2 * CACHE_LINE + CACHE_LINE
    return block, pitch + CACHE_LINE if pitch % 1024 == 0 else pitch
