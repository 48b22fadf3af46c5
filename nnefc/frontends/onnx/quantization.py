"""Quantized tensors of ONNX: codes, scales and zero points as separate operands.

real = (code - zero point) scale.  Scales and zero points belong to the tensor, to the indices of an
axis, or to blocks along an axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.operators.quantization import to_codes
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
from nnefc.ops.extended.quantized import code_limits, exceeds_float32, scale_problems


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
    """The reals of codes, in float32; narrow floats have no zero point.  Raises OperatorError."""
    codes = codes_of(make, x)
    factor = parameter(make, make.cast(scale, DType.FLOAT32), codes, axis, block_size)
    check_parameters(make, scale, zero)
    if codes.type.dtype.is_float:
        return make("mul", make.cast(codes, DType.FLOAT32), factor)
    point = zero_point(make, zero, codes.type.dtype, codes, axis, block_size)
    if not is_odd_scale(make, scale):
        return make("dequantize", codes, factor, point)
    steps = make("sub", make.cast(codes, DType.FLOAT32), make.cast(point, DType.FLOAT32))
    return make("mul", steps, factor)


def is_odd_scale(make: OpBuilder, scale: Operand) -> bool:
    """Whether a known scale has items that are not positive and finite.

    `quantize` and `dequantize` keep the order of numbers, so passes may exchange them with maxima.
    The standard allows any scale, and symmetric quantizers of onnxruntime write negative ones.
    """
    items = known_items(make, scale)
    return items is not None and bool(scale_problems(items.astype(np.float32)))


def check_parameters(make: OpBuilder, scale: Operand, zero: Any) -> None:
    """Raise OperatorError for a known scale that is not finite, and for a zero point (None: 0)
    whose shape is not that of the scale; one item may have rank 0 or 1.
    """
    items = known_items(make, scale)
    if items is not None and (wrong := items[~np.isfinite(items)]).size:
        raise OperatorError("quantization/scale", f"a scale must be finite: it is {wrong[0]}")
    if zero is None:
        return
    shapes = scale.type.dims, codes_of(make, zero).type.dims
    if shapes[0] != shapes[1] and not all(shape in ((), (1,)) for shape in shapes):
        message = f"a scale has shape {list(shapes[0])}, its zero point {list(shapes[1])}"
        raise OperatorError("onnx/shape", message)


def check_scale(make: OpBuilder, name: str, scale: Operand) -> None:
    """Raise OperatorError for a known scale `name` that is not positive and finite."""
    items = known_items(make, scale)
    if items is not None and (problems := scale_problems(items.astype(np.float32), name)):
        raise OperatorError("quantization/scale", problems[0])


def check_factor(
    make: OpBuilder, name: str, scales: Sequence[Operand], divisor: Operand | None
) -> None:
    """Raise OperatorError if float32 cannot hold the largest product of known scales `name`,
    divided by the smallest known `divisor`.
    """
    operands = (*scales, *(() if divisor is None else (divisor,)))
    known = [known_items(make, scale) for scale in operands]
    items = [x.astype(np.float64) for x in known if x is not None and x.size]
    if len(items) < len(known) or not all((x > 0).all() for x in items):
        return
    largest = math.prod(float(x.max()) for x in items[: len(scales)])
    if divisor is not None:
        largest /= float(items[-1].min())
    if exceeds_float32(np.array(largest)):
        message = f"{name} exceeds float32: it is {largest:.6g}"
        raise OperatorError("quantization/scale", message)


def one_item(make: OpBuilder, name: str, p: Operand) -> Operand:
    """A parameter of a whole tensor in rank 0; raises OperatorError."""
    if p.type.volume != 1:
        message = f"{name} must have one item; its shape is {list(p.type.dims)}"
        raise OperatorError("onnx/shape", message)
    return make.reshape(p, ())


def along(make: OpBuilder, name: str, p: Operand, of: str, shape: tuple[int, ...]) -> Operand:
    """A parameter with one item, in rank 0, or one for each of `of`, in `shape`, all of whose
    extents but one are 1; raises OperatorError.
    """
    count = math.prod(shape)
    if p.type.volume == 1:
        return make.reshape(p, ())
    if p.type.rank != 1 or p.type.volume != count:
        message = f"{name} must have one item or one for each of {count} {of}"
        raise OperatorError("onnx/shape", f"{message}; its shape is {list(p.type.dims)}")
    return make.reshape(p, shape)


def zero_point(
    make: OpBuilder, zero: Any, dtype: DType, x: Operand, axis: int = 1, block_size: int = 0
) -> Operand:
    """A zero point that broadcasts with `x`, for codes of type `dtype`; None is 0."""
    point = None if zero is None else codes_of(make, zero)
    if point is None or _is_zero(point):
        return KnownTensor(np.zeros((), dtype.numpy), dtype)
    return parameter(make, point, x, axis, block_size)


def _is_zero(x: Operand) -> bool:
    return isinstance(x, KnownTensor) and not x.is_symbolic and not x.array.any()


def quantized(
    make: OpBuilder,
    x: Operand,
    scale: Operand,
    zero: Any,
    elem_type: int,
    axis: int = 1,
    block_size: int = 0,
    *,
    saturate: bool = True,
) -> Operand | StorageTensor | NarrowTensor:
    """Codes of reals, computed in float32.  Raises OperatorError."""
    factor = parameter(make, make.cast(scale, DType.FLOAT32), x, axis, block_size)
    check_parameters(make, scale, zero)
    if elem_type in FLOATS:
        return narrowed(make, make("div", x, factor), elem_type, saturate=saturate)
    dtype = INTEGER_BITS[elem_type][1] if elem_type in INTEGER_BITS else dtype_of(elem_type)
    if dtype is None or not dtype.is_integer:
        message = f"numbers cannot be quantized to {type_name(elem_type)}"
        raise OperatorError("onnx/unsupported", message)
    point = zero_point(make, zero, dtype, x, axis, block_size)
    if elem_type in INTEGER_BITS:
        low, high = narrow_range(elem_type)
    elif is_odd_scale(make, scale):
        low, high = code_limits(dtype)
    else:
        return make("quantize", x, factor, point)
    whole = make("add", make("round_even", make("div", x, factor)), make.cast(point, x.type.dtype))
    codes = make("clamp", whole, constant(x, low), constant(x, high))
    cast = make.cast(codes, dtype)
    return stored(cast, elem_type) if elem_type in INTEGER_BITS else cast


def codes_like(make: OpBuilder, scaled: Operand, zero: Operand) -> Operand:
    """Codes of reals in units of the scale, with one zero point and its type."""
    return to_codes(make, scaled, make.reshape(zero, ()))


# -- products of codes


def zero_of(codes: Operand, zero: Operand | None) -> Operand:
    """A zero point of codes; None is 0 of their type.  Raises OperatorError for reals."""
    dtype = codes.type.dtype
    if not dtype.is_integer:
        raise OperatorError("type/operand", f"codes are integers, not {dtype}")
    return KnownTensor(np.zeros((), dtype.numpy), dtype) if zero is None else zero
