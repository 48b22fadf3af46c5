"""Lowering of products of many rows with weights in blocks of 32.

Rows become words of 16-bit numbers in a launch of their own (`nnefc.kernels.product.block_rows`).
"""

from __future__ import annotations

import math
from typing import Final

from nnefc.ir import DType, Expression
from nnefc.kernels.product import block_matmul as kernels
from nnefc.kernels.product import block_rows
from nnefc.kernels.product.block_rows import CONVERT, RowKind, block_bytes, group_rows, row_kind
from nnefc.kernels.product.block_tile import tile_panels
from nnefc.kernels.product.fixed_point import BLOCK
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.lower.product.compressed_weights import CompressedWeights
from nnefc.lower.product.operands import Product, read_epilogue
from nnefc.program.program import Ref
from nnefc.support.block_formats import TRACT_FORMATS
from nnefc.support.machine_model import VECTOR_ITEMS_PER_NS

FEW_ROWS: Final = 8
"""Up to this many rows, weights are read as they are stored, without a rounding of the rows."""
_LEAST_DEPTH: Final = 128
"""In sums of fewer products, roundings of rows cancel less, and their conversion does not pay."""
_MACS_PER_NS: Final = {"bytes": 400.0, "bfloat16": 150.0, "int16": 200.0}
"""Multiply-adds of a tile."""
_IDENTITY: Final = Expression((DType.FLOAT32,), (), (0,))


def multiplies_blocks(lower: Lowering, product: Product) -> bool:
    """Whether `block_product` is for this product."""
    contiguous = product.a.data is None and product.a.at.step == DType.FLOAT32.itemsize
    stored = product.b.blocks
    rounds = stored is not None and stored.format in TRACT_FORMATS and not stored.is_across
    blocks = rounds and contiguous and product.depth >= _LEAST_DEPTH
    return blocks and product.m > FEW_ROWS and row_kind(strict=lower.strict) is not None


def block_product(lower: Lowering, product: Product, weights: CompressedWeights) -> None:
    """Launch a product of many rows, and the conversion of its rows."""
    kind = row_kind(strict=lower.strict)
    assert kind is not None
    lanes, group = lanes_of("float32"), group_rows(kind)
    groups, blocks = ceil_div(product.m, group), product.depth // BLOCK
    pitch = blocks * block_bytes(kind)
    rows, batch = _converted(lower, product, kind)
    group_block = ceil_div(groups, ceil_div(groups, kernels.most_groups(kind)))
    n_parts = ceil_div(ceil_div(product.n, lanes), tile_panels(kind))
    units = math.prod(product.batch) * ceil_div(groups, group_block) * n_parts
    macs = group_block * group * tile_panels(kind) * lanes * product.depth
    tile = units_per_tile(units, macs / _MACS_PER_NS[kind], lower.threads)
    fields = {
        field: value
        for i, x in enumerate(product.operands)
        for field, value in x.fields(f"x{i}").items()
    }
    words = kernels.block_layout(len(product.operands)).pack(
        **product.c.fields("c"),
        **fields,
        a=rows,
        a_group=pitch,
        a_batch=batch,
        b=weights.panels.at,
        b_row=weights.panels.row,
        b_step=weights.panels.step,
        m=product.m,
        n=product.n,
        blocks=blocks,
        batch_rank=len(product.batch),
        batch=product.batch,
        group_block=group_block,
        n_parts=n_parts,
        units=units,
        unit_block=tile,
        operands=len(product.operands),
    )
    epilogue = read_epilogue(product.expression or _IDENTITY, product.operands)
    kernel = kernels.product(weights.stored, kind, epilogue)
    lower.launch(kernel, words, ceil_div(units, tile))


def _converted(lower: Lowering, product: Product, kind: RowKind) -> tuple[Ref, tuple[int, ...]]:
    """(Groups of rows of A, bytes along the batch), which a launch writes."""
    group = group_rows(kind)
    groups, block = ceil_div(product.m, group), block_bytes(kind)
    pitch = product.depth // BLOCK * block
    x = product.a.at
    extents = tuple(
        extent if step else 1 for extent, step in zip(product.batch, x.batch, strict=True)
    )
    steps = tuple(
        math.prod(extents[i + 1 :]) * groups * pitch if extents[i] > 1 else 0
        for i in range(len(extents))
    )
    y = lower.scratch(math.prod(extents) * groups * pitch)
    units = math.prod(extents) * groups
    tile = units_per_tile(units, group * product.depth / VECTOR_ITEMS_PER_NS, lower.threads)
    words = CONVERT.pack(
        x=x.at,
        y=y,
        x_row=x.row,
        rows=product.m,
        depth=product.depth,
        y_group=pitch,
        y_block=block,
        batch_rank=len(extents),
        batch=extents,
        x_batch=x.batch,
        y_batch=steps,
        units=units,
        unit_block=tile,
    )
    lower.launch(block_rows.convert(kind), words, ceil_div(units, tile))
    return Ref(y.buffer, y.offset), steps
