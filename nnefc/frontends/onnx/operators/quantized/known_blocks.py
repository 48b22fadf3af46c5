"""Known tensors of codes with a scale for each block along an axis, as `DequantizeLinear` has them.

Their reals are computed once, when the model is read.  Matrices that the formats of
`nnefc.support.block_formats` hold exactly stay in blocks, which products decode in registers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from onnx import TensorProto

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.values import Array, Operand, operand
from nnefc.frontends.onnx.operators.neural.block_weights import BlockWeights, derived_variable
from nnefc.frontends.onnx.quantization import known_items
from nnefc.frontends.onnx.tensors import StorageTensor

_BITS: Final = {"int4": 4, "uint4": 4, "int8": 8, "uint8": 8}


def known_blocks(
    make: OpBuilder,
    x: Any,
    scale: Operand,
    zero: Any,
    axis: int,
    block_size: int,
    *,
    may_stay: bool,
) -> Operand | None:
    """The reals of known codes in float32; None if an operand is computed or does not fit.

    `may_stay`: whether they may stay in blocks, as nothing rounds them to another type.
    """
    every = [_stored(make, each) for each in (x, scale, zero) if each is not None]
    known = [each for each in every if each is not None]
    if len(known) < len(every) or block_size < 1 or not known[0].size:
        return None
    codes, scales, *zeros = known
    at = normalize_axis(axis, codes.ndim)
    want = tuple(-(-n // block_size) if i == at else n for i, n in enumerate(codes.shape))
    if any(each.shape != want for each in (scales, *zeros)):
        return None
    points = zeros[0] if zeros else None
    sources = tuple(known)
    weights = "they are rounded to another type"
    if may_stay:
        weights = _in_blocks(codes, scales, points, at, block_size)
    if not isinstance(weights, str):
        kind, shape, blocks = weights.format(alone=True), weights.codes.shape, weights
        raw = derived_variable(make, f"{kind}.{at}", sources, lambda: blocks.stored(kind))
        matrix: Operand = make("dequantize_blocks", raw, format=kind, shape=shape)
        return make("transpose", matrix, axes=(1, 0)) if at == 0 else matrix

    def items() -> Array:
        def repeated(terms: Array) -> Array:
            wide = np.repeat(terms.astype(np.float32), block_size, at)
            return np.take(wide, range(codes.shape[at]), at)

        steps = codes.astype(np.float32)
        with np.errstate(all="ignore"):
            steps = steps if points is None else steps - repeated(points)
            return np.ascontiguousarray(steps * repeated(scales))

    kind = f"float.{at}.{block_size}"
    return derived_variable(make, kind, sources, items, reason=weights)


def _stored(make: OpBuilder, x: Any) -> Array | None:
    """The items of a constant or weight, in its own type."""
    if isinstance(x, StorageTensor):
        return x.array if x.elem_type in (TensorProto.INT4, TensorProto.UINT4) else None
    try:
        return known_items(make, operand(x))
    except TypeError:
        return None


def _in_blocks(
    codes: Array, scales: Array, zeros: Array | None, at: int, block: int
) -> BlockWeights | str:
    """A matrix that blocks of 32 items hold, whose rows are sums of products; or why it is none."""
    name = codes.dtype.name
    bits = _BITS.get(name)
    if bits is None:
        return f"codes are {name}"
    if codes.ndim != 2:
        return f"weights have {codes.ndim} dimensions"
    if codes.shape[at] % block:
        return "the last block is not whole"
    lowest = 0 if name.startswith("u") else 1 << (bits - 1)
    points = np.zeros(scales.shape, np.float32) if zeros is None else zeros.astype(np.float32)
    parts = codes.astype(np.int16) + lowest, scales.astype(np.float32), points + lowest
    items, sizes, shifted = (part.T if at == 0 else part for part in parts)
    weights = BlockWeights(items.astype(np.uint8), sizes, shifted, bits)
    return weights.reason_of_reals or weights
