"""Take computed zero points out of convolutions of codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.window_arithmetic import OUTSIDE, Window
from nnefc.ops.extended.integer_products import is_wide
from nnefc.ops.extended.sum_bounds import differences
from nnefc.ops.tools.build import emitter
from nnefc.ops.tools.convolution import window_of
from nnefc.passes.analysis.integer_support import CODES
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.op_queries import replace
from nnefc.passes.quantize.fuse_code_convolutions import number_of
from nnefc.symbolic.integers import is_symbolic


@dataclass(frozen=True)
class KnownZeroPoints:
    """Sum codes from zero where the zero point of the input is computed (dynamic quantization).

        %y: int32[1,8,6,6] = integer_conv(%x, %w, %z, %0) {...}

    becomes

        %1: int32[1,8,6,6] = integer_conv(%x, %w, 0, %0) {...}
        %2: int32[] = cast(%z)
        %3: int32[1,8,6,6] = mul(%2, constant)
        %y: int32[1,8,6,6] = sub(%1, %3)

    The constant has the sums of the weights inside of the border: [1,8,1,1] if there is no border.
    Sums wrap around, so this is exact.
    """

    name: ClassVar[str] = "known_zero_points"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known, changed = KnownValues(graph), False
        for op in list(graph.ops):
            weights = _weights_inside(op, known) if op.name == "integer_conv" else None
            if weights is None:
                continue
            emit = emitter(graph, op, op.location)
            x, filter_, zero, filter_zero = op.inputs
            none = constant_op(np.zeros(()), TensorType(zero.type.dtype, ()), op.location)
            operands = x, filter_, graph.insert(none, op).output, filter_zero
            sums = emit("integer_conv", *operands, **op.attributes)
            offset = constant_op(weights, TensorType(DType.INT32, weights.shape), op.location)
            number = emit("cast", number_of(graph, op, zero), dtype=DType.INT32)
            total = emit("sub", sums, emit("mul", number, graph.insert(offset, op).output))
            total.name = op.output.name
            replace(graph, op, [total])
            changed = True
        return changed


def _weights_inside(op: Op, known: KnownValues) -> Array | None:
    """The sums of the weights that multiply items of the input, [1, channels, *outputs] in int32.

    An output extent is 1 where all sums along it are equal.  None if the zero point of the input is
    known or no single number, if the filter is computed, or if the border and the extents vary.
    """
    x, filter_, zero, filter_zero = op.inputs
    if is_wide(op) or x.type.dtype not in CODES or zero in known or zero.type.volume != 1:
        return None
    codes, point = known.items(filter_), known.items(filter_zero)
    if codes is None or point is None:
        return None
    sums = differences(codes, point, filter_.type).sum(axis=1, dtype=np.int64)
    window = window_of(op)
    for axis in range(window.rank):
        sums = _along(sums, axis + 1, window, axis, op.attributes["border"])
        if sums is None:
            return None
    return sums[None].astype(np.int32)


def _along(sums: Array, at: int, window: Window, axis: int, border: str) -> Array | None:
    """Sums over the taps of dimension `at`, for each output, or one if they are equal."""
    if not any(window.padding[axis]):
        return sums.sum(axis=at, keepdims=True)
    if is_symbolic([window.input[axis], window.output[axis]]):
        return None
    inside = (window.taps(axis, border) != OUTSIDE).astype(np.int64)
    return np.moveaxis(np.tensordot(sums, inside, ([at], [1])), -1, at)
