"""Quantized tensors of ONNX: codes, scales and zero points as separate operands.

real = (code - zero point) scale.  Scales and zero points belong to the tensor, to the indices of an
axis, or to blocks along an axis.  Products of codes are summed exactly, in float32 or float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from onnx import helper

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.quantization import code_range, to_codes
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.onnx.broadcasting import constant
from nnefc.frontends.onnx.narrow_types import (
    FLOATS,
    INTEGER_BITS,
    NarrowTensor,
    narrow_range,
    narrowed,
    stored,
    values_of,
)
from nnefc.frontends.onnx.tensors import StorageTensor, dtype_of, type_name
from nnefc.ir import DType

EXACT: Final = 1 << 24
"""Whole numbers up to this one are exact in float32."""


def codes_of(make: OpBuilder, x: Any) -> Operand:
    """The codes of a tensor, with those of narrow types in wider ones."""
    return values_of(make, x) if isinstance(x, StorageTensor | NarrowTensor) else operand(x)


def known_items(make: OpBuilder, x: Operand) -> Array | None:
    """The items of a constant or of a weight; None if they are computed."""
    if isinstance(x, KnownTensor):
        return None if x.is_symbolic else x.array
    if x.op is None or x.op.name != "variable":
        return None
    label = str(x.op.attributes["label"]).lower()
    variable = make.graph.variables.get(label)
    return None if variable is None else variable.data


# -- parameters


def parameter(make: OpBuilder, p: Operand, x: Operand, axis: int, block_size: int = 0) -> Operand:
    """A scale or zero point that broadcasts with `x`: one, one per index of `axis`, or blocks.

    Raises OperatorError for a shape that does not fit.
    """
    if p.type.rank == 0 or (p.type.rank == 1 and p.type.volume == 1 and not block_size):
        return make.reshape(p, ())
    at = normalize_axis(axis, x.type.rank)
    if block_size:
        return _repeated_blocks(make, p, x, at, block_size)
    if p.type.rank != 1 or p.type.dims[0] != x.type.dims[at]:
        message = f"a scale or zero point has shape {list(p.type.dims)}, which does not fit axis"
        raise OperatorError("onnx/shape", f"{message} {at} of {list(x.type.dims)}")
    return make.reshape(p, tuple(n if i == at else 1 for i, n in enumerate(x.type.dims)))


def _repeated_blocks(make: OpBuilder, p: Operand, x: Operand, at: int, block_size: int) -> Operand:
    """One parameter per item of x, from one per block along axis `at`."""
    extent = x.type.dims[at]
    want = tuple(-(-n // block_size) if i == at else n for i, n in enumerate(x.type.dims))
    if block_size < 1 or p.type.dims != want:
        message = f"blocks of {block_size} along axis {at} of {list(x.type.dims)} need parameters"
        hint = f"of shape {list(want)}, not {list(p.type.dims)}"
        raise OperatorError("onnx/shape", f"{message} {hint}")
    split = (*want[: at + 1], 1, *want[at + 1 :])
    wide = (*want[: at + 1], block_size, *want[at + 1 :])
    repeated = make.repeated(make.reshape(p, split), wide)
    joined = (*want[:at], want[at] * block_size, *want[at + 1 :])
    return slice_in_dim(make, make.reshape(repeated, joined), at, 0, extent)


# -- reals


def dequantized(
    make: OpBuilder, x: Any, scale: Operand, zero: Any, axis: int = 1, block_size: int = 0
) -> Operand:
    """The reals of codes, in float32; narrow floats have no zero point."""
    codes = codes_of(make, x)
    real = make.cast(codes, DType.FLOAT32)
    if zero is not None and not (hasattr(x, "elem_type") and x.elem_type in FLOATS):
        point = make.cast(codes_of(make, zero), DType.FLOAT32)
        if not _is_zero(point):
            real = make("sub", real, parameter(make, point, codes, axis, block_size))
    factor = parameter(make, make.cast(scale, DType.FLOAT32), codes, axis, block_size)
    return make("mul", real, factor)


def _is_zero(x: Operand) -> bool:
    return isinstance(x, KnownTensor) and not x.is_symbolic and not x.array.any()


def quantized(
    make: OpBuilder, scaled: Operand, zero: Operand | None, elem_type: int, saturate: bool = True
) -> Operand | StorageTensor | NarrowTensor:
    """Codes of reals in units of the scale; `zero` broadcasts.  Raises OperatorError."""
    dtype = dtype_of(elem_type)
    if elem_type in FLOATS:
        return narrowed(make, scaled, elem_type, saturate=saturate)
    point: Any = 0.0 if zero is None else make.cast(zero, scaled.type.dtype)
    if elem_type in INTEGER_BITS:
        low, high = narrow_range(elem_type)
        whole = make("add", make("round_even", scaled), point)
        codes = make("clamp", whole, constant(scaled, low), constant(scaled, high))
        return stored(make.cast(codes, INTEGER_BITS[elem_type][1]), elem_type)
    if dtype is None or not dtype.is_integer:
        message = f"numbers cannot be quantized to {type_name(elem_type)}"
        raise OperatorError("onnx/unsupported", message)
    return to_codes(make, scaled, point, dtype)


def codes_like(make: OpBuilder, scaled: Operand, zero: Operand) -> Operand:
    """Codes of reals in units of the scale, with one zero point and its type."""
    elem_type = helper.np_dtype_to_tensor_dtype(zero.type.dtype.numpy)
    return operand(quantized(make, scaled, make.reshape(zero, ()), elem_type))


# -- products of codes


@dataclass(frozen=True, slots=True)
class Shifted:
    """Codes less their zero point, which broadcasts with them."""

    codes: Operand
    zero: Operand | None
    most: float
    """A bound of the absolute values."""

    def real(self, make: OpBuilder, dtype: DType) -> Operand:
        """The differences in a float type."""
        x = make.cast(self.codes, dtype)
        return x if self.zero is None else make("sub", x, make.cast(self.zero, dtype))


def shifted(make: OpBuilder, codes: Operand, zero: Operand | None) -> Shifted:
    """Codes less a zero point of their type; None is 0."""
    low, high = code_range(codes.type.dtype)
    items = known_items(make, codes)
    if items is not None and items.size:
        low, high = int(items.min()), int(items.max())
    if zero is None or _is_zero(zero):
        return Shifted(codes, None, max(-low, high))
    points = known_items(make, zero)
    ends = code_range(zero.type.dtype) if points is None else (int(points.min()), int(points.max()))
    return Shifted(codes, zero, max(abs(a - b) for a in (low, high) for b in ends))


def sum_type(a: Shifted, b: Shifted, count: int) -> DType:
    """The float type in which a sum of `count` products is exact."""
    most = math.floor(a.most * b.most)
    return DType.FLOAT32 if most * count <= EXACT else DType.FLOAT64


def weight_type(make: OpBuilder, x: Shifted, w: Shifted, count: int) -> DType:
    """`sum_type`, with the bound that known weights give; dimension 0 of w has the results."""
    items = known_items(make, w.codes)
    points = np.zeros(1) if w.zero is None else known_items(make, w.zero)
    if items is None or points is None or not items.size:
        return sum_type(x, w, count)
    rows = np.abs(items.astype(np.float64) - points).reshape(len(items), -1).sum(axis=1)
    return DType.FLOAT32 if x.most * rows.max() <= EXACT else DType.FLOAT64
