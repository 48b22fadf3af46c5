"""Pooling of blocked tensors: windows that are clipped at borders, and whole planes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnefc.ir import DType, Op, TensorType
from nnefc.kernels.target.isa import host
from nnefc.kernels.window import plane_reduction, pooling
from nnefc.kernels.window.plane_reduction import PLANES
from nnefc.kernels.window.pooling_pieces import RowWindow
from nnefc.lower.blocked import plane_pieces
from nnefc.lower.blocked.tensors import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.ops.core.window_arithmetic import pooling_window
from nnefc.ops.internal.code_sums import BOX, SUM_REDUCE
from nnefc.program.tables.planes import row_runs
from nnefc.program.tables.pooling import Pool, PooledDimension, Unchanged, Windowed, pooling_pieces
from nnefc.symbolic.traced_array import length, traced_call


@blocked_lowering("max_pool")
def max_pool(lower: Lowering, op: Op) -> None:
    accumulator = _sums(op.inputs[0].type.dtype)
    _pool(lower, op, Pool("max", accumulator, zeros=op.attributes["border"] != "ignore"))


def _sums(dtype: DType) -> DType:
    """The type in which items are added and compared."""
    return DType.FLOAT32 if dtype.is_half else dtype


@blocked_lowering("box", BOX)
def box(lower: Lowering, op: Op) -> None:
    accumulator = _sums(op.output.type.dtype)
    divided = _along(op) if op.attributes["normalize"] else ()
    _pool(lower, op, Pool("sum", accumulator, divided=divided, exact=op.name == BOX))


def _along(op: Op) -> tuple[Windowed, ...]:
    window = pooling_window(op.inputs[0].type.dims, op.attributes)
    return tuple(Windowed(window, i, op.attributes["border"]) for i in range(2, window.rank))


def _pool(lower: Lowering, op: Op, pool: Pool) -> None:
    """Small windows in one launch, others dimension by dimension."""
    axes = _along(op)
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    sizes = [axis.taps for axis in axes if axis.taps > 1]
    rest: list[PooledDimension] = list(axes)
    # sums of rows would be rounded
    along = not (op.name == BOX or (pool.kind == "sum" and x.dtype.is_half))
    if along and math.prod(sizes) > 4 * sum(sizes):
        plain = replace(pool, divided=())
        for i, axis in enumerate(axes[:-1]):
            if axis.taps == 1:
                continue
            only: list[PooledDimension] = [Unchanged(n) for n in x.spatial]
            only[i] = axis
            between = _scratch(lower, x, tuple(a.outputs for a in only))
            _launch(lower, plain, x, between, only)
            x = between
            rest[i] = Unchanged(axis.outputs)
    _launch(lower, pool, x, y, rest, zero=op.attributes.get("zero", 0))


def _scratch(lower: Lowering, like: Tensor, spatial: tuple[int, ...]) -> Tensor:
    """A temporary tensor with the channels of `like` and no halo."""
    layout = replace(like.layout, halo=((0, 0),) * len(spatial))
    type_ = TensorType(like.dtype, (*like.shape[:2], *spatial), layout)
    return Tensor.whole(lower.scratch(type_.nbytes), type_)


def _launch(
    lower: Lowering,
    pool: Pool,
    x: Tensor,
    y: Tensor,
    axes: Sequence[PooledDimension],
    zero: int = 0,
) -> None:
    """`zero`: the zero point of the codes of x, for sums in float32."""
    pieces, table, in_tiles = traced_call(
        pooling_pieces, pool, host().registers, x.plane, y.plane, tuple(axes)
    )
    usual = RowWindow(axes[-1].stride, axes[-1].taps) if in_tiles else None
    taps_ns = math.prod(axis.taps for axis in axes) + 2
    item, accumulator, block = str(x.dtype), str(pool.accumulator), x.layout.block
    if pool.exact:
        kernel = pooling.code_sums(item, block, usual)
    else:
        kernel = pooling.window(pool.kind, item, accumulator, block, usual)
    plane_pieces.launch(
        lower,
        kernel,
        x,
        y,
        pieces,
        table,
        math.prod(y.spatial) * taps_ns * block / 50,
        clamp=zero,
    )


@blocked_lowering("sum_reduce", "max_reduce", "min_reduce", SUM_REDUCE)
def reduce_planes(lower: Lowering, op: Op) -> None:
    """Reductions over all spatial dimensions."""
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    pixels = math.prod(x.spatial)
    (runs,) = traced_call(row_runs, x.plane)
    planes = x.batch * x.blocks
    plane_block = units_per_tile(planes, pixels / 2 + 10, lower.threads)
    words = PLANES.pack(
        x=x.at,
        y=replace(y.at, offset=y.at.offset + y.origin),
        runs=lower.table(runs),
        blocks=x.blocks,
        x_batch=x.batch_bytes,
        x_plane=x.plane_bytes,
        y_batch=y.batch_bytes,
        y_plane=y.plane_bytes,
        run_count=length(runs),
        divisor=1.0 * pixels if op.attributes.get("normalize") else 1.0,
        start=-1.0 * pixels * op.attributes.get("zero", 0),
        planes=planes,
        plane_block=plane_block,
    )
    kind, item = op.name.removesuffix("_reduce"), str(x.dtype)
    if op.name == SUM_REDUCE:
        kernel = plane_reduction.code_sum(item, x.layout.block)
    else:
        kernel = plane_reduction.plane(kind, item, str(_sums(x.dtype)), x.layout.block)
    lower.launch(kernel, words, ceil_div(planes, plane_block))
