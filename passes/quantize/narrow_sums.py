"""Sum products of codes of 16 bits in int32 where sums, or sums of parts, fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.core.spec import Emit
from nnefc.ops.extended.integer_products import LARGEST_SUM, WIDE, is_wide
from nnefc.ops.extended.sum_bounds import BOUNDS
from nnefc.ops.tools.build import emitter
from nnefc.passes.analysis.integer_support import CODES_16, float_reason
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.analysis.parts_of_sums import depth_of, parts_of_product
from nnefc.passes.op_queries import replace


@dataclass(frozen=True)
class NarrowSums:
    """Replace sums in int64 by sums in int32.

        %y: int64[5,4] = integer_matmul(%x, %w, %z, %0) {..., wide = true}

    becomes, if a bound of the sums from known weights fits int32,

        %1: int32[5,4] = integer_matmul(%x, %w, %z, %0) {..., wide = false}
        %y: int64[5,4] = cast(%1)

    Otherwise a product with a known matrix that has an integer kernel is cut along its depth into
    parts whose sums fit, and these are added in int64.
    """

    name: ClassVar[str] = "narrow_sums"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known, changed = KnownValues(graph), False
        for op in list(graph.ops):
            if op.name in BOUNDS and is_wide(op):
                changed |= _narrowed(graph, op, known)
        return changed


def _narrowed(graph: Graph, op: Op, known: KnownValues) -> bool:
    """Replace wide sums by narrow ones; returns whether they are."""
    emit = emitter(graph, op, op.location)
    if BOUNDS[op.name](op) <= LARGEST_SUM:
        narrow = emit(op.name, *op.inputs, **{**op.attributes, WIDE: False})
        total = emit("cast", narrow, dtype=DType.INT64)
    elif op.name == "integer_matmul":
        parts = _parts(op, known)
        if parts is None:
            return False
        total = _added(graph, emit, op, known, parts)
    else:
        return False
    total.name = op.output.name
    replace(graph, op, [total])
    return True


def _parts(op: Op, known: KnownValues) -> list[slice] | None:
    """Parts of the depth whose sums fit int32; None if there is no kernel for them."""
    a, _, a_zero, _ = op.inputs
    types = [TensorType(DType.INT32, op.output.type.dims)]
    narrow = Op(op.name, op.inputs, {**op.attributes, WIDE: False}, types)
    if a.type.dtype not in CODES_16 or a_zero.type.volume != 1 or float_reason(narrow, known):
        return None
    return parts_of_product(op, known)


def _added(graph: Graph, emit: Emit, op: Op, known: KnownValues, parts: list[slice]) -> Value:
    """The sum of products of parts of the depth, in int64."""
    a, b, *zeros = op.inputs
    codes = known.items(b)
    assert codes is not None
    items = np.broadcast_to(codes, b.type.dims)
    axis = depth_of(op) + b.type.rank
    along = a.type.rank - (2 if op.attributes["transposeA"] else 1)
    total: Any = None
    for part in parts:
        rows = emit("slice", a, axes=(along,), begin=(part.start,), end=(part.stop,))
        chosen = tuple(part if i == axis else slice(None) for i in range(b.type.rank))
        known_part = items[chosen]
        made = constant_op(known_part, TensorType(b.type.dtype, known_part.shape), op.location)
        columns = graph.insert(made, op).output
        sums = emit(op.name, rows, columns, *zeros, **{**op.attributes, WIDE: False})
        wide = emit("cast", sums, dtype=DType.INT64)
        total = wide if total is None else emit("add", total, wide)
    return total
