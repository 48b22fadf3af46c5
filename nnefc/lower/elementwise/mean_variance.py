"""mean_variance_normalization, with or without a fused expression.

See `nnefc.ops.internal.mean_variance`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nnefc.ir import Expression, Op, Shape, TensorType, Value
from nnefc.kernels.parameters import Layout
from nnefc.kernels.reduce import mean_variance as kernels
from nnefc.kernels.reduce.mean_variance_parameters import IN_FLIGHT, fields, tensors
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.elementwise.expression import (
    Strided,
    canonical_inputs,
    fold_literals,
    strides,
)
from nnefc.lower.elementwise.kernel_expression import kernel_expression
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.ops.internal import mean_variance
from nnefc.program.program import Ref

ROW_NS = 50.0
"""Nanoseconds of overhead per row: its address, and the factor from its sums."""
VECTOR_NS = 2.5
"""Nanoseconds per vector of items, which is read two or three times."""


@lowering(mean_variance.NAME, mean_variance.FUSED_NAME)
def mean_variance_normalization(lower: Lowering, op: Op) -> None:
    x, type_ = op.inputs[0], op.output.type
    dims = type_.dims
    expression, others = read_expression(lower, op)
    operands = [Strided(lower.read(v), v.type.dtype, strides(v.type.dims, dims)) for v in others]
    source = Strided(lower.read(x), x.type.dtype, strides(dims, dims))
    same = [source.ref, *(o.ref for o, v in zip(operands, others) if v.type == type_)]
    target = Strided(lower.write(op.output), type_.dtype, strides(dims, dims))
    launch(lower, op, expression, [source, target, *operands], dims, same)


def read_expression(lower: Lowering, op: Op) -> tuple[Expression, list[Value]]:
    """The fused expression of the operation, and its operands that are not literals."""
    x = op.inputs[0]
    expression = op.attributes.get("expression", Expression((x.type.dtype,), (), (0,)))
    result = Value(TensorType(x.type.dtype, x.type.shape))
    expression, (_, *others) = fold_literals(lower, expression, [result, *op.inputs[1:]])
    return expression, others


def launch(
    lower: Lowering,
    op: Op,
    expression: Expression,
    operands: Sequence[Strided],
    shape: Shape,
    in_place: Sequence[Ref] = (),
) -> None:
    """Launch the normalisation along the axes of `op` over the iteration space `shape`.

    `operands`: x, y, then the other operands of the expression.
    """
    expression, others = canonical_inputs(lower, expression, operands[2:], len(shape), fixed=1)
    operands = [*operands[:2], *others]
    axes: tuple[int, ...] = op.attributes["axes"]
    *outer, inner = _coalesce(shape, [operand.strides for operand in operands], axes)
    kept = [d for d in reversed(outer) if not d.reduced]
    reduced = [d for d in reversed(outer) if d.reduced]
    depth = _Dimension(1, (0,) * len(operands), True)
    if not inner.reduced and reduced:
        depth, *reduced = reduced
    dtype = operands[0].dtype
    lanes = lanes_of(str(dtype))
    chunk = inner.extent if inner.reduced else min(IN_FLIGHT * lanes, inner.extent)
    chunks = ceil_div(inner.extent, chunk)
    volume = math.prod(d.extent for d in reduced)
    units = math.prod(d.extent for d in kept) * chunks
    cost = ROW_NS + volume * depth.extent * ceil_div(chunk, lanes) * VECTOR_NS
    unit_block = units_per_tile(units, cost, lower.threads)
    names = tensors(len(operands) - 2)
    sizes = [operand.dtype.itemsize for operand in operands]
    words = Layout(fields(len(operands) - 2)).pack(
        **{name: operand.ref for name, operand in zip(names, operands, strict=True)},
        kept_rank=len(kept),
        kept=[d.extent for d in kept],
        reduced_rank=len(reduced),
        reduced=[d.extent for d in reduced],
        volume=volume,
        depth=depth.extent,
        width=inner.extent,
        chunk=chunk,
        chunks=chunks,
        units=units,
        unit_block=unit_block,
        part=1 / math.prod(shape[axis] for axis in axes),
        epsilon=op.attributes["epsilon"],
        **{
            f"{kind}_{name}": [d.strides[i] * sizes[i] for d in dimensions]
            for kind, dimensions in (("kept", kept), ("reduced", reduced))
            for i, name in enumerate(names)
        },
        **{f"depth_{name}": depth.strides[i] * sizes[i] for i, name in enumerate(names)},
    )
    repeated = tuple(not step for step in inner.strides[2:])
    family = kernels.rows if inner.reduced else kernels.columns
    kernel = family(kernel_expression(expression), repeated, op.attributes["centred"])
    lower.launch(kernel, words, ceil_div(units, unit_block), in_place=tuple(in_place))


@dataclass(frozen=True, slots=True)
class _Dimension:
    """A dimension of the iteration space, after coalescing."""

    extent: int
    strides: tuple[int, ...]
    """Stride of each operand, in items."""
    reduced: bool
    """Whether it is an axis of the normalisation."""


def _coalesce(
    shape: Shape, strides: Sequence[tuple[int, ...]], axes: Collection[int]
) -> list[_Dimension]:
    """The same iteration space in as few dimensions as possible, at least one."""
    coalesced: list[_Dimension] = []
    for axis, extent in enumerate(shape):
        steps = tuple(along[axis] for along in strides)
        reduced = axis in axes
        if extent == 1:
            continue
        if coalesced and coalesced[-1].reduced == reduced:
            last = coalesced[-1]
            if all(outer == step * extent for outer, step in zip(last.strides, steps)):
                coalesced[-1] = _Dimension(last.extent * extent, steps, reduced)
                continue
        coalesced.append(_Dimension(extent, steps, reduced))
    return coalesced or [_Dimension(1, (1, 1, *[0] * (len(strides) - 2)), True)]
