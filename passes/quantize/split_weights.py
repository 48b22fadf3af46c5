"""Split weights of 16 bits into digits where sums of their products do not fit int32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ops.core.arrays import Array
from nnefc.ops.extended.integer_products import LARGEST_SUM, is_wide
from nnefc.ops.extended.sum_bounds import BOUNDS
from nnefc.ops.tools.build import emitter
from nnefc.passes.analysis.integer_support import CODES_16
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.analysis.parts_of_sums import parts_of_convolution, parts_of_product
from nnefc.passes.op_queries import replace

_BASE: Final = 256
_LARGEST_DIGIT: Final = 128
_SHALLOWEST: Final = 64
"""Products of a part of the depth: less take longer than products with two digits, as the sums of
parts are added in int64."""


@dataclass(frozen=True)
class SplitWeights:
    """Replace sums of products with known weights of 16 bits by sums of two digits.

        %y: int64[5,4] = integer_matmul(%x, %w, %z, %0) {..., wide = true}

    becomes, where %w = 256 %high + %low, if sums do not fit int32 or deep parts of it,

        %1: int64[5,4] = integer_matmul(%x, %high, %z, %0) {..., wide = true}
        %2: int64[5,4] = integer_matmul(%x, %low, %z, %0) {..., wide = true}
        %y: int64[5,4] = 256 %1 + %2

    Digits are from -128 to 128, so at least 512 of their products with codes fit int32.
    """

    name: ClassVar[str] = "split_weights"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known, changed = KnownValues(graph), False
        for op in list(graph.ops):
            weights = _too_large(op, known) if op.name in BOUNDS and is_wide(op) else None
            if weights is not None:
                _split(graph, op, weights)
                changed = True
        return changed


def _too_large(op: Op, known: KnownValues) -> Array | None:
    """The weights of `op` if digits of them are multiplied faster; else None."""
    x, w, x_zero, _ = op.inputs
    items, zero = known.items(w), known.items(op.inputs[3])
    if x.type.dtype not in CODES_16 or w.type.dtype is not DType.INT16 or x_zero.type.volume != 1:
        return None
    if items is None or zero is None or zero.any() or not w.type.volume:
        return None
    if np.abs(items.astype(np.int32)).max() <= _LARGEST_DIGIT:
        return None
    if BOUNDS[op.name](op) <= LARGEST_SUM:
        return None
    is_product = op.name == "integer_matmul"
    parts = parts_of_product(op, known) if is_product else parts_of_convolution(op, known)
    if parts is not None and len(parts) * _SHALLOWEST <= _depth(op):
        return None
    return np.broadcast_to(items, w.type.dims).astype(np.int32)


def _depth(op: Op) -> int:
    """Products of a sum."""
    dims = op.inputs[1].type.dims
    match op.name:
        case "integer_matmul":
            return dims[-1 if op.attributes["transposeB"] else -2]
        case "integer_deconv":
            return dims[0] * math.prod(dims[2:])
        case _:
            return math.prod(dims[1:])


def _split(graph: Graph, op: Op, weights: Array) -> None:
    x, w, *zeros = op.inputs
    low = (weights + _LARGEST_DIGIT) % _BASE - _LARGEST_DIGIT
    emit = emitter(graph, op, op.location)

    def sums(digits: Array) -> Value:
        constant = _constant(graph, op, digits.astype(np.int16), w.type)
        made: Any = emit(op.name, x, constant, *zeros, **op.attributes)
        return made

    base = np.array(_BASE, np.int64)
    factor = _constant(graph, op, base, TensorType(DType.INT64, ()))
    high = emit("mul", sums((weights - low) // _BASE), factor)
    total: Any = emit("add", high, sums(low))
    total.name = op.output.name
    replace(graph, op, [total])


def _constant(graph: Graph, before: Op, items: Array, type_: TensorType) -> Value:
    return graph.insert(constant_op(items, type_, before.location), before).output
